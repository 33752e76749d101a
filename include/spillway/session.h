// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The front door for C++ programs on libtorch: train under a budget of device bytes.
//
//     using namespace spillway::literals;  // spillway/units.h
//     auto session = spillway::Session::open({.device_budget_bytes = 700_MiB, .nvme = "/scratch"});
//     session->own(model->parameters());
//     {
//         spillway::Recording const recording(*session);      // saved tensors are Spillway's here
//         loss = model->forward(batch);
//     }
//     session->phase(spillway::Phase::backward);
//     loss.backward();
#pragma once

#include "spillway/option.h"
#include "spillway/owned.h"
#include "spillway/refusal.h"
#include "spillway/report.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

class AwayStates;
class TorchSession;  // the implementation, in src/torch_driver
class OperatorObserver;
class Entered;
class Capped;

/// An invalid option: thrown by `Session::open`, with one line that gives the reason.
class BadOption : public std::invalid_argument {
  public:
    explicit BadOption(OptionFault fault)
        : std::invalid_argument(fault.option + ": " + words_of(fault, Face::cpp)),
          fault_(std::move(fault)) {}

    /// Its code, the option and the numbers; words_of gives the line with another face's names.
    [[nodiscard]] OptionFault const& fault() const { return fault_; }

  private:
    OptionFault fault_;
};

/// One training session on one device.
///
/// Order   from `open` until it is closed, every ATen allocation of the opening thread on the CPU,
///         or of every thread on another device, is counted and capped. It is closed when it was
///         destroyed and the last graph recorded in it is gone; backward may run before or after
///         the destruction. A GPU is opened before torch is asked anything about CUDA: before the
///         process's first backward.
/// Thread  not thread-safe; open, record and start backward on one thread (its backward included)
/// Errors  BadOption for invalid options; std::runtime_error where the library was built for
///         another version of torch. Inside torch calls a cap that cannot be met is a
///         c10::OutOfMemoryError whose first line names the operator and its bytes, what is in use,
///         what is needed, and why no room can be made; a failed or corrupt reload is a
///         c10::Error that names tensor, tier, file and offset
class Session {
  public:
    [[nodiscard]] static std::unique_ptr<Session> open(SessionOptions const& options);
    ~Session();
    Session(Session const&) = delete;
    Session& operator=(Session const&) = delete;

    /// Names tensors whose storages are not activations (parameters, buffers, optimizer state);
    /// they are never moved. Call again when storages change. They count in the device budget,
    /// whether they were allocated in this session or before it.
    ///
    /// `names` and `kinds`, if given, are theirs in the same order: for `explain`, and for
    /// `owned_bytes`. Without a kind, a leaf that requires a gradient is a parameter, and what else
    /// there is a buffer.
    ///
    /// Errors  BadOption "device_budget_bytes" when they leave nothing of it
    void own(
        std::vector<at::Tensor> const& tensors,
        std::vector<std::string> const& names = {},
        std::vector<OwnedKind> const& kinds = {}
    );

    /// Bytes on the device of the owned storages that live, by kind; each storage counts once.
    [[nodiscard]] OwnedBytes owned_bytes() const;

    /// State of an optimizer that has stepped, which is not read before its next step: from here on
    /// it may wait where saved tensors wait, and leaves before they do, since it is needed later.
    /// Its tensors stay, without their bytes: reading one is an error. A tensor stays as it is
    /// where it is no plain one of this device, small, or not alone in its storage. Does nothing
    /// where the option `states` is "stay".
    ///
    /// Thread  one at a time; the budget counts what the calling thread allocates
    void let_leave(std::vector<at::Tensor> const& states);
    /// Before that step: those of these that were let leave have their bytes again.
    ///
    /// Errors  as backward's, where bytes cannot be brought back
    void bring_back(std::vector<at::Tensor> const& states);
    /// The same for good, as for a checkpoint: on the CPU into memory that the budget does not
    /// count. The end of the session does so with all.
    void give_back(std::vector<at::Tensor> const& states);

    /// Starts a phase of the step. Reports give peaks by phase; messages name the phase and `step`.
    void phase(Phase phase, std::int64_t step = 0);

    /// While it is on, what is saved leaves without any loss, regardless of the session's
    /// options; for comparisons.
    void exact(bool on);

    /// Ends counting and the cap, even while recorded graphs exist; backward through them still
    /// works.
    void end_cap();

    /// What was done so far.
    [[nodiscard]] Report report() const;

    /// Why an allocation was refused, the last time on whatever thread; none: never. The error
    /// itself has it, too: an OutOfBudget (spillway/session_error.h).
    [[nodiscard]] std::optional<Refusal> last_refusal() const;

    /// For people: every tensor that the last forward saved in `module` (empty: anywhere), its
    /// bytes, and why it stayed or where it went; where `keep_timeline` was asked. A module is
    /// known by its parameters' names.
    [[nodiscard]] std::string explain(std::string const& module) const;

    /// The last steps as a trace viewer opens them (Chrome's JSON), where `keep_timeline` was
    /// asked.
    ///
    /// Errors  BadOption "timeline_file": it cannot be written, or nothing is kept
    void write_timeline(std::string const& file) const;

    /// Writes what a training step does (docs/formats/trace.md) into a file: its points in order,
    /// their times and floors, every saved tensor, and how each can be made again. Of the step
    /// after the next, so that the next one warms up what that needs; the file is whole when that
    /// step has ended, where another begins, or when the session is closed. A step begins where
    /// `phase` is given another number. Modules and reasons are known where `keep_timeline` was
    /// asked.
    ///
    /// Errors  BadOption "trace": it cannot be written, or another is not done yet
    void trace(std::string const& file);

  private:
    friend class Recording;
    friend class Update;
    explicit Session(std::shared_ptr<TorchSession> impl);
    std::shared_ptr<TorchSession> impl_;  ///< shared with the graphs that were recorded
    std::unique_ptr<OperatorObserver> observer_;
    std::unique_ptr<AwayStates> states_;  ///< null: none was let leave
};

/// Says that what the custom operator `name` returns ("mylib::rms_norm") is a function of its
/// arguments: it draws no random numbers, keeps nothing between calls, and writes no memory that it
/// did not allocate. Sessions may then run it again, below autograd, to make a saved tensor anew,
/// on whatever thread backward runs. The first time its results are compared bit by bit; where they
/// differ, it is not run again. For the whole process; a plan that was made before does not ask
/// for it.
///
/// Thread  any
/// Errors  std::invalid_argument: there is no such operator, it is one of PyTorch's own, it writes
///         its arguments by its schema, communicates, takes a generator, or draws random numbers
///         by its tag
void allow_recompute(std::string const& name);

/// While it lives, tensors that autograd saves on this thread are Spillway's to keep or move.
/// Leaving it stops recording only: backward is right inside and outside. Inside another one, the
/// inner session takes what is saved, and what is allocated counts for both.
class Recording {
  public:
    /// `parameters`: those that are trained, whose gradients the report's peak shows apart;
    /// in C++ what `Session::own` was given is known.
    explicit Recording(Session& session, std::vector<at::Tensor> const& parameters = {});
    ~Recording();
    Recording(Recording const&) = delete;
    Recording& operator=(Recording const&) = delete;

    /// Marks the recording as ended by an error that is no C++ exception, such as one of Python's.
    /// An error may keep what was recorded: where `cap_from_open` is false, the session then caps
    /// only backward passes of those graphs, and optimizer steps, until it is entered again.
    void by_error();

    /// The step that its session is in: as reported, or begun since (Update).
    [[nodiscard]] std::int64_t step() const;

  private:
    std::shared_ptr<TorchSession> session_;
    std::unique_ptr<Entered> entered_;
};

/// The step of an optimizer: while it lives, the phase is `update`, and what this thread allocates
/// is counted and capped, whether or not it is recorded. For sessions with `cap_from_open` false.
class Update {
  public:
    /// `state_bytes`: what the optimizer will keep that it has not allocated yet, where that is
    /// known. A refusal's estimate counts it. `parameters`: those that it steps, whose gradients
    /// the report's peak shows apart. `ends_step`: nobody reports steps, so the next one begins
    /// with what autograd saves first in a forward after this, unless a forward is reported before.
    Update(
        Session& session,
        std::int64_t step,
        std::int64_t state_bytes = 0,
        std::vector<at::Tensor> const& parameters = {},
        bool ends_step = false
    );
    ~Update();
    Update(Update const&) = delete;
    Update& operator=(Update const&) = delete;

  private:
    std::shared_ptr<TorchSession> session_;
    Phase before_;
    bool ends_step_;
    std::unique_ptr<Capped> capped_;
};

/// What stock torch allocates on the CPU, counted and passed through; for measurements of plain
/// runs only. Call once, before the first tensor. Peak bytes in torch's own request sizes.
void count_plain_allocations();
[[nodiscard]] std::int64_t plain_allocation_peak_bytes();

}  // namespace spillway
