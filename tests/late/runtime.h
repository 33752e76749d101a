// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The whole backend without torch's tensors: what each stream knows, its queue, the blocks, and the
// checker, under one mutex. There is one in a process, because torch has one PrivateUse1.
#pragma once

#include "late/checker.h"
#include "late/clocks.h"
#include "late/late.h"
#include "late/memory.h"
#include "late/scheduler.h"

#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace late {

inline constexpr int kMostDevices = 4;
inline constexpr int kPoolStreams = 32;  ///< of a device, beside the default stream
inline constexpr int kStreams = kPoolStreams + 1;

[[nodiscard]] Actor actor_of(c10::Stream stream);
[[nodiscard]] c10::Stream stream_of(Actor lane);
[[nodiscard]] std::string actor_name(Actor actor);

/// Thread  every function may be called from any thread; the executor's must not wait
class Runtime {
  public:
    static Runtime& get();

    void configure(Options const& options);
    [[nodiscard]] Options options() const;
    [[nodiscard]] int devices() const { return devices_; }

    /// From now on calls are refused with these words; with none, no more.
    void fail(std::string why);
    /// Throws them.
    void refuse_if_failed() const;

    /// Enqueues `work` on a lane, which accesses `uses`, after the lane and all that the host
    /// knows.
    void launch(Actor lane, std::string name, std::vector<Use> uses, std::function<void()> work);
    /// A launch whose effects the host knows when it has run: work of the host, on a lane.
    void launch_callback(Actor lane, std::function<void()> work);

    [[nodiscard]] MarkPtr record(Actor lane);
    void block(Actor lane, MarkPtr const& mark);
    /// Waits, and the host knows from now on what the mark knows.
    void synchronize(MarkPtr const& mark);
    void synchronize(Actor lane) { synchronize(record(lane)); }
    void synchronize_device(int device);
    [[nodiscard]] bool query(MarkPtr const& mark);
    [[nodiscard]] bool query(Actor lane);

    /// An access by the host, now.
    void host_access(std::string_view name, Use const& use);

    /// Fails   c10::OutOfMemoryError
    [[nodiscard]] void* allocate(std::size_t size_bytes, int device, Actor owner);
    void free(void* block) noexcept;
    /// The block that has this byte is used on `lane`.
    void record_use(void const* byte, Actor lane);

    /// What the block that has this byte is of; nullopt for plain host memory.
    [[nodiscard]] std::optional<int> device_of(void const* byte);

    [[nodiscard]] c10::Stream next_pool_stream(int device);

    [[nodiscard]] std::vector<Report> reports() const;
    [[nodiscard]] std::vector<Damage> damage();
    [[nodiscard]] Stats stats();
    void count_inferred() { ++inferred_; }
    void reset_peak(int device);
    void limit(int device, std::int64_t limit_bytes);

    [[nodiscard]] Scheduler& scheduler() { return scheduler_; }

  private:
    Runtime() = default;
    void enqueue_first_touch(Block const& block);
    void enqueue_free(Block& block, Actor lane);

    mutable std::mutex mutex_;
    Options options_;
    std::string failure_;  ///< empty: the devices work
    std::atomic<int> devices_ = 0;
    std::vector<Clock> clocks_;  ///< of actors
    Checker checker_;
    Memory memory_;
    Scheduler scheduler_;
    std::vector<int> next_stream_;
    std::int64_t launches_ = 0;
    std::atomic<std::int64_t> inferred_ = 0;
};

/// The current stream of the calling thread, of its current or of a given device.
struct ThreadState {
    int device = 0;
    c10::StreamId streams[kMostDevices] = {};
    bool has_events = true;
};
[[nodiscard]] ThreadState& thread_state();
[[nodiscard]] Actor current_lane(int device);

}  // namespace late
