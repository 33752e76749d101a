// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/device/c10_device.h"

#include "base/log.h"
#include "base/units.h"
#include "torch_driver/allocator/device_allocator.h"
#include "torch_driver/device/cuda_c10_device.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace spillway {

namespace {

/// What torch's caching allocators round to.
constexpr std::int64_t kBlockBytes = 512;

/// Whether the process has begun to exit, with threads of ours that still run. The driver ends
/// then: freeing an event throws where nothing may be thrown.
class ProcessEnd {
  public:
    /// Before the driver's own end, if that is there already.
    static void watch() {
        static bool const registered = std::atexit([] {
                                           std::unique_lock const lock(get().mutex_);
                                           get().has_begun_ = true;
                                       }) == 0;
        (void)registered;
    }
    /// Runs `work` before it, and not while it begins; or not at all.
    template <typename Work>
    static void unless_begun(Work const& work) {
        std::shared_lock const lock(get().mutex_);
        if (!get().has_begun_) {
            work();
        }
    }

  private:
    static ProcessEnd& get() {
        static auto* const end = new ProcessEnd;  // leaked: threads may outlive main()
        return *end;
    }
    std::shared_mutex mutex_;
    bool has_begun_ = false;
};

class Position final : public StreamEvent {
  public:
    explicit Position(c10::DeviceType type)
        : event_(std::make_unique<c10::Event>(type, c10::EventFlag::BACKEND_DEFAULT)) {}
    ~Position() override {
        ProcessEnd::unless_begun([&] { event_.reset(); });
        (void)event_.release();  // leaked, if it is still there
    }
    Position(Position const&) = delete;
    Position& operator=(Position const&) = delete;

    [[nodiscard]] c10::Event& event() const { return *event_; }

  private:
    std::unique_ptr<c10::Event> event_;
};

c10::Event const& event_of(StreamEventRef const& position) {
    return static_cast<Position const&>(*position).event();
}

std::int64_t current(c10::CachingDeviceAllocator::StatArray const& stat) {
    return stat[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
}

}  // namespace

/// Sessions on one device are notified of each other's blocks: addresses are reused.
struct C10Device::Siblings {
    mutable Mutex guard;
    std::vector<C10Device*> devices SPILLWAY_GUARDED_BY(guard);

    static Siblings& get() {
        static auto* const siblings = new Siblings;  // leaked: graphs may outlive main()
        return *siblings;
    }
};

C10Device::C10Device(c10::Device where, c10::DeviceAllocator& allocator, std::int64_t limit_bytes)
    : where_(where),
      allocator_(allocator),
      guard_(where.type()),
      copy_out_(guard_.getStreamFromGlobalPool(where, true)),
      copy_in_(guard_.getStreamFromGlobalPool(where, true)),
      limit_bytes_(limit_bytes) {
    ProcessEnd::watch();
    Siblings& siblings = Siblings::get();
    MutexLock const lock(siblings.guard);
    siblings.devices.push_back(this);
}

C10Device::~C10Device() {
    Siblings& siblings = Siblings::get();
    MutexLock const lock(siblings.guard);
    std::erase(siblings.devices, this);
}

Result<HostMemory> C10Device::host_memory(std::int64_t size_bytes) {
    try {
        auto block = std::make_shared<c10::DataPtr>(
            at::getHostAllocator(where_.type())->allocate(static_cast<std::size_t>(size_bytes))
        );
        std::span const bytes(
            static_cast<std::byte*>(block->get()), static_cast<std::size_t>(size_bytes)
        );
        HostMemory memory(bytes, size_bytes, [block](std::span<std::byte>) mutable {
            block.reset();
        });
        memory.set_locked(size_bytes, [](std::span<std::byte>) {});
        return memory;
    } catch (std::exception const& failure) {
        std::string const why = failure.what();
        warn_pageable(size_bytes, why.substr(0, why.find('\n')));
        return map_host_memory(size_bytes);
    }
}

void C10Device::warn_pageable(std::int64_t size_bytes, std::string const& why) {
    std::string const advice = memlock_advice(size_bytes, read_host_limits());
    log_once(
        "host memory is not pinned, so copies are slower (" + why +
        (advice.empty() ? "" : "; " + advice) + ")"
    );
}

/// Under the limit, or nullptr.
void* C10Device::try_on(std::int64_t size_bytes, StreamId on, c10::function_ref<void*()> allocate) {
    void* block = nullptr;
    Block const given{rounded(size_bytes), on};
    {
        MutexLock const lock(mutex_);
        std::int64_t const used = used_bytes() + given.size_bytes;
        std::int64_t const limit = limit_bytes();
        if (limit > 0 && used > limit) {
            return nullptr;
        }
        try {
            block = allocate();
        } catch (c10::OutOfMemoryError const&) {
            return nullptr;  // the device, or torch's pool, is in pieces or full
        }
        note_given(block, given, used);
    }
    Siblings const& siblings = Siblings::get();
    MutexLock const lock(siblings.guard);
    for (C10Device* const other : siblings.devices) {
        if (other != this && other->where_ == where_) {
            MutexLock const its_lock(other->mutex_);
            other->note_given(block, given, 0);
        }
    }
    return block;
}

void C10Device::note_given(void const* block, Block const& given, std::int64_t used_bytes_then) {
    blocks_[block] = given;
    std::int64_t const now = std::max(used_bytes_then, used_bytes());  // a pool may give more
    peak_bytes_ = std::max(peak_bytes_, now);
    all_peak_bytes_ = std::max(all_peak_bytes_, now);
}

Error C10Device::refusal(std::exception const& failure) const {
    std::string const why = failure.what();
    return {Errc::io, why.substr(0, why.find('\n')), where_.str()};
}

/// What the device refuses here it refuses to torch, too, whose next call raises it.
void C10Device::has_failed(std::exception const& failure) const {
    log_once(where_.str() + " has failed: " + refusal(failure).what);
}

void* C10Device::try_allocate(std::int64_t size_bytes, StreamId on) noexcept {
    try {
        return try_on(size_bytes, on, [&] {
            c10::StreamGuard const guard(stream(on));  // of the device, too
            return allocator_.allocate(static_cast<std::size_t>(size_bytes)).release_context();
        });
    } catch (std::exception const& failure) {
        has_failed(failure);
        return nullptr;
    }
}

bool C10Device::try_around(
    std::int64_t size_bytes, StreamId on, c10::function_ref<void*()> allocate
) {
    return try_on(size_bytes, on, allocate) != nullptr;
}

void C10Device::free(void* block) noexcept {
    deleter()(block);
}

std::int64_t C10Device::rounded(std::int64_t size_bytes) const {
    return round_up(std::max<std::int64_t>(size_bytes, 1), kBlockBytes);
}

std::int64_t C10Device::size_of(void const* block) const {
    MutexLock const lock(mutex_);
    return blocks_.at(block).size_bytes;
}

std::int64_t C10Device::used_bytes() const {
    return current(allocator_.getDeviceStats(where_.index()).allocated_bytes);
}

DeviceUsage C10Device::usage() const {
    c10::CachingDeviceAllocator::DeviceStats const now = allocator_.getDeviceStats(where_.index());
    MutexLock const lock(mutex_);
    return {
        .used_bytes = current(now.allocated_bytes),
        .peak_bytes = all_peak_bytes_,
        .resident_bytes = current(now.reserved_bytes),
        .resident_peak_bytes =
            now.reserved_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)]
                .peak,
        .allocations = current(now.allocation)};
}

std::int64_t C10Device::other_bytes() const {
    try {
        auto const [free, total] = allocator_.getMemoryInfo(where_.index());
        auto const taken = static_cast<std::int64_t>(total - free);
        return std::max<std::int64_t>(taken - usage().resident_bytes, 0);
    } catch (std::exception const&) {
        return 0;  // the allocator of this backend does not report it
    }
}

std::int64_t C10Device::take_peak() {
    MutexLock const lock(mutex_);
    return std::max(std::exchange(peak_bytes_, 0), used_bytes());
}

std::int64_t C10Device::limit_bytes() const {
    std::int64_t const limit = limit_bytes_;
    std::int64_t const bound = bound_bytes_;
    return bound < 0 ? limit : limit == 0 ? bound : std::min(limit, bound);
}

// What is on the device counts already.
void C10Device::charge(std::int64_t) {}

StreamId C10Device::current_stream() const {
    return id_of(guard_.getStream(where_));
}

StreamId C10Device::stream_of(void const* block) const {
    MutexLock const lock(mutex_);
    auto const at = blocks_.find(block);
    return at == blocks_.end() ? StreamId{} : at->second.stream;
}

/// What cannot be ordered by an event is waited for here and now, unless nothing works any more.
void C10Device::wait_instead(c10::function_ref<void()> synchronize) const {
    try {
        synchronize();
    } catch (std::exception const& failure) {
        has_failed(failure);
    }
}

StreamEventRef C10Device::record(StreamId on) {
    try {
        auto position = std::make_shared<Position>(where_.type());
        position->event().record(stream(on));
        return position;
    } catch (std::exception const&) {
        wait_instead([&] { stream(on).synchronize(); });
        return nullptr;
    }
}

void C10Device::wait(StreamId on, StreamEventRef const& event) {
    try {
        if (event != nullptr) {
            event_of(event).block(stream(on));
        }
    } catch (std::exception const&) {
        wait_instead([&] { event_of(event).synchronize(); });
    }
}

bool C10Device::passed(StreamEventRef const& event) {
    try {
        return event == nullptr || event_of(event).query();
    } catch (std::exception const& failure) {
        has_failed(failure);
        return true;
    }
}

void C10Device::enter_thread() {
    try {
        guard_.setDevice(where_);
    } catch (std::exception const& failure) {
        has_failed(failure);
    }
}

std::int64_t C10Device::elapsed_ns(StreamEventRef const& from, StreamEventRef const& to) const {
    try {
        if (from == nullptr || to == nullptr) {
            return 0;
        }
        return static_cast<std::int64_t>(event_of(from).elapsedTime(event_of(to)) * 1e6);
    } catch (std::exception const&) {
        return 0;  // a device that has failed, which `passed` reports
    }
}

Result<void> C10Device::copy(void* to, void const* from, std::int64_t size_bytes, StreamId on) {
    // Copies are no operators of the program: neither autograd nor a mode of Python's sees them.
    at::AutoDispatchBelowADInplaceOrView const below_autograd;
    c10::impl::ExcludeDispatchKeyGuard const below_python(c10::python_ks);
    bool const is_store = on == copy_out_stream();
    auto const tensor = [&](void* bytes, bool is_host) {
        c10::Device const place = is_host ? c10::Device(c10::kCPU) : where_;
        return at::for_blob(bytes, {size_bytes})
            .options(at::TensorOptions().dtype(at::kByte).device(place))
            .target_device(place)
            .make_tensor();
    };
    try {
        c10::StreamGuard const guard(stream(on));  // of the device, too, which a failed one refuses
        tensor(to, is_store).copy_(tensor(const_cast<void*>(from), !is_store), true);
        return {};
    } catch (std::exception const& failure) {
        return refusal(failure);
    }
}

Result<std::shared_ptr<C10Device>> open_c10_device(
    std::string const& name, std::int64_t limit_bytes
) {
    auto const refused = [&](std::string const& why) {
        return Error{Errc::bad_argument, "'" + name + "': " + why, ""};
    };
    std::optional<c10::Device> asked;
    try {
        asked.emplace(name);
    } catch (std::exception const&) {
        return refused("not a device that torch knows; use cpu, cuda or cuda:1");
    }
    c10::DeviceType const type = asked->type();
    c10::DeviceIndex const count =
        c10::impl::hasDeviceGuardImpl(type) ? c10::impl::VirtualGuardImpl(type).deviceCount() : 0;
    if (count == 0) {
        return refused("there is no such device on this machine, or this torch cannot use it");
    }
    c10::DeviceIndex const index = asked->has_index() ? asked->index() : c10::DeviceIndex{0};
    if (index >= count) {
        return refused(
            "there are " + std::to_string(count) + " of them here; the last is " +
            c10::DeviceTypeName(type, true) + ":" + std::to_string(count - 1)
        );
    }
    c10::Device const where(type, index);
    if (type == c10::kCUDA) {
        return open_cuda_device(where, limit_bytes);
    }
    c10::DeviceAllocator* const allocator = install_device_allocator(type);
    if (allocator == nullptr) {
        return refused("its allocator reports no statistics, so a budget cannot be enforced");
    }
    return std::make_shared<C10Device>(where, *allocator, limit_bytes);
}

}  // namespace spillway
