// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "late/late.h"

#include "late/runtime.h"
#include "late/tensors.h"

#include <c10/core/DeviceType.h>

#include <mutex>
#include <sstream>
#include <utility>

namespace late {

void install() {
    static std::once_flag once;
    std::call_once(once, [] {
        Runtime::get().configure({});
        c10::register_privateuse1_backend("late");
        register_allocators();
        register_guard();
        register_hooks();
        register_kernels();
        register_copies();
        register_fallback();
    });
}

void configure(Options options) {
    Runtime::get().configure(options);
}

void reset(std::uint64_t seed) {
    Options options = Runtime::get().options();
    options.seed = seed;
    Runtime::get().configure(options);
}

void manual_seed(std::uint64_t seed) {
    for (int device = 0; device < Runtime::get().devices(); ++device) {
        cpu_generator(std::nullopt, device).set_current_seed(seed);
    }
}

std::string Report::text() const {
    auto const side = [](Party const& party) {
        return party.op + (party.writes ? " writing" : " reading") + " on " + party.stream;
    };
    std::ostringstream text;
    text << (kind == Kind::race ? "race: " : "use after free: ") << side(first) << ", then "
         << side(second) << " with nothing between, " << end - begin << " bytes at 0x" << std::hex
         << begin;
    return text.str();
}

std::vector<Report> reports() {
    return Runtime::get().reports();
}

Stats stats() {
    return Runtime::get().stats();
}

std::vector<Damage> damage() {
    return Runtime::get().damage();
}

void reset_peak(c10::DeviceIndex device) {
    Runtime::get().reset_peak(device);
}

void set_limit(c10::DeviceIndex device, std::int64_t limit_bytes) {
    Runtime::get().limit(device, limit_bytes);
}

void wait_idle() {
    Runtime::get().scheduler().wait_idle();
}

void poll() {
    Runtime::get().scheduler().poll();
}

KeepRunning::KeepRunning() {
    Runtime::get().scheduler().keep_running(1);
}

KeepRunning::~KeepRunning() {
    Runtime::get().scheduler().keep_running(-1);
}

Failure::Failure(std::string why) {
    Runtime::get().fail(std::move(why));
}

Failure::~Failure() {
    Runtime::get().fail({});
}

NoEvents::NoEvents() {
    thread_state().has_events = false;
}

NoEvents::~NoEvents() {
    thread_state().has_events = true;
}

std::int64_t virtual_now() {
    return Runtime::get().scheduler().virtual_now();
}

void advance_host(std::int64_t ns) {
    advance_host_to(virtual_now() + ns);
}

void advance_host_to(std::int64_t ns) {
    Runtime::get().scheduler().advance_host_to(ns);
}

void call_on_stream(c10::Stream stream, std::function<void()> call) {
    Runtime::get().launch_callback(actor_of(stream), std::move(call));
}

void* allocate_bytes(std::size_t size_bytes, c10::Stream stream) {
    return Runtime::get().allocate(size_bytes, stream.device_index(), actor_of(stream));
}

void* allocate_pinned(std::size_t size_bytes) {
    return Runtime::get().allocate(size_bytes, kPinned, kHost);
}

void free_bytes(void* block) noexcept {
    Runtime::get().free(block);
}

void record_stream(void* block, c10::Stream stream) {
    Runtime::get().record_use(block, actor_of(stream));
}

}  // namespace late
