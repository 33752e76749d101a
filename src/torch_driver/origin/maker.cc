// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/maker.h"

#include "torch_driver/origin/generated_node.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <typeinfo>

namespace spillway {

namespace {

using torch::autograd::Edge;

/// From a layer's output to its reader there are no more: a split, a view, a transpose, a cast.
constexpr int kMostSteps = 8;

constexpr std::string_view kCast = "ToCopy";
constexpr std::array<std::string_view, 20> kViews{
    "Alias",  "AsStrided",   "Clone",      "Diagonal",       "Expand",  "Permute", "ReshapeAlias",
    "Select", "Slice",       "Split",      "SplitWithSizes", "Squeeze", "T",       "Transpose",
    "Unbind", "UnsafeSplit", "UnsafeView", "Unsqueeze",      "View",    kCast};

/// "View" of torch's own "ViewBackward0"; empty for what is no node of torch's.
std::string_view operation_of(std::type_info const& node) {
    std::string_view const name = generated_node(node).value_or(std::string_view{});
    return name.substr(0, name.rfind("Backward"));
}

Origin origin_of(Edge const& edge) {
    torch::autograd::Node const& node = *edge.function;
    return {&typeid(node), edge.input_nr, node.sequence_nr(), node.thread_id()};
}

}  // namespace

Maker maker_of(at::Tensor const& tensor) {
    auto const* const meta = torch::autograd::impl::get_autograd_meta(tensor);
    if (meta == nullptr || meta->grad_fn_ == nullptr) {
        return {};
    }
    Maker maker;
    Edge edge(meta->grad_fn_, meta->output_nr_);
    for (int step = 0; edge.function != nullptr; ++step) {
        maker.origin = origin_of(edge);
        if (*maker.origin.node == typeid(torch::autograd::AccumulateGrad)) {
            auto const& leaf = static_cast<torch::autograd::AccumulateGrad const&>(*edge.function);
            if (leaf.variable.has_storage()) {
                maker.leaf = leaf.variable.storage().unsafeGetStorageImpl();
            }
            break;
        }
        std::string_view const operation = operation_of(*maker.origin.node);
        bool const passes = std::find(kViews.begin(), kViews.end(), operation) != kViews.end();
        if (!passes || step == kMostSteps || edge.function->num_outputs() == 0) {
            return maker;
        }
        maker.is_cast = maker.is_cast || operation == kCast;
        edge = edge.function->next_edge(0);
    }
    maker.origin = {};
    return maker;
}

}  // namespace spillway
