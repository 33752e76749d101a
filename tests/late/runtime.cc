// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "late/runtime.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace late {

namespace {

constexpr std::size_t kActors = 1 + std::size_t{kMostDevices} * kStreams;

}  // namespace

Actor actor_of(c10::Stream stream) {
    auto const device = static_cast<int>(stream.device_index());
    TORCH_CHECK(
        stream.device_type() == c10::kPrivateUse1 && device >= 0 &&
            device < Runtime::get().devices() && stream.id() >= 0 && stream.id() < kStreams,
        "late: not a stream of this backend: ",
        stream
    );
    return static_cast<Actor>(1 + device * kStreams + static_cast<int>(stream.id()));
}

c10::Stream stream_of(Actor lane) {
    int const index = static_cast<int>(lane) - 1;
    c10::Device const device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index / kStreams));
    return c10::Stream(c10::Stream::UNSAFE, device, index % kStreams);
}

std::string actor_name(Actor actor) {
    if (actor == kHost) {
        return "host";
    }
    int const index = static_cast<int>(actor) - 1;
    return "late:" + std::to_string(index / kStreams) + " stream " +
           std::to_string(index % kStreams);
}

ThreadState& thread_state() {
    static thread_local ThreadState state;
    return state;
}

Actor current_lane(int device) {
    return static_cast<Actor>(
        1 + device * kStreams + static_cast<int>(thread_state().streams[device])
    );
}

Runtime& Runtime::get() {
    static auto* const runtime = new Runtime;  // leaked: tensors and the executor outlive main()
    return *runtime;
}

void Runtime::configure(Options const& options) {
    TORCH_CHECK(options.devices >= 1 && options.devices <= kMostDevices, "late: 1 to 4 devices");
    if (!clocks_.empty()) {
        scheduler_.wait_idle();
    }
    std::lock_guard const lock(mutex_);
    scheduler_.configure(options, kActors);
    memory_.configure(options);
    checker_.clear();
    clocks_.assign(kActors, {});
    next_stream_.assign(kMostDevices, 0);
    options_ = options;
    devices_ = options.devices;
    launches_ = 0;
    inferred_ = 0;
}

Options Runtime::options() const {
    std::lock_guard const lock(mutex_);
    return options_;
}

void Runtime::fail(std::string why) {
    std::lock_guard const lock(mutex_);
    failure_ = std::move(why);
}

void Runtime::refuse_if_failed() const {
    std::lock_guard const lock(mutex_);
    if (!failure_.empty()) {
        throw c10::Error("late: " + failure_, nullptr);  // no backtrace: it is thrown often
    }
}

void Runtime::launch(
    Actor lane, std::string name, std::vector<Use> uses, std::function<void()> work
) {
    refuse_if_failed();
    scheduler_.raise_failure();
    std::lock_guard const lock(mutex_);
    ++launches_;
    Clock& clock = clocks_[lane];
    clock.join(clocks_[kHost]);
    std::uint64_t const tick = clock.advance(lane);
    std::int64_t size_bytes = 0;
    for (Use const& use : uses) {
        size_bytes += static_cast<std::int64_t>(use.end - use.begin);
    }
    if (!checker_.access({lane, tick, clock}, name, uses)) {
        for (Use const& use : uses) {
            Block* const block = memory_.find(reinterpret_cast<void const*>(use.begin));
            if (block != nullptr) {
                block->stays = true;
            }
        }
    }
    scheduler_.enqueue(
        lane, {.name = std::move(name), .work = std::move(work), .size_bytes = size_bytes}
    );
}

void Runtime::launch_callback(Actor lane, std::function<void()> work) {
    MarkPtr const before = record(lane);
    auto then = [this, before, work = std::move(work)] {
        {
            std::lock_guard const lock(mutex_);
            clocks_[kHost].join(before->clock);
        }
        work();
    };
    launch(lane, "host callback", {}, std::move(then));
}

MarkPtr Runtime::record(Actor lane) {
    refuse_if_failed();
    std::lock_guard const lock(mutex_);
    auto mark = std::make_shared<Mark>();
    clocks_[lane].join(clocks_[kHost]);
    mark->clock = clocks_[lane];
    scheduler_.enqueue(lane, {.name = "record", .signal = mark, .timed = false});
    return mark;
}

void Runtime::block(Actor lane, MarkPtr const& mark) {
    refuse_if_failed();
    std::lock_guard const lock(mutex_);
    clocks_[lane].join(mark->clock);
    scheduler_.enqueue(lane, {.name = "block", .wait_for = mark, .timed = false});
}

void Runtime::synchronize(MarkPtr const& mark) {
    refuse_if_failed();
    scheduler_.wait(mark);
    {
        std::lock_guard const lock(mutex_);
        clocks_[kHost].join(mark->clock);
    }
    scheduler_.raise_failure();
}

void Runtime::synchronize_device(int device) {
    std::vector<MarkPtr> marks;
    Actor const first = static_cast<Actor>(1 + device * kStreams);
    for (Actor lane = first; lane < first + kStreams; ++lane) {
        marks.push_back(record(lane));
    }
    for (MarkPtr const& mark : marks) {
        synchronize(mark);
    }
}

bool Runtime::query(MarkPtr const& mark) {
    refuse_if_failed();
    bool const passed = scheduler_.poll(mark);
    if (passed) {
        std::lock_guard const lock(mutex_);
        clocks_[kHost].join(mark->clock);
    }
    return passed;
}

bool Runtime::query(Actor lane) {
    refuse_if_failed();
    std::unique_lock lock(mutex_);
    Clock const clock = clocks_[lane];
    lock.unlock();
    bool const passed = scheduler_.poll_lane(lane);
    if (passed) {
        lock.lock();
        clocks_[kHost].join(clock);
    }
    return passed;
}

void Runtime::host_access(std::string_view name, Use const& use) {
    std::lock_guard const lock(mutex_);
    Clock& clock = clocks_[kHost];
    std::uint64_t const tick = clock.advance(kHost);
    checker_.access({kHost, tick, clock}, name, {&use, 1});
}

void* Runtime::allocate(std::size_t size_bytes, int device, Actor owner) {
    if (size_bytes == 0) {
        return nullptr;
    }
    std::unique_lock lock(mutex_);
    for (;;) {
        for (Block const& returned : memory_.drain(scheduler_)) {
            checker_.forget(returned.begin(), returned.end());
        }
        if (Block* const block = memory_.allocate(size_bytes, device, owner)) {
            enqueue_first_touch(*block);
            return block->bytes;
        }
        Block const* const held = memory_.held(device);
        if (held == nullptr || Scheduler::on_executor()) {
            break;
        }
        std::vector<MarkPtr> const passed = held->passed;
        lock.unlock();
        for (MarkPtr const& mark : passed) {
            scheduler_.wait(mark);
        }
        lock.lock();
    }
    DeviceStats const counters = memory_.counters(device);
    lock.unlock();
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        false,
        "late: out of memory: ",
        rounded(static_cast<std::int64_t>(size_bytes)),
        " bytes do not fit beside ",
        counters.used_bytes,
        " of device ",
        device
    );
}

// Note [A new block belongs to its stream]
// On CUDA it may be one that the same stream has freed and whose last use is still under way there,
// so another stream must wait before it touches the block. Here the stream fills it when it gets to
// that point.
void Runtime::enqueue_first_touch(Block const& block) {
    Actor const lane = block.owner;
    if (lane == kHost) {
        return;
    }
    clocks_[lane].join(clocks_[kHost]);
    std::uint64_t const tick = clocks_[lane].advance(lane);
    Use const use{.begin = block.begin(), .end = block.end(), .write = true};
    checker_.access({lane, tick, clocks_[lane]}, "allocate", {&use, 1});
    auto fill = [bytes = block.bytes, size_bytes = block.size_bytes] {
        Memory::clear(bytes, size_bytes);
    };
    scheduler_.enqueue(lane, {.name = "allocate", .work = std::move(fill), .timed = false});
}

void Runtime::enqueue_free(Block& block, Actor lane) {
    auto mark = std::make_shared<Mark>();
    scheduler_.enqueue(
        lane,
        {.name = "free",
         .work =
             [this, &block] {
                 std::lock_guard const lock(mutex_);
                 memory_.pass(block);
             },
         .signal = mark,
         .timed = false}
    );
    block.passed.push_back(mark);
}

// Note [The earliest legal overwrite]
// A block may be written again when its own lane and every recorded one has passed its free. Each
// gets a task there, and the last of them poisons.
void Runtime::free(void* bytes) noexcept {
    if (bytes == nullptr) {
        return;
    }
    std::lock_guard const lock(mutex_);
    Block* const block = memory_.find(bytes);
    TORCH_INTERNAL_ASSERT(block != nullptr && block->bytes == bytes && block->alive, "late: free");
    if (!failure_.empty()) {  // nobody could order anything before it: it is not used again
        block->recorded.clear();
        block->stays = true;
        memory_.free(*block);
        return;
    }
    std::set<Actor> lanes = block->recorded;
    lanes.insert(block->owner);
    Clock clock = clocks_[kHost];
    for (Actor const lane : lanes) {
        clocks_[lane].join(clocks_[kHost]);
        clock.join(clocks_[lane]);
    }
    Use const use{.begin = block->begin(), .end = block->end(), .write = true};
    std::uint64_t const tick = clocks_[block->owner].advance(block->owner);
    checker_.access({block->owner, tick, clock}, "free", {&use, 1});
    checker_.freed(use);
    lanes.erase(kHost);
    memory_.free(*block);
    block->to_pass = static_cast<int>(lanes.size());
    for (Actor const lane : lanes) {
        enqueue_free(*block, lane);
    }
    if (lanes.empty()) {
        memory_.pass(*block);
    }
    block->returnable = scheduler_.enqueued();
}

void Runtime::record_use(void const* byte, Actor lane) {
    std::lock_guard const lock(mutex_);
    Block* const block = memory_.find(byte);
    TORCH_CHECK(block != nullptr && block->alive, "late: no live block to record a stream on");
    if (lane != block->owner) {
        block->recorded.insert(lane);
    }
}

std::optional<int> Runtime::device_of(void const* byte) {
    std::lock_guard const lock(mutex_);
    Block const* const block = memory_.find(byte);
    return block == nullptr ? std::nullopt : std::optional(block->device);
}

c10::Stream Runtime::next_pool_stream(int device) {
    std::lock_guard const lock(mutex_);
    int& next = next_stream_.at(static_cast<std::size_t>(device));
    Actor const lane = static_cast<Actor>(1 + device * kStreams + 1 + next);
    next = (next + 1) % kPoolStreams;
    return stream_of(lane);
}

std::vector<Report> Runtime::reports() const {
    std::lock_guard const lock(mutex_);
    return checker_.reports();
}

std::vector<Damage> Runtime::damage() {
    scheduler_.wait_idle();
    std::lock_guard const lock(mutex_);
    return memory_.damage();
}

Stats Runtime::stats() {
    std::lock_guard const lock(mutex_);
    Stats stats;
    for (int device = 0; device < devices_; ++device) {
        stats.devices.push_back(memory_.counters(device));
    }
    stats.pinned = memory_.counters(kPinned);
    stats.launches = launches_;
    stats.executed = scheduler_.executed();
    stats.inferred = inferred_;
    stats.order_hash = scheduler_.order_hash();
    return stats;
}

void Runtime::reset_peak(int device) {
    std::lock_guard const lock(mutex_);
    memory_.counters(device).peak_bytes = memory_.counters(device).used_bytes;
}

void Runtime::limit(int device, std::int64_t limit_bytes) {
    std::lock_guard const lock(mutex_);
    memory_.limit(device, limit_bytes);
}

}  // namespace late
