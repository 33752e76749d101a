// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/allocator/device_allocator.h"

#include "torch_driver/allocator/allocator.h"
#include "torch_driver/allocator/cuda_allocator.h"
#include "torch_driver/allocator/restored_block.h"
#include "torch_driver/device/c10_device.h"
#include "torch_driver/session/session_stack.h"
#include "torch_driver/session/torch_session.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace spillway {

namespace {

/// Who allocates on a device.
class Owners {
  public:
    void enter(c10::Device device, std::shared_ptr<TorchSession> const& session) {
        std::lock_guard const lock(guard_);
        owners_[{device.type(), device.index()}].enter(session);
    }
    std::shared_ptr<TorchSession> of(c10::Device device) {
        std::lock_guard const lock(guard_);
        auto const at = owners_.find({device.type(), device.index()});
        return at == owners_.end() ? nullptr : at->second.innermost();
    }
    static Owners& get() {
        static auto* const owners = new Owners;  // leaked: tensors outlive main()
        return *owners;
    }

  private:
    std::mutex guard_;
    std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, SessionStack> owners_;
};

void allocate_through(
    std::size_t size_bytes,
    c10::Device device,
    std::optional<c10::Stream> stream,
    c10::function_ref<void*()> allocate
) {
    std::shared_ptr<TorchSession> const session = Owners::get().of(device);
    if (session == nullptr) {
        allocate();
        return;
    }
    auto const limited = std::static_pointer_cast<C10Device>(session->device());
    auto const count = static_cast<std::int64_t>(size_bytes);
    session->make_room_until(count, [&] {
        StreamId const on = stream ? StreamId{stream->id()} : limited->current_stream();
        return limited->try_around(count, on, allocate);
    });
}

/// For backends whose allocator is the one of c10's table.
class ForwardingDeviceAllocator final : public c10::DeviceAllocator {
  public:
    ForwardingDeviceAllocator(c10::DeviceAllocator& inner, c10::DeviceType type)
        : inner_(inner), type_(type) {}

    c10::DataPtr allocate(std::size_t size_bytes) override {
        if (size_bytes == 0) {
            return inner_.allocate(0);
        }
        c10::DataPtr block;
        c10::Device const device = c10::impl::VirtualGuardImpl(type_).getDevice();
        allocate_through(size_bytes, device, std::nullopt, [&] {
            block = inner_.allocate(size_bytes);
            return block.get();
        });
        return block;
    }
    c10::DeleterFnPtr raw_deleter() const override { return inner_.raw_deleter(); }
    void copy_data(void* to, void const* from, std::size_t count) const override {
        inner_.copy_data(to, from, count);
    }
    bool initialized() override { return inner_.initialized(); }
    void emptyCache(c10::MempoolId_t pool) override { inner_.emptyCache(pool); }
    void recordStream(c10::DataPtr const& block, c10::Stream stream) override {
        if (!add_user(block, stream)) {
            inner_.recordStream(block, stream);
        }
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
    if (type == c10::kCUDA) {
        return install_cuda_allocator(&allocate_through);
    }
    static std::mutex guard;
    static auto* const behind = new std::map<c10::DeviceType, c10::DeviceAllocator*>;
    std::lock_guard const lock(guard);
    if (auto const at = behind->find(type); at != behind->end()) {
        return at->second;
    }
    auto* const inner = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(type));
    if (inner != nullptr) {
        c10::SetAllocator(type, new ForwardingDeviceAllocator(*inner, type), kAllocatorPriority);
        behind->emplace(type, inner);
    }
    return inner;
}

void allocate_on_device_from(std::shared_ptr<TorchSession> const& session, c10::Device device) {
    Owners::get().enter(device, session);
}

}  // namespace spillway
