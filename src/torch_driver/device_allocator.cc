// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/device_allocator.h"

#include "torch_driver/torch_session.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <map>
#include <mutex>

namespace spillway {

namespace {

constexpr std::uint8_t kPriority = 100;  // above torch's own allocators

/// Who allocates on which device. Sessions are found through weak pointers: a closed one allocates
/// no more, whoever closed it.
class Sessions {
  public:
    void set(c10::Device device, std::shared_ptr<TorchSession> const& session) {
        std::lock_guard const lock(guard_);
        sessions_[{device.type(), device.index()}] = session;
    }
    std::shared_ptr<TorchSession> of(c10::Device device) {
        std::lock_guard const lock(guard_);
        auto const at = sessions_.find({device.type(), device.index()});
        return at == sessions_.end() ? nullptr : at->second.lock();
    }
    static Sessions& get() {
        static auto* const sessions = new Sessions;  // leaked: tensors outlive main()
        return *sessions;
    }

  private:
    std::mutex guard_;
    std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, std::weak_ptr<TorchSession>> sessions_;
};

c10::DataPtr allocate_through(
    c10::DeviceAllocator& inner, c10::DeviceType type, std::size_t size_bytes
) {
    c10::Device const device = c10::impl::VirtualGuardImpl(type).getDevice();
    std::shared_ptr<TorchSession> const session =
        size_bytes == 0 ? nullptr : Sessions::get().of(device);
    if (session == nullptr) {
        return inner.allocate(size_bytes);
    }
    void* const block = session->allocate(static_cast<std::int64_t>(size_bytes));
    return {block, block, inner.raw_deleter(), device};
}

class ForwardingDeviceAllocator final : public c10::DeviceAllocator {
  public:
    ForwardingDeviceAllocator(c10::DeviceAllocator& inner, c10::DeviceType type)
        : inner_(inner), type_(type) {}

    c10::DataPtr allocate(std::size_t size_bytes) override {
        return allocate_through(inner_, type_, size_bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override { return inner_.raw_deleter(); }
    void copy_data(void* to, void const* from, std::size_t count) const override {
        inner_.copy_data(to, from, count);
    }
    bool initialized() override { return inner_.initialized(); }
    void emptyCache(c10::MempoolId_t pool) override { inner_.emptyCache(pool); }
    void recordStream(c10::DataPtr const& block, c10::Stream stream) override {
        inner_.recordStream(block, stream);
    }
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
        return inner_.getDeviceStats(device);
    }
    void resetAccumulatedStats(c10::DeviceIndex device) override {
        inner_.resetAccumulatedStats(device);
    }
    void resetPeakStats(c10::DeviceIndex device) override { inner_.resetPeakStats(device); }
    std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
        return inner_.getMemoryInfo(device);
    }

  private:
    c10::DeviceAllocator& inner_;
    c10::DeviceType const type_;
};

}  // namespace

c10::DeviceAllocator* install_device_allocator(c10::DeviceType type) {
    static std::mutex guard;
    static auto* const behind = new std::map<c10::DeviceType, c10::DeviceAllocator*>;
    std::lock_guard const lock(guard);
    if (auto const at = behind->find(type); at != behind->end()) {
        return at->second;
    }
    auto* const inner = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(type));
    if (inner != nullptr) {
        c10::SetAllocator(type, new ForwardingDeviceAllocator(*inner, type), kPriority);
        behind->emplace(type, inner);
    }
    return inner;
}

void allocate_on_device_from(std::shared_ptr<TorchSession> const& session, c10::Device device) {
    Sessions::get().set(device, session);
}

}  // namespace spillway
