// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/maker.h"

#include "torch_driver/origin/generated_node.h"
#include "torch_driver/origin/known_of_type.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <typeinfo>

namespace spillway {

namespace {

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

/// What a node does to the elements of its input, as its name says.
enum class Passing : std::uint8_t { makes, views, casts, is_leaf };

Passing passing_of(std::type_info const& node) {
    if (node == typeid(torch::autograd::AccumulateGrad)) {
        return Passing::is_leaf;
    }
    std::string_view const operation = operation_of(node);
    bool const passes = std::find(kViews.begin(), kViews.end(), operation) != kViews.end();
    return operation == kCast ? Passing::casts : passes ? Passing::views : Passing::makes;
}

}  // namespace

Maker maker_of(at::Tensor const& tensor) {
    auto const* const meta = torch::autograd::impl::get_autograd_meta(tensor);
    if (meta == nullptr || meta->grad_fn_ == nullptr) {
        return {};
    }
    static thread_local KnownOfType<Passing> known;
    Maker maker;
    torch::autograd::Node const* node = meta->grad_fn_.get();
    std::uint32_t output = meta->output_nr_;
    for (int step = 0; node != nullptr; ++step) {
        std::type_info const& type = typeid(*node);
        maker.origin = {&type, output, node->sequence_nr(), node->thread_id()};
        Passing const passing = known.of(type, passing_of);
        if (passing == Passing::is_leaf) {
            auto const& leaf = static_cast<torch::autograd::AccumulateGrad const&>(*node);
            if (leaf.variable.has_storage()) {
                maker.leaf = leaf.variable.storage().unsafeGetStorageImpl();
            }
            break;
        }
        if (passing == Passing::makes || step == kMostSteps || node->num_outputs() == 0) {
            return maker;
        }
        maker.is_cast = maker.is_cast || passing == Passing::casts;
        auto const& next = node->next_edge(0);
        output = next.input_nr;
        node = next.function.get();
    }
    maker.origin = {};
    return maker;
}

}  // namespace spillway
