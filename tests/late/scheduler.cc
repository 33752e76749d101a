// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "late/scheduler.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace late {

namespace {

thread_local bool is_executor = false;
thread_local std::int64_t callback_ns = 0;  // on the executor: when the task that runs ends

constexpr int kAllSteps = 1 << 30;
constexpr std::uint64_t kHashStart = 14695981039346656037ULL;  // FNV-1a, 64 bits
constexpr std::uint64_t kHashFactor = 1099511628211ULL;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    return (hash ^ value) * kHashFactor;
}

}  // namespace

Scheduler::Scheduler() {
    std::thread([this] { run(); }).detach();
}

void Scheduler::configure(Options const& options, std::size_t lanes) {
    std::lock_guard const lock(mutex_);
    TORCH_CHECK(idle(), "late: configured while tasks wait");
    options_ = options;
    lanes_.assign(lanes, {});
    random_.seed(options.seed);
    failure_ = nullptr;
    order_hash_ = kHashStart;
    executed_ = 0;
    host_ns_ = 0;
}

void Scheduler::enqueue(Actor lane, Task task) {
    std::lock_guard const lock(mutex_);
    task.enqueued_ns = is_executor ? callback_ns : host_ns_;
    if (task.signal != nullptr) {
        task.signal->passed = false;
    }
    lanes_[lane].waiting.push_back(std::move(task));
    ++lanes_[lane].enqueued;
    if (wanted()) {
        to_run_.notify_one();
    }
}

bool Scheduler::idle() const {
    return !busy_ && std::all_of(lanes_.begin(), lanes_.end(), [](Lane const& lane) {
        return lane.waiting.empty();
    });
}

bool Scheduler::waited_for() const {
    return options_.mode == Mode::eager || keep_running_ > 0 || waiting_for_idle_ > 0 ||
           std::any_of(waited_for_.begin(), waited_for_.end(), [](Mark const* mark) {
               return !mark->passed;
           });
}

std::int64_t Scheduler::start_of(Lane const& lane) const {
    Task const& task = lane.waiting.front();
    std::int64_t const start = std::max(lane.time_ns, task.enqueued_ns);
    return task.wait_for == nullptr ? start : std::max(start, task.wait_for->passed_ns);
}

/// A lane whose head may run: in virtual time the earliest, for a poll none of the future; else
/// any.
std::optional<Actor> Scheduler::choose() {
    std::vector<Actor> ready;
    for (Actor i = 0; i < lanes_.size(); ++i) {
        std::deque<Task> const& waiting = lanes_[i].waiting;
        if (!waiting.empty() &&
            (waiting.front().wait_for == nullptr || waiting.front().wait_for->passed)) {
            ready.push_back(i);
        }
    }
    if (ready.empty()) {
        return std::nullopt;
    }
    if (options_.mode == Mode::virtual_time) {
        Actor const first = *std::min_element(ready.begin(), ready.end(), [this](Actor a, Actor b) {
            return start_of(lanes_[a]) < start_of(lanes_[b]);
        });
        bool const future = start_of(lanes_[first]) > host_ns_;
        return future && !waited_for() ? std::nullopt : std::optional(first);
    }
    return ready[random_() % ready.size()];
}

void Scheduler::run() {
    is_executor = true;
    std::unique_lock lock(mutex_);
    for (;;) {
        std::optional<Actor> const lane = wanted() ? choose() : std::nullopt;
        if (lane) {
            step(lock, *lane);
        } else {
            steps_ = 0;  // there is nothing that a poll could run
            has_run_.notify_all();
            to_run_.wait(lock);
        }
    }
}

void Scheduler::step(std::unique_lock<std::mutex>& lock, Actor lane) {
    std::int64_t const start = start_of(lanes_[lane]);
    Task task = std::move(lanes_[lane].waiting.front());
    lanes_[lane].waiting.pop_front();
    busy_ = true;
    std::int64_t end = start;
    if (options_.mode == Mode::virtual_time && options_.duration && task.timed) {
        end += options_.duration(task.name, task.size_bytes);
    }
    callback_ns = end;
    if (task.work) {
        work_of(lock, task, lane);
    }
    lanes_[lane].time_ns = end;
    ++lanes_[lane].executed;
    busy_ = false;
    steps_ -= steps_ > 0 ? 1 : 0;
    if (task.signal != nullptr) {
        task.signal->passed = true;
        task.signal->passed_ns = end;
    }
    if (steps_ == 0 || task.signal != nullptr || idle()) {
        has_run_.notify_all();
    }
}

void Scheduler::work_of(std::unique_lock<std::mutex>& lock, Task& task, Actor lane) {
    ++executed_;
    order_hash_ = mix(order_hash_, lane);
    for (char const c : task.name) {
        order_hash_ = mix(order_hash_, static_cast<unsigned char>(c));
    }
    std::int64_t const most = options_.mode == Mode::eager ? options_.max_delay_us : 0;
    std::int64_t const delay =
        most == 0 ? 0 : static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most));
    lock.unlock();
    std::exception_ptr failure;
    try {
        if (delay > 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(delay));
        }
        task.work();
    } catch (...) {
        failure = std::current_exception();
    }
    task.work = nullptr;  // what the closure owns dies without the lock
    lock.lock();
    if (failure != nullptr && failure_ == nullptr) {
        failure_ = failure;
    }
}

void Scheduler::wait(MarkPtr const& mark, bool on_host) {
    TORCH_CHECK(!is_executor, "late: a host callback must not wait for the device");
    std::unique_lock lock(mutex_);
    waited_for_.push_back(mark.get());
    to_run_.notify_one();
    has_run_.wait(lock, [&] { return mark->passed; });
    waited_for_.erase(std::find(waited_for_.begin(), waited_for_.end(), mark.get()));
    if (on_host) {
        host_ns_ = std::max(host_ns_, mark->passed_ns);
    }
}

void Scheduler::wait_idle() {
    TORCH_CHECK(!is_executor, "late: a host callback must not wait for the device");
    std::unique_lock lock(mutex_);
    ++waiting_for_idle_;
    to_run_.notify_one();
    has_run_.wait(lock, [this] { return idle(); });
    --waiting_for_idle_;
    for (Lane const& lane : lanes_) {
        host_ns_ = std::max(host_ns_, lane.time_ns);
    }
}

void Scheduler::poll_some(std::unique_lock<std::mutex>& lock) {
    if (is_executor) {
        return;  // what asks is itself what runs
    }
    steps_ = options_.mode == Mode::virtual_time ? kAllSteps : 1 + static_cast<int>(random_() % 3);
    to_run_.notify_one();
    has_run_.wait(lock, [this] { return steps_ == 0; });
}

/// In virtual time the event may have passed on its lane and not yet for the host.
void Scheduler::poll_cost(bool in_vain) {
    if (in_vain && options_.mode == Mode::virtual_time) {
        host_ns_ += options_.poll_ns;
    }
}

void Scheduler::poll() {
    std::unique_lock lock(mutex_);
    std::int64_t const before = executed_;
    poll_some(lock);
    poll_cost(executed_ == before);
}

bool Scheduler::poll(MarkPtr const& mark) {
    std::unique_lock lock(mutex_);
    if (!mark->passed) {
        poll_some(lock);
    }
    bool const passed = mark->passed && (options_.mode != Mode::virtual_time || is_executor ||
                                         mark->passed_ns <= host_ns_);
    poll_cost(!passed);
    return passed;
}

bool Scheduler::poll_lane(Actor lane) {
    std::unique_lock lock(mutex_);
    if (lanes_[lane].executed != lanes_[lane].enqueued) {
        poll_some(lock);
    }
    bool const passed = lanes_[lane].executed == lanes_[lane].enqueued &&
                        (options_.mode != Mode::virtual_time || lanes_[lane].time_ns <= host_ns_);
    poll_cost(!passed);
    return passed;
}

void Scheduler::keep_running(int change) {
    std::lock_guard const lock(mutex_);
    keep_running_ += change;
    to_run_.notify_one();
}

void Scheduler::raise_failure() {
    std::exception_ptr failure;
    {
        std::lock_guard const lock(mutex_);
        failure = std::exchange(failure_, nullptr);
    }
    if (failure != nullptr) {
        std::rethrow_exception(failure);
    }
}

Progress Scheduler::enqueued() const {
    std::lock_guard const lock(mutex_);
    Progress progress;
    for (Lane const& lane : lanes_) {
        progress.push_back(lane.enqueued);
    }
    return progress;
}

bool Scheduler::reached(Progress const& progress) const {
    std::lock_guard const lock(mutex_);
    for (std::size_t i = 0; i < progress.size() && i < lanes_.size(); ++i) {
        if (lanes_[i].executed < progress[i]) {
            return false;
        }
    }
    return true;
}

std::uint64_t Scheduler::order_hash() const {
    std::lock_guard const lock(mutex_);
    return order_hash_;
}

std::int64_t Scheduler::executed() const {
    std::lock_guard const lock(mutex_);
    return executed_;
}

std::int64_t Scheduler::virtual_now() const {
    std::lock_guard const lock(mutex_);
    return is_executor ? callback_ns : host_ns_;
}

void Scheduler::advance_host_to(std::int64_t ns) {
    std::lock_guard const lock(mutex_);
    host_ns_ = std::max(host_ns_, ns);
}

bool Scheduler::on_executor() {
    return is_executor;
}

}  // namespace late
