// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/operator_kind.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <cstddef>
#include <string_view>
#include <unordered_map>

namespace spillway {

namespace {

/// Where in its arguments an operator's tensors are.
struct Signature {
    OperatorKind kind = OperatorKind::unknown;
    int first = -1;
    int second = -1;
    int third = -1;
};

constexpr Signature kProduct{OperatorKind::product, 0, 1};
constexpr Signature kProductPlus{OperatorKind::product, 1, 2};
constexpr Signature kConvolution{OperatorKind::convolution, 0, 1};
constexpr Signature kNorm{OperatorKind::norm, 0};
constexpr Signature kActivation{OperatorKind::activation, 0};
constexpr Signature kRectifier{OperatorKind::rectifier, 0};
constexpr Signature kAttention{OperatorKind::attention, 0, 1, 2};
constexpr Signature kSoftmax{OperatorKind::attention, 0};
constexpr Signature kDropout{OperatorKind::dropout, 0};
constexpr Signature kMultiplication{OperatorKind::multiplication, 0, 1};
constexpr Signature kPower{OperatorKind::power, 0};

/// Those that make a node of their own, and those whose parts do on the CPU: dropout and RMS norm.
/// What is not here saves what nothing is known of.
std::unordered_map<std::string_view, Signature> const& signatures() {
    static std::unordered_map<std::string_view, Signature> const known{
        {"aten::mm", kProduct},
        {"aten::bmm", kProduct},
        {"aten::mv", kProduct},
        {"aten::linear", kProduct},
        {"aten::addmm", kProductPlus},
        {"aten::addmm_", kProductPlus},
        {"aten::baddbmm", kProductPlus},
        {"aten::baddbmm_", kProductPlus},
        {"aten::convolution", kConvolution},
        {"aten::convolution_overrideable", kConvolution},
        {"aten::cudnn_convolution", kConvolution},
        {"aten::native_layer_norm", kNorm},
        {"aten::native_group_norm", kNorm},
        {"aten::native_batch_norm", kNorm},
        {"aten::_native_batch_norm_legit", kNorm},
        {"aten::_batch_norm_with_update", kNorm},
        {"aten::cudnn_batch_norm", kNorm},
        {"aten::miopen_batch_norm", kNorm},
        {"aten::_fused_rms_norm", kNorm},
        {"aten::gelu", kActivation},
        {"aten::silu", kActivation},
        {"aten::mish", kActivation},
        {"aten::elu", kActivation},
        {"aten::celu", kActivation},
        {"aten::softplus", kActivation},
        {"aten::hardswish", kActivation},
        {"aten::log_sigmoid_forward", kActivation},
        {"aten::relu", kRectifier},
        {"aten::relu_", kRectifier},
        {"aten::_softmax", kSoftmax},
        {"aten::_safe_softmax", kSoftmax},
        {"aten::_scaled_dot_product_flash_attention", kAttention},
        {"aten::_scaled_dot_product_flash_attention_for_cpu", kAttention},
        {"aten::_scaled_dot_product_efficient_attention", kAttention},
        {"aten::_scaled_dot_product_cudnn_attention", kAttention},
        {"aten::_scaled_dot_product_fused_attention_overrideable", kAttention},
        {"aten::_flash_attention_forward", kAttention},
        {"aten::_efficient_attention_forward", kAttention},
        {"aten::dropout", kDropout},
        {"aten::dropout_", kDropout},
        {"aten::mul", kMultiplication},
        {"aten::mul_", kMultiplication},
        {"aten::pow", kPower}};
    return known;
}

c10::TensorImpl const* tensor_at(c10::ArrayRef<c10::IValue const> arguments, int index) {
    auto const i = static_cast<std::size_t>(index);
    return index >= 0 && i < arguments.size() && arguments[i].isTensor()
               ? arguments[i].toTensor().unsafeGetTensorImpl()
               : nullptr;
}

}  // namespace

OpenOperator opened(at::RecordFunction const& function) {
    auto const known = signatures().find(function.name());
    if (known == signatures().end()) {
        return {};
    }
    Signature const& signature = known->second;
    return {
        signature.kind,
        function.seqNr(),
        tensor_at(function.inputs(), signature.first),
        tensor_at(function.inputs(), signature.second),
        tensor_at(function.inputs(), signature.third)};
}

}  // namespace spillway
