// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/written_in_place.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace spillway {

namespace {

/// No default hooks, ours or Python's, while it lives.
class WithoutHooks {
  public:
    WithoutHooks() : outer_(at::SavedTensorDefaultHooks::get_tls_state()) {
        at::impl::SavedTensorDefaultHooksTLS none = outer_;
        none.disabled_error_message = "no hooks while an error is put into words";
        at::SavedTensorDefaultHooks::set_tls_state(none);
    }
    ~WithoutHooks() { at::SavedTensorDefaultHooks::set_tls_state(outer_); }
    WithoutHooks(WithoutHooks const&) = delete;
    WithoutHooks& operator=(WithoutHooks const&) = delete;

  private:
    at::impl::SavedTensorDefaultHooksTLS outer_;
};

/// Of an operator that wrote a view in place, where the node that runs puts its gradient into the
/// base's: torch names the operator.
NodePtr operator_of(NodePtr node) {
    if (node == nullptr || node != torch::autograd::get_current_node()) {
        return node;
    }
    auto const* const slices = dynamic_cast<torch::autograd::CopySlices const*>(node.get());
    return slices == nullptr || slices->fn == nullptr ? node : slices->fn;
}

}  // namespace

void raise_written_in_place(
    at::Tensor const& like,
    std::uint32_t saved_version,
    std::uint32_t now,
    NodePtr node,
    std::uint32_t output
) {
    c10::VariableVersion counter(saved_version);
    at::Tensor twin(like.unsafeGetTensorImpl()->shallow_copy_and_detach(counter, true));
    if (node != nullptr) {
        torch::autograd::impl::set_gradient_edge(twin, {operator_of(std::move(node)), output});
    }
    WithoutHooks const none;
    torch::autograd::SavedVariable const saved(twin, false);
    counter.set_version(now);  // twin's and saved's counter too
    (void)saved.unpack();
    TORCH_CHECK(
        false,
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: ",
        like.sizes(),
        " is at version ",
        now,
        "; expected version ",
        saved_version,
        " instead."
    );
}

}  // namespace spillway
