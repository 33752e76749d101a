// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The public Session hands on.

#include "spillway/session.h"

#include "torch_driver/allocator/allocator.h"
#include "torch_driver/recorder/observer.h"
#include "torch_driver/recorder/operator_facts.h"
#include "torch_driver/session/entered.h"
#include "torch_driver/session/open_session.h"
#include "torch_driver/session/torch_session.h"
#include "torch_driver/states/away_states.h"

#include <stdexcept>
#include <utility>

namespace spillway {

namespace {

/// Errc::unsupported: nothing is wrong with the file.
void check_written(Result<void> const& written, char const* option, std::string const& file) {
    if (!written.ok()) {
        bool const is_of_file = written.error().code != Errc::unsupported;
        throw BadOption(
            {.code = is_of_file ? OptionCode::not_writable : OptionCode::failed,
             .option = option,
             .given = file,
             .detail = written.error().what}
        );
    }
}

}  // namespace

Session::Session(std::shared_ptr<TorchSession> impl)
    : impl_(std::move(impl)), observer_(std::make_unique<OperatorObserver>(ObserverLevel::names)) {}

Session::~Session() {
    states_.reset();
    impl_->use().owner_gone();
}

std::unique_ptr<Session> Session::open(SessionOptions const& options) {
    std::shared_ptr<TorchSession> opened = open_session(options);
    if (opened->use().caps_from_open()) {
        allocate_from(opened, options.whole_process);
    }
    return std::unique_ptr<Session>(new Session(std::move(opened)));
}

void Session::own(
    std::vector<at::Tensor> const& tensors,
    std::vector<std::string> const& names,
    std::vector<OwnedKind> const& kinds
) {
    impl_->own(tensors, names, kinds);
}

OwnedBytes Session::owned_bytes() const {
    return impl_->owned().bytes();
}

std::string Session::explain(std::string const& module) const {
    return impl_->saved_tensors().log().explain(module, impl_->loop().histories());
}

void Session::let_leave(std::vector<at::Tensor> const& states) {
    if (!impl_->states_leave()) {
        return;
    }
    if (states_ == nullptr) {
        states_ = std::make_unique<AwayStates>(impl_);
    }
    states_->let_leave(states);
}

void Session::bring_back(std::vector<at::Tensor> const& states) {
    if (states_ != nullptr) {
        states_->bring_back(states);
    }
}

void Session::give_back(std::vector<at::Tensor> const& states) {
    if (states_ != nullptr) {
        states_->give_back(states);
    }
}

void Session::phase(Phase phase, std::int64_t step) {
    if (phase == Phase::forward) {
        impl_->begin_pass();
        impl_->loop().begin_histories();
    }
    if (step != impl_->loop().step()) {
        impl_->loop().begin_step(step);
    }
    impl_->phase(phase);
}

void Session::exact(bool on) {
    impl_->exact(on);
}

void Session::end_cap() {
    impl_->end_cap();
}

void Session::write_timeline(std::string const& file) const {
    check_written(impl_->loop().write_timeline_now(file), "timeline_file", file);
}

void Session::trace(std::string const& file) {
    impl_->saved_tensors().classify_tensors();
    check_written(impl_->loop().trace_a_step(file), "trace", file);
}

std::optional<Refusal> Session::last_refusal() const {
    return impl_->last_refusal();
}

Report Session::report() const {
    return impl_->report();
}

void allow_recompute(std::string const& name) {
    if (Result<void> const allowed = allow_recompute_of(name); !allowed.ok()) {
        throw std::invalid_argument(allowed.error().what);
    }
}

Recording::Recording(Session& session, std::vector<at::Tensor> const& parameters)
    : session_(session.impl_), entered_(std::make_unique<Entered>(session.impl_)) {
    session.impl_->add_trained(parameters);
}

Recording::~Recording() = default;

void Recording::by_error() {
    entered_->by_error();
}

std::int64_t Recording::step() const {
    return session_->loop().step();
}

Update::Update(
    Session& session,
    std::int64_t step,
    std::int64_t state_bytes,
    std::vector<at::Tensor> const& parameters,
    bool ends_step
)
    : session_(session.impl_), before_(session_->loop().current_phase()), ends_step_(ends_step) {
    capped_ = std::make_unique<Capped>(session_);
    session.phase(Phase::update, step);
    session_->add_trained(parameters);
    session_->update_begins(state_bytes);
}

Update::~Update() {
    session_->update_ends();
    capped_.reset();
    session_->phase(before_);
    if (ends_step_) {
        session_->step_is_due();
    }
}

}  // namespace spillway
