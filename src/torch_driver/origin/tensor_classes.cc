// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/tensor_classes.h"

#include "torch_driver/recorder/observer.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <typeinfo>

namespace spillway {

namespace {

using torch::autograd::Node;
using IsParameter = c10::function_ref<bool(c10::StorageImpl const&)>;

/// A linear layer's way from a parameter to its operand is no longer: cast, views, transpose.
constexpr int kMostNodes = 6;

/// Nodes that give on what a parameter holds, in another type or shape.
bool hands_on(Node const& node) {
    constexpr std::array<std::string_view, 9> kNames{
        "10TBackward0E",
        "15ToCopyBackward0E",
        "18TransposeBackward0E",
        "16PermuteBackward0E",
        "13ViewBackward0E",
        "19UnsafeViewBackward0E",
        "15ExpandBackward0E",
        "18UnsqueezeBackward0E",
        "14AliasBackward0E"};
    std::string_view const name = typeid(node).name();
    return std::any_of(kNames.begin(), kNames.end(), [&](auto known) {
        return name.ends_with(known);
    });
}

bool is_parameter_of_graph(at::Tensor const& tensor, IsParameter is_parameter) {
    return tensor.has_storage() && is_parameter(*tensor.storage().unsafeGetStorageImpl());
}

/// A parameter, a view of one, or a cast of one, such as autocast's.
bool is_made_of_parameter(c10::TensorImpl const* tensor, IsParameter is_parameter) {
    if (tensor == nullptr) {
        return false;
    }
    if (tensor->has_storage() && is_parameter(*tensor->unsafe_storage().unsafeGetStorageImpl())) {
        return true;
    }
    auto const* const meta =
        dynamic_cast<torch::autograd::AutogradMeta const*>(tensor->autograd_meta());
    Node const* node = meta == nullptr ? nullptr : meta->grad_fn_.get();
    for (int step = 0; node != nullptr && step < kMostNodes; ++step) {
        if (auto const* const leaf = dynamic_cast<torch::autograd::AccumulateGrad const*>(node)) {
            return is_parameter_of_graph(leaf->variable, is_parameter);
        }
        node = hands_on(*node) && node->num_outputs() == 1 ? node->next_edge(0).function.get()
                                                           : nullptr;
    }
    return false;
}

/// Of a product, either of whose sides may be the parameter, or of a convolution.
TensorClass class_of_operand(
    OpenOperator const& by, c10::TensorImpl const* tensor, IsParameter is_parameter
) {
    bool const is_product = by.kind == OperatorKind::product;
    bool const is_first = tensor == by.first;
    if (by.first == by.second || !(is_first || (is_product && tensor == by.second))) {
        return TensorClass::other;
    }
    if (is_made_of_parameter(tensor, is_parameter)) {
        return TensorClass::other;
    }
    if (is_made_of_parameter(is_first ? by.second : by.first, is_parameter)) {
        return is_product ? TensorClass::linear_input : TensorClass::convolution_input;
    }
    return is_product ? TensorClass::attention : TensorClass::other;
}

/// The CPU's dropout multiplies by zeros and one other number, made of nothing.
bool is_dropout_mask(OpenOperators const& open, SavedNow const& saved) {
    return open.outer.kind == OperatorKind::dropout &&
           saved.tensor.unsafeGetTensorImpl() == open.inner.second &&
           open.inner.second != open.outer.first && !saved.tensor.requires_grad();
}

/// The CPU's RMS norm is made of powers and products of its input, that over its root mean square,
/// and of a number for each row.
TensorClass class_in_norm(
    OpenOperators const& open, SavedNow const& saved, IsParameter is_parameter
) {
    c10::TensorImpl const* const tensor = saved.tensor.unsafeGetTensorImpl();
    bool const is_input = tensor == open.inner.first || tensor == open.inner.second;
    if (open.outer.first == nullptr || saved.is_output || !is_input ||
        is_made_of_parameter(tensor, is_parameter)) {
        return TensorClass::other;
    }
    return tensor->numel() == open.outer.first->numel() ? TensorClass::norm_input
                                                        : TensorClass::statistics;
}

TensorClass class_by_operator(SavedNow const& saved, IsParameter is_parameter) {
    OpenOperators const open = open_operators();
    OpenOperator const& by = open.inner;
    if (by.kind == OperatorKind::unknown ||
        by.node_number != static_cast<std::int64_t>(saved.node_number)) {
        return TensorClass::other;
    }
    c10::TensorImpl const* const tensor = saved.tensor.unsafeGetTensorImpl();
    bool const is_input = !saved.is_output && tensor == by.first;
    switch (by.kind) {
        case OperatorKind::product:
        case OperatorKind::convolution:
            return class_of_operand(by, tensor, is_parameter);
        case OperatorKind::norm:
            return is_input                                           ? TensorClass::norm_input
                   : saved.is_output || !saved.tensor.requires_grad() ? TensorClass::statistics
                                                                      : TensorClass::other;
        case OperatorKind::activation:
            return is_input ? TensorClass::activation_input : TensorClass::other;
        case OperatorKind::rectifier:
            return saved.is_output ? TensorClass::relu_output : TensorClass::other;
        case OperatorKind::attention:
            return saved.is_output || tensor == by.first || tensor == by.second ||
                           tensor == by.third
                       ? TensorClass::attention
                       : TensorClass::statistics;
        case OperatorKind::multiplication:
        case OperatorKind::power:
            if (open.outer.kind == OperatorKind::norm) {
                return class_in_norm(open, saved, is_parameter);
            }
            return is_dropout_mask(open, saved) ? TensorClass::mask : TensorClass::other;
        case OperatorKind::dropout:
        case OperatorKind::unknown:
            break;
    }
    return TensorClass::other;
}

}  // namespace

SaverClass both(SaverClass const& one, SaverClass const& another) {
    return one.dtype == another.dtype
               ? SaverClass{both(one.tensor_class, another.tensor_class), one.dtype}
               : SaverClass{};
}

SaverClass class_of(SavedNow const& saved, IsParameter is_parameter) {
    c10::ScalarType const dtype = saved.tensor.scalar_type();
    if (dtype == c10::ScalarType::Bool) {
        return {TensorClass::mask, dtype};
    }
    if (c10::isIntegralType(dtype, false)) {
        return {TensorClass::index, dtype};
    }
    if (torch::autograd::get_current_graph_task_id() != -1) {
        return {TensorClass::other, dtype};
    }
    return {class_by_operator(saved, is_parameter), dtype};
}

Dtype codec_dtype_of(c10::ScalarType dtype) {
    switch (dtype) {
        case c10::ScalarType::Float:
            return Dtype::f32;
        case c10::ScalarType::BFloat16:
            return Dtype::bf16;
        case c10::ScalarType::Half:
            return Dtype::f16;
        default:
            return Dtype::u8;
    }
}

}  // namespace spillway
