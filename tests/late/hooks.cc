// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What torch asks an accelerator for beside its guard: pinned memory, generators, resizing.

#include "late/tensors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <array>
#include <utility>

namespace late {

namespace {

/// A CPU generator under a device's name: random numbers are drawn by the host at the launch, so
/// that they do not depend on the schedule, and equal the CPU's for the same seed.
class Generator final : public c10::GeneratorImpl {
  public:
    Generator(c10::DeviceIndex device, at::Generator cpu)
        : c10::GeneratorImpl(
              c10::Device(c10::kPrivateUse1, device),
              c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)
          ),
          cpu_(std::move(cpu)) {}

    void set_current_seed(std::uint64_t seed) override { cpu_.set_current_seed(seed); }
    void set_offset(std::uint64_t offset) override { cpu_.set_offset(offset); }
    std::uint64_t get_offset() const override { return cpu_.get_offset(); }
    std::uint64_t current_seed() const override { return cpu_.current_seed(); }
    std::uint64_t seed() override { return cpu_.seed(); }
    void set_state(c10::TensorImpl const& state) override {
        cpu_.unsafeGetGeneratorImpl()->set_state(state);
    }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        return cpu_.unsafeGetGeneratorImpl()->get_state();
    }

    at::Generator const& cpu() const { return cpu_; }

  private:
    Generator* clone_impl() const override { return new Generator(device().index(), cpu_.clone()); }

    at::Generator cpu_;
};

at::Generator new_generator(int device) {
    return at::make_generator<Generator>(
        static_cast<c10::DeviceIndex>(device), at::detail::createCPUGenerator()
    );
}

at::Generator const& default_generator(int device) {
    static auto* const generators = new std::array<at::Generator, kMostDevices>{
        new_generator(0), new_generator(1), new_generator(2), new_generator(3)};
    return generators->at(static_cast<std::size_t>(device));
}

class Hooks final : public at::PrivateUse1HooksInterface {
  public:
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }

    c10::DeviceIndex deviceCount() const override {
        return static_cast<c10::DeviceIndex>(Runtime::get().devices());
    }
    void setCurrentDevice(c10::DeviceIndex device) const override {
        TORCH_CHECK(device >= 0 && device < deviceCount(), "late: no device ", int{device});
        thread_state().device = device;
    }
    c10::DeviceIndex getCurrentDevice() const override {
        return static_cast<c10::DeviceIndex>(thread_state().device);
    }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
        c10::DeviceIndex const before = getCurrentDevice();
        setCurrentDevice(device);
        return before;
    }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
        return device < 0 ? getCurrentDevice() : exchangeDevice(device);
    }

    bool isPinnedPtr(void const* data) const override {
        return Runtime::get().device_of(data) == kPinned;
    }
    at::Allocator* getPinnedMemoryAllocator() const override {
        return at::getHostAllocator(c10::kPrivateUse1);
    }
    at::Device getDeviceFromPtr(void* data) const override {
        std::optional<int> const device = Runtime::get().device_of(data);
        TORCH_CHECK(device && *device != kPinned, "late: not an address of a device");
        return at::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(*device));
    }

    at::Generator const& getDefaultGenerator(c10::DeviceIndex device) const override {
        return default_generator(device < 0 ? thread_state().device : device);
    }
    at::Generator getNewGenerator(c10::DeviceIndex device) const override {
        return new_generator(device < 0 ? thread_state().device : device);
    }
    void resizePrivateUse1Bytes(c10::Storage const& storage, std::size_t size_bytes)
        const override {
        resize_storage(storage, size_bytes);
    }
};

}  // namespace

at::Generator cpu_generator(std::optional<at::Generator> const& generator, int device) {
    if (generator && generator->defined() && generator->device().is_cpu()) {
        return *generator;
    }
    at::Generator const& ours =
        generator && generator->defined() ? *generator : default_generator(device);
    return ours.get<Generator>()->cpu();
}

void register_hooks() {
    at::RegisterPrivateUse1HooksInterface(new Hooks);
}

}  // namespace late
