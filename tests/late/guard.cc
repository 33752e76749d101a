// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Devices, streams and events as c10::DeviceGuard, c10::Stream and c10::Event see them.

#include "late/tensors.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <utility>

namespace late {

namespace {

c10::Device device_at(int index) {
    return c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index));
}

int index_of(c10::Device device) {
    return device.has_index() ? device.index() : thread_state().device;
}

/// What a c10::Event points at. A wait takes the mark that is here when it is enqueued.
struct Event {
    MarkPtr mark;
};

Event* event_of(void* event) {
    return static_cast<Event*>(event);
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
  public:
    c10::DeviceType type() const override { return c10::kPrivateUse1; }

    c10::Device exchangeDevice(c10::Device device) const override {
        c10::Device const before = getDevice();
        setDevice(device);
        return before;
    }
    c10::Device getDevice() const override { return device_at(thread_state().device); }
    void setDevice(c10::Device device) const override {
        Runtime::get().refuse_if_failed();
        TORCH_CHECK(index_of(device) < Runtime::get().devices(), "late: no device ", device);
        uncheckedSetDevice(device);
    }
    void uncheckedSetDevice(c10::Device device) const noexcept override {
        thread_state().device = index_of(device);
    }
    c10::DeviceIndex deviceCount() const noexcept override {
        return static_cast<c10::DeviceIndex>(Runtime::get().devices());
    }
    c10::DeviceCapability getDeviceCapability(c10::Device /*device*/) const override { return {}; }

    c10::Stream getStream(c10::Device device) const override {
        return stream_of(current_lane(index_of(device)));
    }
    c10::Stream getDefaultStream(c10::Device device) const override {
        return c10::Stream(c10::Stream::DEFAULT, device_at(index_of(device)));
    }
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
        return Runtime::get().next_pool_stream(index_of(device));
    }
    c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
        return Runtime::get().next_pool_stream(index_of(device));
    }
    c10::Stream exchangeStream(c10::Stream stream) const override {
        (void)actor_of(stream);  // checks it
        auto& current = thread_state().streams[stream.device_index()];
        return c10::Stream(
            c10::Stream::UNSAFE, stream.device(), std::exchange(current, stream.id())
        );
    }
    void* getStreamNativeHandle(c10::Stream const stream) const override {
        return reinterpret_cast<void*>(std::uintptr_t{actor_of(stream)});
    }

    bool queryStream(c10::Stream const& stream) const override {
        return Runtime::get().query(actor_of(stream));
    }
    void synchronizeStream(c10::Stream const& stream) const override {
        Runtime::get().synchronize(actor_of(stream));
    }
    void synchronizeDevice(c10::DeviceIndex device) const override {
        Runtime::get().synchronize_device(device);
    }
    void recordDataPtrOnStream(c10::DataPtr const& data, c10::Stream const& stream) const override {
        c10::getDeviceAllocator(c10::kPrivateUse1)->recordStream(data, stream);
    }

    void destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept override {
        delete event_of(event);
    }
    void record(
        void** event,
        c10::Stream const& stream,
        c10::DeviceIndex /*device*/,
        c10::EventFlag /*flag*/
    ) const override {
        TORCH_CHECK(thread_state().has_events, "late: there are no events left");
        if (*event == nullptr) {
            *event = new Event;
        }
        event_of(*event)->mark = Runtime::get().record(actor_of(stream));
    }
    void block(void* event, c10::Stream const& stream) const override {
        TORCH_CHECK(thread_state().has_events, "late: there are no events left");
        if (event != nullptr) {
            Runtime::get().block(actor_of(stream), event_of(event)->mark);
        }
    }
    bool queryEvent(void* event) const override {
        return event == nullptr || Runtime::get().query(event_of(event)->mark);
    }
    void synchronizeEvent(void* event) const override {
        if (event != nullptr) {
            Runtime::get().synchronize(event_of(event)->mark);
        }
    }
    /// Of virtual time; 0 in the other modes.
    double elapsedTime(void* from, void* to, c10::DeviceIndex /*device*/) const override {
        std::int64_t const ns = event_of(to)->mark->passed_ns - event_of(from)->mark->passed_ns;
        return static_cast<double>(ns) * 1e-6;
    }
};

}  // namespace

void register_guard() {
    static c10::impl::DeviceGuardImplRegistrar const registrar(c10::kPrivateUse1, new Guard);
}

}  // namespace late
