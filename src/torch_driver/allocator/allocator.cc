// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/allocator/allocator.h"

#include "memory/arena.h"
#include "spillway/session.h"
#include "torch_driver/allocator/device_allocator.h"
#include "torch_driver/device/c10_device.h"
#include "torch_driver/session/session_stack.h"
#include "torch_driver/session/torch_session.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace spillway {

namespace {

/// Sessions are found through weak pointers: a closed one allocates no more, whoever closed it.
SessionStack& thread_sessions() {
    static thread_local SessionStack sessions;
    return sessions;
}

struct ProcessSession {
    std::mutex guard;
    std::weak_ptr<TorchSession> session;
    std::atomic<bool> any = false;
};

ProcessSession& process_session() {
    static auto* const process = new ProcessSession;  // leaked: tensors outlive main()
    return *process;
}

std::shared_ptr<TorchSession> session_of_this_thread() {
    if (std::shared_ptr<TorchSession> session = thread_sessions().innermost()) {
        return session;
    }
    ProcessSession& process = process_session();
    if (!process.any.load(std::memory_order_relaxed)) {
        return nullptr;
    }
    std::lock_guard const lock(process.guard);
    std::shared_ptr<TorchSession> session = process.session.lock();
    return session != nullptr && session->caps() ? session : nullptr;
}

class ForwardingAllocator final : public c10::Allocator {
  public:
    c10::DataPtr allocate(std::size_t size_bytes) override {
        void* block = nullptr;
        if (size_bytes != 0) {
            std::shared_ptr<TorchSession> const session = session_of_this_thread();
            block = session == nullptr ? c10::alloc_cpu(size_bytes)
                                       : session->allocate(static_cast<std::int64_t>(size_bytes));
        }
        return {block, block, &free_block, c10::Device(c10::kCPU)};
    }
    // Kernels that call raw_allocate need it, and a context equal to the data.
    c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
    void copy_data(void* to, void const* from, std::size_t count) const override {
        std::memcpy(to, from, count);
    }
};

/// Passes through and keeps the peak of what is asked for.
class CountingAllocator final : public c10::Allocator {
  public:
    c10::DataPtr allocate(std::size_t size_bytes) override {
        void* const block = size_bytes == 0 ? nullptr : c10::alloc_cpu(size_bytes);
        if (block != nullptr) {
            std::lock_guard const lock(guard());
            sizes()[block] = size_bytes;
            used() += static_cast<std::int64_t>(size_bytes);
            peak() = std::max(peak(), used());
        }
        return {block, block, &free_counted, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }
    void copy_data(void* to, void const* from, std::size_t count) const override {
        std::memcpy(to, from, count);
    }

    static std::int64_t& used() {
        static std::int64_t bytes = 0;
        return bytes;
    }
    static std::int64_t& peak() {
        static std::int64_t bytes = 0;
        return bytes;
    }
    static std::mutex& guard() {
        static auto* const mutex = new std::mutex;
        return *mutex;
    }

  private:
    static std::unordered_map<void*, std::size_t>& sizes() {
        static auto* const map = new std::unordered_map<void*, std::size_t>;
        return *map;
    }
    static void free_counted(void* block) {
        if (block == nullptr) {
            return;
        }
        {
            std::lock_guard const lock(guard());
            auto const at = sizes().find(block);
            if (at != sizes().end()) {
                used() -= static_cast<std::int64_t>(at->second);
                sizes().erase(at);
            }
        }
        c10::free_cpu(block);
    }
};

}  // namespace

// Which function frees a block follows from its address, so that a block may outlive its session.
void free_block(void* block) {
    if (arena_of(block) != nullptr) {
        arena_free(block);
    } else {
        c10::free_cpu(block);
    }
}

void install_allocator() {
    static std::once_flag once;
    std::call_once(once, [] {
        static auto* const allocator = new ForwardingAllocator;
        c10::SetCPUAllocator(allocator, kAllocatorPriority);
    });
}

void allocate_from(std::shared_ptr<TorchSession> const& session, bool whole_process) {
    if (auto const* const device = dynamic_cast<C10Device const*>(session->device().get())) {
        allocate_on_device_from(session, device->where());
        return;
    }
    thread_sessions().enter(session);
    if (whole_process) {
        ProcessSession& process = process_session();
        std::lock_guard const lock(process.guard);
        process.session = session;
        process.any = true;
    }
}

std::shared_ptr<TorchSession> of_this_thread(std::shared_ptr<TorchSession> const& session) {
    if (!session->device()->is_host()) {
        return session;  // caps all threads
    }
    if (std::shared_ptr<TorchSession> known = thread_sessions().find(*session)) {
        return known;
    }
    auto const thread = std::make_shared<std::shared_ptr<TorchSession>>(session);
    return {thread, session.get()};
}

namespace {

/// Of `other` a graph alone is left, and neither was entered inside the other one.
bool is_beside(
    std::shared_ptr<TorchSession> const& other, std::shared_ptr<TorchSession> const& session
) {
    auto const of_other = TorchSession::budget_of(other);
    auto const own = TorchSession::budget_of(session);
    return other.get() != session.get() && !other->use().is_in_use() &&
           !of_other->is_inside(*own) && !own->is_inside(*of_other);
}

}  // namespace

std::shared_ptr<TorchSession> capped_on_this_thread(std::shared_ptr<TorchSession> const& session) {
    std::shared_ptr<TorchSession> here = of_this_thread(session);
    if (!session->device()->is_host()) {
        return here;
    }
    std::shared_ptr<TorchSession> const other = session_of_this_thread();
    if (other == nullptr) {
        thread_sessions().enter(here);
    } else if (is_beside(other, session)) {
        thread_sessions().put_innermost(here);
    }
    return here;
}

void count_plain_allocations() {
    static std::once_flag once;
    std::call_once(once, [] {
        static auto* const allocator = new CountingAllocator;
        c10::SetCPUAllocator(allocator, kAllocatorPriority);
    });
}

std::int64_t plain_allocation_peak_bytes() {
    std::lock_guard const lock(CountingAllocator::guard());
    return CountingAllocator::peak();
}

}  // namespace spillway
