// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What it is to be in a session.
#pragma once

#include "torch_driver/autograd/engine.h"
#include "torch_driver/recorder/call_recorder.h"
#include "torch_driver/recorder/observer.h"

#include <exception>
#include <memory>
#include <optional>

namespace spillway {

class TorchSession;

/// While it lives, what autograd saves on this thread is `session`'s, and what the thread allocates
/// comes from it. Afterwards both are again the session's that was entered before, if the thread is
/// in one.
///
/// Thread  made and ended on one thread, the last one first; ended elsewhere, or out of order, it
///         leaves the thread that it was made on as it is
class Entered {
  public:
    explicit Entered(std::shared_ptr<TorchSession> const& session);
    ~Entered();
    Entered(Entered const&) = delete;
    Entered& operator=(Entered const&) = delete;

    /// It ends by an error, which may keep what was recorded: the session lapses.
    void by_error() { ends_by_error_ = true; }

  private:
    std::shared_ptr<TorchSession> const session_;
    int const exceptions_ = std::uncaught_exceptions();
    bool ends_by_error_ = false;
    ThreadRecording outer_;
    std::optional<OperatorObserver> observer_;  ///< where savers have a class
    std::shared_ptr<CallRecorder> const recorder_;
    std::optional<CallRecording> recording_;  ///< where values can be made again
};

/// While it lives, what the calling thread allocates is counted and capped by `session`, though it
/// records nothing: for an optimizer's step. Ended on another thread it ends there all the same.
class Capped {
  public:
    explicit Capped(std::shared_ptr<TorchSession> const& session);
    ~Capped();
    Capped(Capped const&) = delete;
    Capped& operator=(Capped const&) = delete;

  private:
    std::shared_ptr<TorchSession> const session_;
};

}  // namespace spillway
