// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which operators made what storages hold, so that it can be made again.
#pragma once

#include "torch_driver/recorder/call.h"

#include <ATen/core/Tensor.h>
#include <c10/util/flat_hash_map.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace at {
struct RecordFunction;
}

namespace spillway {

class OperatorCallback;

/// What operators of one thread made. Of operators inside one another the innermost counts that
/// runs above autograd: those are the ones that can be run again.
///
/// Thread  the one that records
class CallRecorder {
  public:
    /// `runs_costly`: products, convolutions and attention may run again, too.
    explicit CallRecorder(bool runs_costly = false) : runs_costly_(runs_costly) {}
    CallRecorder(CallRecorder const&) = delete;
    CallRecorder& operator=(CallRecorder const&) = delete;

    /// What `storage` holds now; null: nothing that is recorded made, read or wrote it.
    [[nodiscard]] ContentRef content_of(c10::StorageImpl const* storage) const;

    /// The storage of `tensor` is saved now as `value`: what it holds is filled in at once, or when
    /// the operator ends that saves it. `is_output`: it is a result of that.
    [[nodiscard]] std::shared_ptr<SavedContent> saved(
        at::Tensor const& tensor, ValueId value, bool is_output
    );

    /// Contents that are looked up, of which some may have gone.
    [[nodiscard]] std::size_t size() const { return contents_.size(); }

    /// From here on calls of other operators are not recorded, unless they write to what they are
    /// given: what they make counts as there before. Null: all are recorded.
    void record_only(std::shared_ptr<OperatorSet const> operators) { only_ = std::move(operators); }
    /// Calls that were recorded so far, with their arguments.
    [[nodiscard]] std::int64_t recorded_calls() const { return recorded_calls_; }

    /// Forgets what storages hold. What is referred to stays.
    void begin_step();

    /// Operators that run are recorded no further.
    void leave_open() { depth_ = 0; }

    /// From any thread: whether its recording goes on.
    void go_on(bool goes_on) { goes_on_ = goes_on; }
    [[nodiscard]] bool goes_on() const { return goes_on_; }

    /// An operator begins and ends. Recorded are those of torch's own callback.
    void begins(at::RecordFunction const& function);
    void ends(at::RecordFunction const& function);

  private:
    /// A tensor at the begin of an operator.
    struct Given {
        c10::StorageImpl const* storage = nullptr;
        std::uint32_t version = 0;
    };
    /// An operator that runs.
    struct Open {
        at::RecordFunction const* function = nullptr;
        OperatorFacts const* facts = nullptr;
        std::vector<c10::IValue> arguments;
        c10::SmallVector<Given, 4> given;  ///< its tensors in order, as they were
        /// What operators inside it write below autograd, with the storage that it had.
        std::vector<std::pair<at::Tensor, c10::StorageImpl const*>> hidden_writes;
        std::optional<at::Generator> generator;
        std::int64_t first_content = 0;
        CallTimer timer;
        std::vector<std::pair<c10::StorageImpl const*, std::shared_ptr<SavedContent>>> saves;
        bool is_below = false;     ///< autograd
        bool is_foreign = false;   ///< not PyTorch's own: it may write all that it is given
        bool is_left_out = false;  ///< see record_only
        int exceptions = 0;        ///< under way at its begin
    };
    /// What makes an operator's results: a call, or why it is none.
    struct Maker {
        c10::intrusive_ptr<Call> call;
        NoMaker why = NoMaker::none;
        OperatorFacts const* by = nullptr;
    };
    /// A result that nobody had.
    struct Made {
        at::Tensor tensor;
        int output = 0;
    };

    [[nodiscard]] bool is_recorded() const;
    [[nodiscard]] bool is_left_out(OperatorFacts const* facts) const;
    [[nodiscard]] Replay replay_of(OperatorFacts const& facts) const;
    void copy_sources(OperatorFacts const* facts, c10::ArrayRef<c10::IValue const> arguments);
    void note_hidden_writes(OperatorFacts const* facts, c10::ArrayRef<c10::IValue const> arguments);
    void finish(Open& open, std::vector<c10::IValue> const& results);
    [[nodiscard]] c10::SmallVector<Made, 2> results_of(
        Open const& open, std::vector<c10::IValue> const& results
    ) const;
    [[nodiscard]] Maker maker_of(Open& open);
    [[nodiscard]] NoMaker add_tensor(
        Call& call, int argument, int element, at::Tensor const& tensor
    );
    [[nodiscard]] static bool writes(Open const& open, int argument);
    void see_writes(Open const& open, std::int64_t end_of_inner, Maker const& maker);
    void wrote(at::Tensor const& tensor, Maker const& maker);
    [[nodiscard]] ContentRef content(at::Tensor const& tensor);
    Content& fresh_content(at::Tensor const& tensor);
    void sweep();
    void forget_unused();
    static void fill_in(SavedContent& saved, ContentRef const& content);

    static constexpr std::size_t kLeastSweep = 256;
    /// Makers after which is forgotten what nothing refers to: where nothing saved is alive, and in
    /// a forward, where the few tensors that the next operator reads lose their makers.
    static constexpr std::int64_t kMostUnsaved = 256;
    static constexpr std::int64_t kMostMakers = 16384;

    bool const runs_costly_;
    ska::flat_hash_map<c10::StorageImpl const*, ContentRef> contents_;
    std::shared_ptr<ForwardState> const forward_ = std::make_shared<ForwardState>();
    std::shared_ptr<OperatorSet const> only_;
    std::int64_t recorded_calls_ = 0;
    std::int64_t kept_calls_ = 0;  ///< makers since `forget_unused` forgot
    /// Of what was there: storages that a forward wrote after it used them, in any step. An address
    /// that another storage has by now costs a recipe, no more.
    ska::flat_hash_set<c10::StorageImpl const*> changing_;
    std::vector<Open> open_;  ///< the first `depth_`; more are kept for their memory
    std::size_t depth_ = 0;
    std::int64_t next_number_ = 0;
    std::size_t sweep_at_ = kLeastSweep;
    std::atomic<bool> goes_on_ = false;
};

/// While it lives, the calling thread's operators go to `recorder`.
///
/// Thread  made and ended on one thread, the last one first. Ended elsewhere, or out of order, the
///         recorder gets no more operators from the next one on
class CallRecording {
  public:
    explicit CallRecording(std::shared_ptr<CallRecorder> recorder);
    /// Of one that outlives it, and what it records.
    explicit CallRecording(CallRecorder& recorder)
        : CallRecording(std::shared_ptr<CallRecorder>(std::shared_ptr<void>(), &recorder)) {}
    ~CallRecording();
    CallRecording(CallRecording const&) = delete;
    CallRecording& operator=(CallRecording const&) = delete;

  private:
    std::shared_ptr<CallRecorder> const recorder_;
    std::shared_ptr<CallRecorder> outer_;
    std::unique_ptr<OperatorCallback> callback_;
};

/// The recorder of the calling thread; null: nothing is recorded there.
[[nodiscard]] CallRecorder* recorder_here();

/// While it lives, nothing is recorded on the calling thread: for work of our own.
class UnrecordedCalls {
  public:
    UnrecordedCalls();
    ~UnrecordedCalls();
    UnrecordedCalls(UnrecordedCalls const&) = delete;
    UnrecordedCalls& operator=(UnrecordedCalls const&) = delete;

  private:
    std::shared_ptr<CallRecorder> outer_;
};

}  // namespace spillway
