// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/call_time.h"

#include "base/clock.h"
#include "torch_driver/recorder/tensors_of.h"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <utility>

namespace spillway {

namespace {

/// At the end of the current stream of `device`; nothing where the device has no events left.
std::optional<c10::Event> recorded_on(c10::Device device) {
    try {
        c10::Event event(device.type(), c10::EventFlag::BACKEND_DEFAULT);
        event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
        return event;
    } catch (std::exception const&) {
        return std::nullopt;
    }
}

}  // namespace

std::int64_t CallTime::ns() const {
    if (on_stream_ == nullptr) {
        return host_ns_;
    }
    try {
        bool const has_passed = on_stream_->end.query();
        double const ms = has_passed ? on_stream_->begin.elapsedTime(on_stream_->end) : 0;
        return has_passed ? static_cast<std::int64_t>(ms * 1e6) : host_ns_;
    } catch (std::exception const&) {
        return host_ns_;  // the device has failed, which torch's next call reports
    }
}

void CallTime::wait() const {
    if (on_stream_ != nullptr) {
        try {
            on_stream_->end.synchronize();
        } catch (std::exception const&) {  // the device has failed, which torch's next call reports
        }
    }
}

void CallTimer::begins(std::vector<c10::IValue> const& arguments) {
    c10::Device device(c10::kCPU);
    each_tensor(arguments, [&](int, int, at::Tensor const& tensor) {
        if (device.is_cpu() && !tensor.device().is_meta()) {
            device = tensor.device();
        }
    });
    begins(device);
}

void CallTimer::begins(c10::Device device) {
    begin_.reset();
    begin_ns_ = steady_now_ns();
    if (!device.is_cpu()) {
        begin_ = recorded_on(device);
    }
}

CallTime CallTimer::ends() {
    CallTime time;
    time.host_ns_ = steady_now_ns() - begin_ns_;
    std::optional<c10::Event> end = begin_ ? recorded_on(begin_->device()) : std::nullopt;
    if (end) {
        time.on_stream_ = std::make_shared<CallTime::OnStream>(CallTime::OnStream{
            std::move(*begin_), std::move(*end)});
    }
    return time;
}

}  // namespace spillway
