// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The session inside torch: one loop, one device, its saved tensors, tied to torch's allocator,
// hooks and graph tasks. Owned by the public Session, by recordings and by every saved tensor.
#pragma once

#include "base/mutex.h"
#include "memory/device.h"
#include "session/codec_rule.h"
#include "session/loop.h"
#include "session/making_again.h"
#include "session/peak_watch.h"
#include "spillway/session.h"
#include "torch_driver/allocator/device_blocks.h"
#include "torch_driver/allocator/nested_budget.h"
#include "torch_driver/autograd/saved_hook.h"
#include "torch_driver/autograd/saved_tensors.h"
#include "torch_driver/device/session_device.h"
#include "torch_driver/python/python_lock.h"
#include "torch_driver/recorder/ambient.h"
#include "torch_driver/session/codec_choice.h"
#include "torch_driver/session/once_per_backward.h"
#include "torch_driver/session/planned_operators.h"
#include "torch_driver/session/session_use.h"
#include "torch_driver/session/step_estimate.h"
#include "torch_driver/states/living_gradients.h"
#include "torch_driver/states/owned_storages.h"

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace spillway {

/// Opened by open_session.h.
///
/// Thread  any, as each part of it specifies. Events reach the loop in turns (Loop::take_turn); no
///         mutex of a part is held meanwhile
class TorchSession final : public std::enable_shared_from_this<TorchSession>, public BudgetOwner {
  public:
    /// Of `options` it reads what is of the driver alone: the size floor, when it caps, whether
    /// saves are kept. `loop` has the rest.
    TorchSession(
        SessionDevice device,
        std::unique_ptr<Mover> mover,
        LoopOptions loop,
        SessionOptions const& options
    );
    ~TorchSession() override;

    /// From now on what leaves is encoded as `rule` decides, through `staging_bytes` of staging
    /// that count in the budget. Before the first save.
    void encode_by(std::unique_ptr<CodecRule> rule, std::int64_t staging_bytes);

    /// A forward begins: slots are counted afresh, and so are saves.
    void begin_pass();
    /// The next step begins with what autograd saves first in a forward, unless a pass begins
    /// before.
    void step_is_due() { step_is_due_ = true; }
    /// The phase that begins, for the loop and for what measures steps.
    void phase(Phase phase);

    // For hooks.
    [[nodiscard]] SavedTensors& saved_tensors() { return saved_; }
    /// Of a tensor that may leave.
    void save(SavedHook& hook, at::Tensor const& tensor);
    /// Of an optimizer's state, which `alias` alone refers to.
    void save_state(SavedHook& hook, at::Tensor const& alias);
    /// What such a hook keeps, on the device, to be written.
    [[nodiscard]] at::Tensor bring_state_back(SavedHook const& hook);
    /// A tensor was saved that stays.
    void pass(SavedHook const& hook, at::Tensor const& tensor, Stay stay);
    /// The same, as it was given, class and attributes included. Under Python's lock.
    void pass_whole(SavedHook const& hook, at::Tensor const& tensor, Stay stay);
    /// A node of a backward asks for what it saved. What has to be known of its backward is, from
    /// then on.
    void runs_backward_here();
    /// What the hook stands for; `is_of_torch`: for a node that only reads it.
    [[nodiscard]] at::Tensor bring_back(SavedHook const& hook, bool is_of_torch);

    // For allocators.
    /// Calls `try_once` until it succeeds, with room made after each failure.
    ///
    /// Throws  OutOfBudget: nothing more can leave
    void make_room_until(std::int64_t size_bytes, c10::function_ref<bool()> try_once);
    [[nodiscard]] void* allocate(std::int64_t size_bytes);
    /// As SessionUse::caps.
    [[nodiscard]] bool caps() const override { return use_.caps(); }

    /// Who uses it. What ends a use calls `end_use` or `leave` here.
    [[nodiscard]] SessionUse& use() { return use_; }
    void end_use();
    void leave();

    /// Whether operators are to be watched while it records, so that savers have a class.
    [[nodiscard]] bool classifies_tensors() const {
        return codec_choice_.has_value() || plans_ || loop_->is_tracing();
    }
    /// Where the calling thread's operators are recorded, so that values can be made again; null:
    /// nothing is.
    [[nodiscard]] std::shared_ptr<CallRecorder> recorder_of_this_thread();

    // For a session inside another.
    /// The budget of `session`, in a pointer that keeps it as `session` does.
    [[nodiscard]] static std::shared_ptr<NestedBudget> budget_of(
        std::shared_ptr<TorchSession> const& session
    ) {
        return {session, &session->budget_};
    }
    [[nodiscard]] bool make_room(std::int64_t size_bytes) override;
    [[nodiscard]] bool make_room_for_another(std::int64_t size_bytes) override;
    [[nodiscard]] std::string const& opened_at() const override { return opened_at_; }

    // For the public Session.
    [[nodiscard]] bool states_leave() const { return states_leave_; }
    [[nodiscard]] std::shared_ptr<Device> const& device() const { return device_; }
    [[nodiscard]] Loop& loop() { return *loop_; }
    /// Throws  BadOption: they leave nothing of the device budget
    void own(
        std::vector<at::Tensor> const& tensors,
        std::vector<std::string> const& names = {},
        std::vector<OwnedKind> const& kinds = {}
    );
    [[nodiscard]] OwnedStorages& owned() { return owned_; }
    [[nodiscard]] Report report();
    [[nodiscard]] std::optional<Refusal> last_refusal();
    /// The parameters of this step: the report's peak shows their gradients separately.
    void add_trained(std::vector<at::Tensor> const& parameters) { gradients_.add(parameters); }
    /// An optimizer's step begins, which will allocate `state_bytes` that stay; 0: not known.
    void update_begins(std::int64_t state_bytes) {
        estimate_.update_begins(needed_bytes_, state_bytes);
    }
    void update_ends() { estimate_.update_ends(); }
    void end_cap();
    /// Where the budget bounds an arena: so many bytes more may be on the device, since they leave
    /// the session as soon as they are there. 0: no longer.
    void allow_beyond(std::int64_t bytes);
    /// While it is on, nothing that is saved loses anything.
    void exact(bool on);
    /// "step 3, forward".
    [[nodiscard]] std::string place() const;

  private:
    /// A backward begins, where that is not known yet: in a program that reports no phases, what is
    /// saved after it is of a forward again.
    void begin_backward();
    void turns_forward(bool is_in_backward);
    void begin_due_step();
    void begin_counts();
    /// The backward that the calling thread runs is counted and capped to its end, on this thread:
    /// gradients come after the last saved tensor has gone.
    void cap_this_backward();
    void report_backward_order();
    [[nodiscard]] at::Tensor wait_for(
        ValueId value, SavedHook const* hook, bool is_of_torch, WithoutPythonLock& without_lock
    );
    void see_need(std::int64_t size_bytes);
    /// Counts owned storages from outside the session that have been freed since `own` no more.
    /// Returns whether there were any.
    bool recharge();
    void see_peak(std::int64_t used_bytes);
    /// However far the limit is: a trace or a plan asks for recipes.
    [[nodiscard]] bool needs_recipes() const;
    void make_recipes(bool is_short);
    void make_last_recipes();
    void add_to_trace();
    /// Those that are known since `own`, and those of the leaves in use.
    [[nodiscard]] std::int64_t gradient_bytes() const;
    /// Of what is owned, all but gradients.
    [[nodiscard]] std::int64_t stays_bytes() const;
    [[nodiscard]] std::unordered_map<ValueId, std::string> modules() {
        return saved_.log().modules();
    }
    [[noreturn]] void refuse(std::string const& why, Refusal refusal);

    std::uint64_t const number_;  ///< which no other session has in this process
    Face const face_;
    /// True, from Python: each Recording and Update is given the parameters that it trains. False:
    /// they are among what `own` was given.
    bool const trained_is_given_;
    std::string const opened_at_;
    std::shared_ptr<Device> device_;
    std::shared_ptr<void> pool_limit_;
    DeviceBlocks const blocks_;
    OwnedStorages owned_;
    LivingGradients gradients_;
    SavedTensors saved_;
    AmbientUser const ambient_user_;
    MakingAgain const making_again_;
    bool const makes_again_unplanned_;  ///< what no plan names, too
    std::unique_ptr<Loop> loop_;
    std::optional<CodecChoice> codec_choice_;  ///< none: nothing leaves encoded
    std::int64_t coded_bytes_ = 0;             ///< of staging, which counts in the budget
    SessionUse use_;
    NestedBudget budget_;
    StepEstimate estimate_;
    PeakWatch peak_;
    Mutex owned_mutex_;
    std::int64_t charged_bytes_ SPILLWAY_GUARDED_BY(owned_mutex_) = 0;  ///< to the device
    std::uint64_t charges_ SPILLWAY_GUARDED_BY(owned_mutex_) = 0;       ///< by `own`, so far
    std::int64_t beyond_bytes_ SPILLWAY_GUARDED_BY(owned_mutex_) = 0;   ///< allow_beyond
    OwnedBytes owned_bytes_ SPILLWAY_GUARDED_BY(owned_mutex_){};        ///< as of the last `own`
    bool const states_leave_;                                           ///< SessionOptions::states
    bool const plans_;  ///< for itself: its steps are recorded with all that a policy asks for
    Mutex recorders_mutex_;
    std::unordered_map<std::thread::id, std::shared_ptr<CallRecorder>> recorders_
        SPILLWAY_GUARDED_BY(recorders_mutex_);
    PlannedOperators planned_operators_ SPILLWAY_GUARDED_BY(recorders_mutex_);
    Mutex refusal_mutex_;
    std::optional<Refusal> last_refusal_ SPILLWAY_GUARDED_BY(refusal_mutex_);
    std::atomic<std::int64_t> filed_count_{0};  ///< saved tensors that could leave
    std::atomic<std::int64_t> passed_count_{0};
    std::atomic<std::int64_t> needed_bytes_{0};  ///< Report::device_needed_bytes
    std::atomic<bool> turned_ = false;           ///< a backward that begun changed the phase
    std::atomic<bool> step_is_due_ = false;
    OncePerBackward begun_;
    OncePerBackward order_reported_;
    OncePerBackward capped_;
};

}  // namespace spillway
