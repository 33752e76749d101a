// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// State of optimizers between their steps. It waits where saved tensors wait, and leaves and comes
// back as they do. Its tensors stay what and where they are, without their bytes: whoever reads one
// meanwhile gets an error that says how to have it back, never other bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <unordered_map>
#include <vector>

namespace spillway {

class SavedHook;
class TorchSession;

/// Thread  not thread-safe: its session's caller has one thread at a time
class AwayStates {
  public:
    explicit AwayStates(std::shared_ptr<TorchSession> session) : session_(std::move(session)) {}
    ~AwayStates();
    AwayStates(AwayStates const&) = delete;
    AwayStates& operator=(AwayStates const&) = delete;

    /// From here on these may leave the device. What cannot stays as it is: a tensor that is not
    /// plain, on another device, small, or that shares its storage. What was allocated outside the
    /// session's memory is copied into it.
    void let_leave(std::vector<at::Tensor> const& states);

    /// Those of these that were let leave are on the device again, with their bytes, to be written.
    ///
    /// Throws  as backward does where bytes cannot be brought back; those before it are there
    void bring_back(std::vector<at::Tensor> const& states);

    /// The same for good: where the device is the host, into memory that no budget counts, unless
    /// the calling thread's allocations are counted.
    void give_back(std::vector<at::Tensor> const& states);
    void give_all_back();

  private:
    struct Away {
        c10::weak_intrusive_ptr<at::TensorImpl, c10::UndefinedTensorImpl> state;
        c10::intrusive_ptr<c10::StorageImpl> in_place;  ///< that the state has meanwhile
        std::unique_ptr<SavedHook> hook;                ///< that keeps its bytes
    };
    using AllAway = std::unordered_map<at::TensorImpl const*, Away>;

    [[nodiscard]] bool is_in_session(at::Tensor const& state) const;
    [[nodiscard]] bool is_of_model(at::Tensor const& state) const;
    [[nodiscard]] bool can_leave(at::Tensor const& state);
    [[nodiscard]] bool is_away(at::Tensor const& state);
    void bring_back(AllAway::iterator at, bool for_good);
    void forget_dead();

    std::shared_ptr<TorchSession> const session_;
    AllAway away_;
};

}  // namespace spillway
