// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/trace_recorder.h"

#include "base/clock.h"
#include "executor/event_log.h"
#include "session/state_slot.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <variant>

namespace spillway {

namespace {

constexpr std::chrono::microseconds kPollInterval{50};

}  // namespace

Result<void> TraceRecorder::open(std::string const& path) {
    path_ = path;
    std::error_code error;
    bool const is_there = std::filesystem::exists(path, error);
    file_.open(path, std::ios::app);  // what is there stays until there is a trace
    is_new_ = file_.is_open() && !is_there;
    if (!file_) {
        std::string const why = std::generic_category().message(errno);
        return Error{Errc::io, "cannot write the trace: " + why, path};
    }
    return {};
}

TraceRecorder::~TraceRecorder() {
    if (is_new_) {
        std::error_code error;
        std::filesystem::remove(path_, error);  // it is empty
    }
}

TraceRecorder::Moment TraceRecorder::now(std::int64_t waited_ns) const {
    bool const is_host = device_.is_host();
    return {
        steady_now_ns(), waited_ns, is_host ? nullptr : device_.record(device_.current_stream())};
}

void TraceRecorder::begin(std::string name, Phase phase, std::int64_t waited_ns) {
    trace_.name = std::move(name);
    phase_ = phase;
    has_begun_ = true;
    point_ = {.phase = phase};
    began_ = now(waited_ns);
    ended_ = began_;
}

void TraceRecorder::end(Usage const& usage, std::int64_t waited_ns) {
    ended_ = now(waited_ns);
    see(usage);
    close_point();
}

void TraceRecorder::ends_point(std::int64_t waited_ns) {
    if (has_begun_) {
        ended_ = now(waited_ns);
    }
}

void TraceRecorder::begins_point(std::int64_t waited_ns) {
    if (has_begun_) {
        began_ = now(waited_ns);
        is_at_boundary_ = false;
    }
}

void TraceRecorder::close_point() {
    trace_.points.push_back(std::exchange(point_, TracePoint{.phase = phase_}));
    times_.emplace_back(began_, ended_);
    began_ = ended_;
    is_at_boundary_ = true;
}

void TraceRecorder::saw(
    Event const& event, std::function<std::int64_t(ValueId)> const& held_bytes
) {
    if (!has_begun_) {
        return;
    }
    std::visit([this](auto const& each) { take(each); }, event);
    held_bytes_ = first_.valid() ? held_bytes(first_) : 0;
    if (is_program_event(event)) {
        held_before_bytes_ = held_bytes_;
    }
}

/// What the allocator counted since the last event, less the values of the trace: floor and values
/// together are the peak, whichever of them the bytes were.
void TraceRecorder::see(Usage const& usage) {
    point_.floor_bytes = std::max(
        {point_.floor_bytes, usage.used_bytes - held_bytes_, usage.peak_bytes - held_before_bytes_}
    );
}

void TraceRecorder::take(Saved const& event) {
    if (is_of_optimizer(event.slot)) {
        see(event.usage);
        return;
    }
    if (!first_.valid()) {
        first_ = event.value;
    }
    ValueId const number{std::ssize(trace_.values)};
    trace_.values.push_back({.slot = event.slot, .size_bytes = event.size_bytes});
    if (auto const counted = counted_.find(event.value); counted != counted_.end()) {
        trace_.values.back().slot.occurrence = counted->second;
        counted_.erase(counted);
    }
    numbers_[event.value] = number;
    all_numbers_[event.value] = number;
    see(event.usage);
    close_point();
    point_.saved.push_back(number);
}

void TraceRecorder::take(Need const& event) {
    see(event.usage);
    close_point();
    if (ValueId const number = at(event.value); number.valid()) {
        point_.needed.push_back(number);
    }
}

void TraceRecorder::take(PhaseBegan const& event) {
    see(event.usage);
    bool const is_first = trace_.points.empty() && point_.dropped.empty();
    if (!is_first) {  // else it is what begins the step
        close_point();
    }
    phase_ = event.phase;
    point_.phase = event.phase;
}

/// They are unshared since before the point that ended last, or in the middle of this one.
void TraceRecorder::take(Point const& event) {
    see(event.usage);
    bool const has_ended = is_at_boundary_ && !trace_.points.empty();
    for (ValueId const value : event.unshared) {
        if (ValueId const number = at(value); number.valid()) {
            bool const is_new = std::ranges::find(point_.saved, number) != point_.saved.end();
            (has_ended && !is_new ? trace_.points.back() : point_).unshared.push_back(number);
        }
    }
}

void TraceRecorder::take(Made const& event) {
    ValueId const number = at(event.value);
    RecipeShape recipe = event.recipe;
    for (ValueId& source : recipe.sources) {
        auto const found = all_numbers_.find(source);
        source = found == all_numbers_.end() ? ValueId() : found->second;
    }
    bool const has_all = std::all_of(recipe.sources.begin(), recipe.sources.end(), [](ValueId id) {
        return id.valid();
    });
    if (number.valid() && has_all) {
        trace_.values[number.index()].recipe = std::move(recipe);
    }
}

void TraceRecorder::take(Dropped const& event) {
    if (auto const found = numbers_.find(event.value); found != numbers_.end()) {
        point_.dropped.push_back(found->second);
        numbers_.erase(found);
    }
}

ValueId TraceRecorder::at(ValueId value) const {
    auto const found = numbers_.find(value);
    return found == numbers_.end() ? ValueId() : found->second;
}

void TraceRecorder::add_words(std::unordered_map<ValueId, TraceWords> const& words) {
    for (auto const& [value, found] : words) {
        auto const number = all_numbers_.find(value);
        if (number != all_numbers_.end()) {
            TraceValue& of = trace_.values[number->second.index()];
            of.module = found.module.empty() ? of.module : found.module;
            of.why_no_recipe = found.why_no_recipe.empty() ? of.why_no_recipe : found.why_no_recipe;
            if (of.recipe && found.recipe_ns > 0) {
                of.recipe->duration_ns = found.recipe_ns;
            }
            of.dtype = found.dtype.empty() ? of.dtype : found.dtype;
            if (found.tensor_class) {
                SaverClasses& classes = classes_[number->second];
                classes.add(*found.tensor_class);
                of.tensor_class = classes.all();
                of.classes = classes.differing();
            }
        }
    }
}

std::int64_t TraceRecorder::duration_ns(Moment const& from, Moment const& to) const {
    std::int64_t const took_ns = device_.is_host()
                                     ? to.at_ns - from.at_ns - (to.waited_ns - from.waited_ns)
                                     : device_.elapsed_ns(from.on_stream, to.on_stream);
    return std::max<std::int64_t>(0, took_ns);
}

Trace TraceRecorder::trace() const {
    Trace trace = trace_;
    for (TraceValue& value : trace.values) {
        if (value.recipe) {
            value.why_no_recipe.clear();
        }
    }
    for (std::size_t i = 0; i < times_.size(); ++i) {
        auto const& [from, to] = times_[i];
        while (!device_.passed(to.on_stream)) {
            std::this_thread::sleep_for(kPollInterval);
        }
        trace.points[i].duration_ns = duration_ns(from, to);
    }
    return trace;
}

Result<void> TraceRecorder::write(Trace const& trace) {
    is_new_ = false;
    file_.close();
    file_.open(path_, std::ios::trunc);
    file_ << to_json_text(trace) << std::flush;
    if (!file_) {
        return Error{Errc::io, "cannot write the trace", path_};
    }
    return {};
}

}  // namespace spillway
