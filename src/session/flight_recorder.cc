// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/flight_recorder.h"

#include "base/log.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace spillway {

void FlightRecorder::may_begin_at(ExecutorState state) {
    if (segments_.back().entries.empty()) {
        segments_.back().state = std::move(state);
        return;
    }
    segments_.push_back({std::move(state), {}});
    while (segments_.size() > kStepsBefore + 1) {
        entries_ -= segments_.front().entries.size();
        segments_.pop_front();
    }
}

void FlightRecorder::add(Event const& event, std::vector<Command> const& reply) {
    if (entries_ + 1 + reply.size() > kMostEntries) {
        log_once("the flight recorder is full: its file will end before the failure");
        return;
    }
    std::vector<LogEntry>& entries = segments_.back().entries;
    entries.emplace_back(event);
    entries.insert(entries.end(), reply.begin(), reply.end());
    entries_ += 1 + reply.size();
}

EventLog FlightRecorder::log() const {
    EventLog log{.options = options_, .entries = {}, .state = segments_.front().state};
    for (Segment const& segment : segments_) {
        log.entries.insert(log.entries.end(), segment.entries.begin(), segment.entries.end());
    }
    return log;
}

Result<void> FlightRecorder::write(std::string const& path) const {
    std::error_code failure;
    bool const is_special =
        std::filesystem::is_other(path, failure);  // never replace a device node
    std::string const beside = is_special ? path : path + ".tmp";
    std::ofstream file(beside, std::ios::trunc);
    file << to_text(log());
    file.close();
    if (!file || (!is_special && std::rename(beside.c_str(), path.c_str()) != 0)) {
        std::string const why = std::generic_category().message(errno);
        if (!is_special) {
            std::remove(beside.c_str());
        }
        return Error{Errc::io, "the flight record cannot be written: " + why, path};
    }
    return {};
}

}  // namespace spillway
