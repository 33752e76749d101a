// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/replaced_data.h"

#include "torch_driver/autograd/handed_out.h"
#include "torch_driver/autograd/saved_tensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/VariableHooksInterface.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

/// A tensor's own weak count while it lives.
constexpr std::size_t kNoWeakReference = 1;

/// Those whose hooks may have saved a tensor.
struct Watchers {
    std::mutex mutex;
    std::vector<SavedTensors*> all;
};

Watchers& watchers() {
    static auto* const known = new Watchers;  // leaked: graphs may outlive main()
    return *known;
}

bool is_saved(c10::TensorImpl const* saved) {
    std::lock_guard const lock(watchers().mutex);
    return std::any_of(watchers().all.begin(), watchers().all.end(), [&](SavedTensors* watcher) {
        return watcher->has_saved(saved);
    });
}

using HandedOuts = std::vector<std::shared_ptr<HandedOut>>;

/// `tensor` was given other data: `saved` itself, or what was handed out for it. Returns what hooks
/// handed out for it.
HandedOuts report(at::Tensor const& tensor, c10::TensorImpl const* saved) {
    HandedOuts handed_out;
    if (!is_saved(saved)) {
        return handed_out;
    }
    // Made without a lock: of a wrapper subclass that runs Python, which may assign `.data` itself.
    at::Tensor const now = detached(tensor, tensor.unsafeGetTensorImpl()->version_counter());
    std::vector<at::Tensor> ended;  // goes after the lock: freeing runs foreign code
    std::lock_guard const lock(watchers().mutex);
    for (SavedTensors* const watcher : watchers().all) {
        watcher->data_was_replaced(saved, now, ended, handed_out);
    }
    return handed_out;
}

using at::TensorBase;
using at::impl::VariableHooksInterface;
/// A reference to a pointer to a node, whose kind differs between torch's versions.
using NodeOf =
    decltype(std::declval<VariableHooksInterface const&>().grad_fn(std::declval<TensorBase const&>()
    ));

/// Hands everything on to torch's own, and sees `set_data`.
class SeesSetData final : public VariableHooksInterface {
  public:
    explicit SeesSetData(VariableHooksInterface* torchs) : torchs_(torchs) {}

    /// In plain autograd what is handed out is the saved tensor itself, so what one of them is
    /// given the others are given, too.
    void set_data(TensorBase const& self, TensorBase const& data) const override {
        torchs_->set_data(self, data);
        at::Tensor const tensor(self);
        c10::TensorImpl const* saved = self.unsafeGetTensorImpl();
        if (std::shared_ptr<HandedOut> const by = made_by(tensor); by != nullptr) {
            if (at::Tensor const living = by->living(); living.defined()) {
                set_data(living, data);
                return;
            }
            saved = by->saved();
        } else if (self.weak_use_count() <= kNoWeakReference || saved->unique_version()) {
            return;  // a hook refers weakly to what it stands for, and shares its version counter
        }
        if (saved == nullptr) {
            return;
        }
        for (std::shared_ptr<HandedOut> const& handed_out : report(tensor, saved)) {
            handed_out->follow([&](at::Tensor const& made) { torchs_->set_data(made, data); });
        }
    }

    TensorBase tensor_data(TensorBase const& self) const override {
        return torchs_->tensor_data(self);
    }
    TensorBase variable_data(TensorBase const& self) const override {
        return torchs_->variable_data(self);
    }
    NodeOf grad_fn(TensorBase const& self) const override { return torchs_->grad_fn(self); }
    unsigned _register_hook(
        TensorBase const& self, std::function<TensorBase(TensorBase const&)> hook
    ) const override {
        return torchs_->_register_hook(self, std::move(hook));
    }
    void remove_hook(TensorBase const& self, unsigned position) const override {
        torchs_->remove_hook(self, position);
    }
    bool is_view(TensorBase const& self) const override { return torchs_->is_view(self); }
    TensorBase const& base(TensorBase const& self) const override { return torchs_->base(self); }
    std::string const& name(TensorBase const& self) const override { return torchs_->name(self); }
    bool is_leaf(TensorBase const& self) const override { return torchs_->is_leaf(self); }
    std::int64_t output_nr(TensorBase const& self) const override {
        return torchs_->output_nr(self);
    }
    TensorBase data(TensorBase const& self) const override { return torchs_->data(self); }
    std::int64_t _version(TensorBase const& self) const override { return torchs_->_version(self); }
    void retain_grad(TensorBase const& self) const override { torchs_->retain_grad(self); }
    bool retains_grad(TensorBase const& self) const override { return torchs_->retains_grad(self); }
    void _backward(
        at::Tensor const& self,
        at::TensorList inputs,
        std::optional<at::Tensor> const& gradient,
        std::optional<bool> keep_graph,
        bool create_graph
    ) const override {
        torchs_->_backward(self, inputs, gradient, keep_graph, create_graph);
    }
    void requires_grad_(TensorBase const& self, bool requires_grad) const override {
        torchs_->requires_grad_(self, requires_grad);
    }
    void basic_autograd_not_implemented_fallback(
        c10::OperatorHandle const& op, c10::DispatchKeySet keys, torch::jit::Stack* stack
    ) const override {
        torchs_->basic_autograd_not_implemented_fallback(op, keys, stack);
    }
    std::optional<c10::ScalarType> grad_dtype(TensorBase const& self) const override {
        return torchs_->grad_dtype(self);
    }
    void set_grad_dtype(TensorBase const& self, std::optional<c10::ScalarType> const& dtype)
        const override {
        torchs_->set_grad_dtype(self, dtype);
    }

  private:
    VariableHooksInterface* const torchs_;
};

void see_set_data() {
    static std::once_flag once;
    std::call_once(once, [] {
        // Leaked, as torch's own is.
        at::impl::SetVariableHooks(new SeesSetData(at::impl::GetVariableHooks()));
    });
}

}  // namespace

ReplacedDataWatch::ReplacedDataWatch(SavedTensors& of) : of_(of) {
    see_set_data();
    std::lock_guard const lock(watchers().mutex);
    watchers().all.push_back(&of_);
}

ReplacedDataWatch::~ReplacedDataWatch() {
    std::lock_guard const lock(watchers().mutex);
    std::erase(watchers().all, &of_);
}

}  // namespace spillway
