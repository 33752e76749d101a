// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The session inside torch: one loop, one device, its saved tensors, tied to torch's allocator,
// hooks and graph tasks. Owned by the public Session, by recordings and by every saved tensor.
#pragma once

#include "memory/device.h"
#include "session/codec_rule.h"
#include "session/loop.h"
#include "spillway/session.h"
#include "torch_driver/allocator/device_blocks.h"
#include "torch_driver/allocator/nested_budget.h"
#include "torch_driver/autograd/python_lock.h"
#include "torch_driver/autograd/saved_hook.h"
#include "torch_driver/autograd/saved_tensors.h"
#include "torch_driver/device/session_device.h"
#include "torch_driver/session/forks.h"
#include "torch_driver/session/step_estimate.h"
#include "torch_driver/states/owned_storages.h"

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace spillway {

class TorchSession final : public std::enable_shared_from_this<TorchSession>, public BudgetOwner {
  public:
    /// Throws  BadOption
    [[nodiscard]] static std::shared_ptr<TorchSession> open(SessionOptions const& options);
    /// The same on a device and tiers of the caller's; tiers may be null.
    [[nodiscard]] static std::shared_ptr<TorchSession> open_on(
        SessionOptions const& options,
        SessionDevice device,
        std::unique_ptr<Tier> host,
        std::unique_ptr<Tier> nvme,
        MoverOptions mover = {}
    );
    ~TorchSession() override;

    TorchSession(TorchSession const&) = delete;
    TorchSession& operator=(TorchSession const&) = delete;

    /// The phase that begins, for the loop and for what measures steps.
    void phase(Phase phase);

    // For hooks.
    [[nodiscard]] SavedTensors& saved_tensors() { return saved_; }
    void save(SavedHook& hook, at::Tensor const& tensor);
    /// What the hook stands for; `is_of_torch`: for a node that only reads it.
    [[nodiscard]] at::Tensor bring_back(SavedHook const& hook, bool is_of_torch);

    // For allocators.
    /// Calls `try_once` until it succeeds, with room made after each failure.
    ///
    /// Throws  c10::OutOfMemoryError: nothing more can leave
    void make_room_until(std::int64_t size_bytes, c10::function_ref<bool()> try_once);
    [[nodiscard]] void* allocate(std::int64_t size_bytes);
    /// Whether it counts and caps what its threads allocate: until `end_cap`, and, where its owner
    /// has gone or it has lapsed, only while it is in use: a thread is in it, an optimizer steps,
    /// or a backward of what it recorded runs. Graphs that torch alone still keeps cap nothing.
    [[nodiscard]] bool caps() const override {
        return caps_ && !is_forked() && ((has_owner_ && !lapsed_) || is_in_use());
    }
    [[nodiscard]] bool is_in_use() const { return uses_.load(std::memory_order_relaxed) > 0; }
    /// What is left of its graphs may be an error's: until it is entered again it caps only while
    /// it is in use. Not where it caps from its opening to its end.
    void lapse() { lapsed_ = !caps_from_open_; }
    /// Its public handle is gone.
    void owner_gone() { has_owner_ = false; }
    /// A thread is in it, or a backward of its graph runs.
    void begin_use() { ++uses_; }
    void end_use();
    /// The backward that the calling thread runs is counted and capped to its end, on this thread:
    /// gradients come after the last saved tensor has gone.
    void cap_this_backward();
    [[nodiscard]] bool caps_from_open() const { return caps_from_open_; }

    /// A backward begins, where that is not known yet: in a program that tells no phases, what is
    /// saved after it is of a forward again.
    void begin_backward();

    /// Whether operators are to be watched while it records, so that savers have a class.
    [[nodiscard]] bool tells_classes() const { return rule_ != nullptr; }

    /// A thread is in it, under so many hooks of Python's.
    void enter(std::size_t python_hooks) {
        python_hooks_ = python_hooks;
        lapsed_ = false;
        ++entered_;
        begin_use();
    }
    void leave() {
        --entered_;
        end_use();
    }
    [[nodiscard]] bool is_entered() const { return entered_ > 0 && !is_forked(); }
    /// Where it was entered last.
    [[nodiscard]] std::size_t python_hooks() const { return python_hooks_; }

    /// This process is a child of the one that opened it: there it neither caps nor records.
    [[nodiscard]] bool is_forked() const { return forks_so_far() != forks_; }

    // For a session inside another.
    /// The budget of `session`, in a pointer that keeps it as `session` does.
    [[nodiscard]] static std::shared_ptr<NestedBudget> budget_of(
        std::shared_ptr<TorchSession> const& session
    ) {
        return {session, &session->budget_};
    }
    [[nodiscard]] bool make_room(std::int64_t size_bytes) override;
    [[nodiscard]] bool make_room_for_another(std::int64_t size_bytes) override;

    // For the public Session.
    [[nodiscard]] std::shared_ptr<Device> const& device() const { return device_; }
    [[nodiscard]] Loop& loop() { return *loop_; }
    /// Throws  BadOption: they leave nothing of the device budget
    void own(
        std::vector<at::Tensor> const& tensors,
        std::vector<std::string> const& names = {},
        std::vector<OwnedKind> const& kinds = {}
    );
    [[nodiscard]] OwnedStorages const& owned() const { return owned_; }
    [[nodiscard]] Report report();
    [[nodiscard]] std::optional<Refusal> last_refusal() { return loop_->last_refusal(); }
    /// An optimizer's step begins, which will allocate `state_bytes` that stay; 0: not known.
    void update_begins(std::int64_t state_bytes) {
        estimate_.update_begins(needed_bytes_, state_bytes);
    }
    void update_ends() { estimate_.update_ends(); }
    void end_cap();
    void exact(bool on) { exact_ = on; }
    /// "step 3, forward".
    [[nodiscard]] std::string place() const;

  private:
    TorchSession(
        SessionDevice device,
        std::unique_ptr<Mover> mover,
        LoopOptions options,
        SessionOptions const& session
    );
    void follow(std::unique_ptr<CodecRule> rule, std::int64_t staging_bytes);
    [[nodiscard]] SavedAs ask_rule(SavedTensors::Fresh const& fresh, bool is_in_backward);
    void tell_backward_order();
    [[nodiscard]] at::Tensor wait_for(
        ValueId value, SavedHook const* hook, bool is_of_torch, WithoutPythonLock& without_lock
    );
    void see_need(std::int64_t size_bytes);
    [[noreturn]] void raise_out_of_memory(std::string const& why);

    std::shared_ptr<Device> device_;
    std::shared_ptr<void> pool_limit_;
    DeviceBlocks const blocks_;
    OwnedStorages owned_;
    SavedTensors saved_;
    std::unique_ptr<Loop> loop_;
    std::mutex rule_mutex_;
    std::unique_ptr<CodecRule> rule_;  ///< null: nothing leaves encoded
    std::atomic<bool> exact_ = false;  ///< no lossy codec now, whatever the rule says
    std::int64_t coded_bytes_ = 0;     ///< of staging, which counts in the budget
    std::atomic<std::int64_t> saved_count_{0};
    std::atomic<std::int64_t> passed_count_{0};
    std::atomic<std::int64_t> needed_bytes_{0};  ///< Report::device_needed_bytes
    StepEstimate estimate_;
    std::atomic<bool> caps_{true};
    bool const caps_from_open_;
    std::atomic<bool> has_owner_{true};
    std::atomic<bool> lapsed_{false};  ///< see `lapse`
    std::atomic<int> uses_{0};
    std::atomic<int> entered_{0};
    int const forks_ = forks_so_far();
    std::atomic<std::size_t> python_hooks_{0};
    NestedBudget budget_;
    std::atomic<int> told_{-1};         ///< the graph task of the backward whose order was told
    std::atomic<int> begun_{-1};        ///< and of the one that was seen to begin
    std::atomic<bool> turned_ = false;  ///< that changed the phase
    std::atomic<int> capped_{-1};       ///< and of the one that is capped, the last that was
};

}  // namespace spillway
