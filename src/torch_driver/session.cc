// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The public Session hands on.

#include "spillway/session.h"

#include "torch_driver/allocator.h"
#include "torch_driver/engine.h"
#include "torch_driver/operator_name.h"
#include "torch_driver/torch_session.h"

#include <utility>

namespace spillway {

Session::Session(std::shared_ptr<TorchSession> impl)
    : impl_(std::move(impl)), watch_(std::make_unique<OperatorWatch>()) {}

Session::~Session() = default;

std::unique_ptr<Session> Session::open(SessionOptions const& options) {
    std::shared_ptr<TorchSession> opened = TorchSession::open(options);
    allocate_from(opened, options.whole_process);
    return std::unique_ptr<Session>(new Session(std::move(opened)));
}

void Session::own(std::vector<at::Tensor> const& tensors) {
    impl_->own(tensors);
}

void Session::phase(Phase phase, std::int64_t step) {
    if (phase == Phase::forward) {
        impl_->registry().begin_pass();
    }
    if (step != impl_->loop().step()) {
        impl_->loop().begin_step(step);
    }
    impl_->loop().phase(phase);
}

void Session::end_cap() {
    impl_->end_cap();
}

Report Session::report() const {
    return impl_->report();
}

Recording::Recording(Session& session)
    : outer_(std::make_unique<Recorder>(
          std::exchange(thread_recorder(), Recorder{session.impl_, python_hook_depth()})
      )) {}

Recording::~Recording() {
    thread_recorder() = std::move(*outer_);
}

}  // namespace spillway
