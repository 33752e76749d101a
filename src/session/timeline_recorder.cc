// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/timeline_recorder.h"

#include "base/log.h"
#include "report/chrome_trace.h"

#include <iterator>
#include <utility>

namespace spillway {

Result<void> TimelineRecorder::open(std::string const& path) {
    path_ = path;
    file_.open(path, std::ios::trunc);
    if (!file_) {
        return Error{Errc::io, "cannot write the timeline", path};
    }
    return {};
}

void TimelineRecorder::begin_step() {
    steps_.emplace_back();
}

bool TimelineRecorder::has_room() {
    if (entries_ >= most_entries_ && !path_.empty()) {
        log_once(
            "the timeline grows too long: it leaves out its oldest steps, or the end of a very "
            "long "
            "one"
        );
    }
    while (entries_ >= most_entries_ && steps_.size() > 1) {
        entries_ -= steps_.front().entries();
        steps_.pop_front();
    }
    bool const has_room = entries_ < most_entries_;
    entries_ += has_room ? 1 : 0;
    return has_room;
}

void TimelineRecorder::mark(std::string const& what) {
    if (has_room()) {
        now().marked_ns.push_back(steady_now_ns() - opened_ns_);
        now().marks.emplace_back(what);
    }
}

void TimelineRecorder::moved(Span span, Interval time) {
    if (has_room()) {
        span.start_ns = time.start_ns - opened_ns_;
        span.end_ns = time.end_ns - opened_ns_;
        now().texts.emplace_back(span.text);
        span.text = {};
        now().spans.push_back(std::move(span));
    }
}

void TimelineRecorder::stalled(StallCause cause, Interval time) {
    Span span;
    span.what = "stall";
    span.text = name_of(cause);
    moved(std::move(span), time);
}

void TimelineRecorder::used(Pool pool, std::int64_t used_bytes) {
    std::int64_t& last = last_used_bytes_[static_cast<std::size_t>(pool)];
    if (used_bytes != last && has_room()) {
        last = used_bytes;
        now().memory.push_back({pool, steady_now_ns() - opened_ns_, used_bytes});
    }
}

Timeline TimelineRecorder::timeline() const {
    Timeline all;
    for (Step const& step : steps_) {
        for (std::size_t i = 0; i < step.spans.size(); ++i) {
            all.spans.push_back(step.spans[i]);
            all.spans.back().text = step.texts[i];
        }
        all.memory.insert(all.memory.end(), step.memory.begin(), step.memory.end());
        for (std::size_t i = 0; i < step.marks.size(); ++i) {
            all.marks.push_back({step.marked_ns[i], std::string(step.marks[i])});
        }
    }
    return lined_up(std::move(all));
}

Result<void> TimelineRecorder::write() {
    return write(file_, path_);
}

Result<void> TimelineRecorder::write_to(std::string const& path) const {
    std::ofstream file(path, std::ios::trunc);
    return write(file, path);
}

Result<void> TimelineRecorder::write(std::ofstream& file, std::string const& path) const {
    file << to_chrome_trace(timeline()) << std::flush;
    if (!file) {
        return Error{Errc::io, "cannot write the timeline", path};
    }
    return {};
}

}  // namespace spillway
