// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/entered.h"

#include "torch_driver/allocator/allocator.h"
#include "torch_driver/session/torch_session.h"

#include <utility>

namespace spillway {

Entered::Entered(std::shared_ptr<TorchSession> const& session)
    : session_(of_this_thread(session)),
      outer_(std::exchange(thread_recording(), ThreadRecording{session_, python_hook_depth()})),
      recorder_(session_->recorder_of_this_thread()) {
    session_->use().enter(thread_recording().python_hooks);
    allocate_from(session_, false);
    if (session_->classifies_tensors()) {
        observer_.emplace(ObserverLevel::arguments);
    }
    if (recorder_ != nullptr) {
        recorder_->begin_step();  // what was written since it recorded last, nobody has seen
        recording_.emplace(recorder_);
    }
}

Entered::~Entered() {
    session_->leave();
    if (recording_ && recorder_here() == recorder_.get()) {
        recorder_->begin_step();  // it keeps nothing of the device's
    }
    if (ends_by_error_ || std::uncaught_exceptions() > exceptions_) {
        session_->use().lapse();
    }
    if (thread_recording().session != session_) {
        return;  // dropped by another thread, or before one inside it
    }
    bool const goes_on = outer_.session != nullptr && outer_.session->use().is_entered();
    thread_recording() = goes_on ? std::move(outer_) : ThreadRecording{};
    if (goes_on) {
        allocate_from(thread_recording().session, false);
    }
}

Capped::Capped(std::shared_ptr<TorchSession> const& session)
    : session_(capped_on_this_thread(session)) {
    session_->use().begin();
}

Capped::~Capped() {
    session_->end_use();
}

}  // namespace spillway
