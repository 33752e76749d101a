// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One saved tensor: what autograd's node holds instead of the tensor. It keeps a detached alias
// until the tensor's value leaves the device, and gives the tensor back bit for bit.
#pragma once

#include "base/ids.h"
#include "torch_driver/autograd/eligibility.h"
#include "torch_driver/autograd/geometry.h"
#include "torch_driver/compat.h"
#include "torch_driver/origin/origin.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace torch::autograd {
struct Node;
}

namespace spillway {

class HandedOut;
class TorchSession;
struct SavedValue;  // saved_values.h

/// Thread  pack and unpack on the threads that autograd chooses; destroyed on any thread, where it
///         does not throw, and waits only as the last of a session that was closed: for the stores
///         and loads in flight
class SavedHook final : public torch::autograd::SavedVariableHooks {
  public:
    explicit SavedHook(std::shared_ptr<TorchSession> session);
    ~SavedHook() override;

    void call_pack_hook(at::Tensor const& given) override;

    /// Fails   with torch's own words when the tensor was written in place since it was saved; with
    ///         the tier's error when its bytes cannot be brought back
    at::Tensor call_unpack_hook() override;

    /// Of no node: keeps an optimizer's state, of which `alias` is a detached one, until the hook
    /// dies. It is asked for by `TorchSession::bring_state_back`.
    void keep_state(at::Tensor alias);

    /// No Python hooks here: compiled autograd unpacks at once, which is right.
    std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data(
    ) const override {
        return std::nullopt;
    }

    [[nodiscard]] ValueId value() const { return value_; }
    /// Torch makes a variable of its own of what is unpacked, so that nobody sees the tensor
    /// itself.
    [[nodiscard]] bool is_wrapped() const { return is_wrapped_; }
    /// The sequence number of the node that saves.
    [[nodiscard]] std::uint64_t node_number() const { return node_number_; }

  private:
    friend class SavedTensors;

    static constexpr std::size_t kNotListed = static_cast<std::size_t>(-1);

    /// Raises what plain autograd raises for a tensor that was written in place.
    void check_version() const;
    /// Raises what plain autograd raises where what was saved, and lives, lost its graph.
    void check_original(at::Tensor const& original) const;
    /// Torch keeps `requires_grad` as it was at the save, so a recorded backward would lose the
    /// gradient of an input that wants one only since: raises.
    void check_gradient_wanted(at::Tensor const& original) const;
    /// The saved variable was given another storage or view since (`x.data = y`), as FSDP does
    /// with parameters; plain autograd sees that one.
    [[nodiscard]] bool is_another_now(at::Tensor const& original) const;
    /// What an unpack had made was saved, and has gone since: what its user made of it, if
    /// anything.
    [[nodiscard]] at::Tensor what_became_of_unpacked() const;
    /// Whether the node that runs made the saved tensor in a way that `is_output_` does not show,
    /// since it made others after itself: a Function that records a graph in its forward, or that
    /// writes a view in place, for which torch makes other nodes. Null: none runs.
    [[nodiscard]] bool is_output_of(torch::autograd::Node const* running) const;
    /// What stays on the device is kept as plain autograd keeps it: itself, if that is no cycle.
    [[nodiscard]] bool may_keep_itself(at::Tensor const& tensor) const;
    /// What a node made must not be kept itself by that node. Which one saves is known where the
    /// operator that runs has made one alone: then it is that (`_foreach_exp_`, a dual tensor's
    /// operators and extensions under Python's lock save after they made others).
    [[nodiscard]] bool is_made_by_another() const;
    /// Keeps an alias of `tensor`, which is `given` or a copy of that, where that is possible.
    void keep_alias(at::Tensor const& given, at::Tensor const& tensor, Stay stay);
    /// Torch does not return `unpacked` as it is, but a variable of its own, since that wanted a
    /// gradient when it was saved or wants one now.
    [[nodiscard]] bool torch_copies(at::Tensor const& unpacked) const;
    /// What the hook stands for, to the code that asks; `is_of_torch`: it only reads. `original`
    /// may be undefined; `is_replaced`: `tensor` is what the saved one became.
    [[nodiscard]] at::Tensor hand_out(
        at::Tensor tensor, at::Tensor const& original, bool is_of_torch, bool is_replaced
    );

    std::shared_ptr<TorchSession> session_;  ///< a session lives as long as its graphs
    /// A detached alias, undefined while the value is away. What is passed through is kept itself
    /// where `may_keep_itself`.
    at::Tensor kept_;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage_;  ///< of what was saved; may be none
    c10::VariableVersion version_;  ///< shared with the saved tensor and its views
    std::uint32_t saved_version_ = 0;
    /// What was saved, as far as plain autograd would keep it itself: not a node's own output.
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> original_{
        c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()};
    at::Tensor replaced_by_;  ///< what `original_` was given since (`x.data = y`); else undefined
    at::Tensor attributes_;   ///< empty, with what Python set on the saved tensor; or none
    std::shared_ptr<HandedOut> made_by_;  ///< what made the saved tensor: an unpack; or null
    Origin origin_;
    bool is_output_ = false;  ///< of the very node that saves it
    bool is_wrapped_ = false;
    bool is_itself_ = false;      ///< `kept_` is what was saved; what only aliases need is not set
    bool is_kept_whole_ = false;  ///< of a Python subclass: `kept_` is the tensor itself
    std::uint64_t node_number_ = 0;       ///< sequence number of the node that saves
    std::uint64_t writer_number_ = 0;     ///< of the CopySlices that wrote it, a view; 0: none
    ValueId value_;                       ///< invalid: passed through
    SavedValue* filed_ = nullptr;         ///< the value's entry; null: passed through
    std::size_t passed_at_ = kNotListed;  ///< its place among the passed ones
    std::unique_ptr<Geometry> geometry_;  ///< there when the alias is not
    std::atomic<bool> was_handed_out_ = false;            ///< quicker to ask than `handed_out_`
    std::atomic<std::shared_ptr<HandedOut>> handed_out_;  ///< null: to torch's own nodes only
};

}  // namespace spillway
