// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the loop tells: the times that compute waited, the report and the trace.

#include "base/clock.h"
#include "base/log.h"
#include "session/loop.h"

#include <algorithm>
#include <numeric>

namespace spillway {

namespace {

/// Waits of streams are copies' alone: what is between staging and a tier, the host waits for.
void add_streams(Report& report, StreamCounters const& streams) {
    report.copy_out_bytes = streams.out_bytes;
    report.copy_out_ns = streams.out_ns;
    report.copy_in_bytes = streams.in_bytes;
    report.copy_in_ns = streams.in_ns;
    report.stall_store_ns += streams.stall_store_ns;
    report.stall_load_ns += streams.stall_load_ns;
    report.stall_by_cause_ns[static_cast<std::size_t>(StallCause::copy_out)] +=
        streams.stall_store_ns;
    report.stall_by_cause_ns[static_cast<std::size_t>(StallCause::copy_in)] +=
        streams.stall_load_ns;
}

void add_tiers(Report& report, TierCounters const& host, TierCounters const& nvme) {
    report.stored_bytes = host.stored_bytes + nvme.stored_bytes;
    report.loaded_bytes = host.loaded_bytes + nvme.loaded_bytes;
    report.store_busy_ns = host.store_ns + nvme.store_ns;
    report.load_busy_ns = host.load_ns + nvme.load_ns;
    report.host_peak_bytes = host.peak_used_bytes;
    report.host_requested_bytes = host.requested_bytes + nvme.requested_bytes;
    report.host_locked_bytes = host.locked_bytes + nvme.locked_bytes;
    report.nvme_peak_bytes = nvme.peak_used_bytes;
    report.nvme_moved_bytes = nvme.stored_bytes + nvme.loaded_bytes;
    report.nvme_stored_bytes = nvme.stored_bytes;
    report.nvme_store_busy_ns = nvme.store_ns;
    report.nvme_load_busy_ns = nvme.load_ns;
    report.staging_bytes = host.staging_bytes + nvme.staging_bytes;
}

void add_staging(Report& report, HostMemory const& staging) {
    report.staging_bytes += std::ssize(staging.bytes());
    report.host_requested_bytes += staging.requested_bytes();
    report.host_locked_bytes += staging.locked_bytes();
}

}  // namespace

/// Compute has waited until now.
void Loop::count_stall(Moving const& waited_for, std::int64_t waited_ns) {
    if (waited_ns == 0) {
        return;
    }
    std::int64_t const now_ns = steady_now_ns();
    admitted_until(now_ns - waited_ns);
    if (admitting_since_ns_) {
        admitting_since_ns_ = now_ns;
    }
    bool const is_store = waited_for.is_leaving();
    StallCause const in_memory = is_store ? StallCause::copy_out : StallCause::copy_in;
    std::lock_guard const lock(mutex_);
    (is_store ? report_.stall_store_ns : report_.stall_load_ns) += waited_ns;
    StallCause const cause = waited_for.pool == Pool::nvme ? StallCause::nvme : in_memory;
    report_.stall_by_cause_ns[static_cast<std::size_t>(cause)] += waited_ns;
    if (trace_) {
        trace_->stalled(cause, {now_ns - waited_ns, now_ns});
    }
    if (options_.keep_trace) {
        histories_.of(waited_for.value).waited_ns += waited_ns;
    }
}

/// Room was being made until then, without a wait, if it is being made.
void Loop::admitted_until(std::int64_t end_ns) {
    if (admitting_since_ns_) {
        std::lock_guard const lock(mutex_);
        report_.stall_by_cause_ns[static_cast<std::size_t>(StallCause::admission)] +=
            end_ns - *admitting_since_ns_;
        if (trace_) {
            trace_->stalled(StallCause::admission, {*admitting_since_ns_, end_ns});
        }
    }
}

Loop::Moving Loop::moving(Command const& command, std::int64_t size_bytes) {
    std::string text = trace_ ? driver_.describe(command.value) : "";
    // A run names no pool: it is its block's.
    Pool const pool =
        command.kind == CommandKind::run ? mover_->pool_of(command.block) : command.pool;
    return {command.kind, command.work, pool, command.value, size_bytes, std::move(text)};
}

Result<void> Loop::open_trace() {
    if (options_.trace_file.empty()) {
        return {};
    }
    std::lock_guard const lock(mutex_);
    Result<void> const opened = trace_.emplace().open(options_.trace_file);
    if (!opened.ok()) {
        trace_.reset();
    }
    return opened;
}

/// Both parts of a move whose bytes went through staging. Called with the mutex held.
void Loop::trace_ended(Completion const& ended) {
    auto const at = in_flight_.find(ended.command);
    if (!trace_ || !ended.outcome.ok() || at == in_flight_.end()) {
        return;
    }
    Moving const& move = at->second;
    bool const is_store = move.is_leaving();
    Span span;
    span.value = move.value;
    span.size_bytes = move.size_bytes;
    span.text = move.text;
    if (ended.on_codec.is_measured()) {
        span.lane = Lane::side;
        span.what = name_of(move.work);
        trace_->moved(span, ended.on_codec);
    }
    span.lane = is_store ? Lane::copy_out : Lane::copy_in;
    span.what = name_of(is_store ? CommandKind::store : CommandKind::load);
    if (ended.on_stream.is_measured()) {
        auto const as = encodings_.find(move.value);
        bool const is_coded = move.kind == CommandKind::run && as != encodings_.end();
        span.size_bytes = is_coded ? away_bytes(as->second) : move.size_bytes;
        trace_->moved(span, ended.on_stream);
    }
    bool const is_nvme = move.pool == Pool::nvme;
    if (ended.on_tier.is_measured() && (is_nvme || !ended.on_stream.is_measured())) {
        span.lane = is_nvme ? (is_store ? Lane::nvme_write : Lane::nvme_read) : span.lane;
        trace_->moved(std::move(span), ended.on_tier);
    }
    trace_stream_stalls();
}

/// Called with the mutex held.
void Loop::trace_stream_stalls() {
    for (StreamStall const& stall : mover_->take_stream_stalls()) {
        trace_->stalled(stall.for_store ? StallCause::copy_out : StallCause::copy_in, stall.time);
    }
}

void Loop::write_trace() {
    std::lock_guard const lock(mutex_);
    if (!trace_ || options_.trace_file.empty()) {
        return;
    }
    trace_stream_stalls();
    trace_->mark("closed");  // where the last phase ends
    Result<void> const written = trace_->write();
    if (!written.ok()) {
        say_once(written.error().message());
    }
}

Result<void> Loop::write_trace_now(std::string const& path) {
    std::lock_guard const lock(mutex_);
    if (!trace_) {
        return Error{Errc::unsupported, "this session keeps no trace", ""};
    }
    trace_stream_stalls();
    return trace_->write_to(path);
}

std::map<ValueId, History> Loop::histories() const {
    std::lock_guard const lock(mutex_);
    return histories_.all();
}

void Loop::begin_histories() {
    std::lock_guard const lock(mutex_);
    histories_.clear();
}

std::int64_t Loop::stalled_ns() const {
    std::lock_guard const lock(mutex_);
    auto const& causes = report_.stall_by_cause_ns;
    return std::accumulate(causes.begin(), causes.end(), std::int64_t{0});
}

std::optional<Refusal> Loop::last_refusal() {
    std::lock_guard const lock(mutex_);
    return refusal_;
}

Report Loop::report() {
    std::lock_guard const lock(mutex_);
    see_peak();
    Report report = report_;
    DeviceUsage const now = device_->usage();
    report.device_bytes = now.used_bytes;
    report.device_peak_bytes = std::max(report.device_peak_bytes, now.peak_bytes);
    report.ledger_peak_bytes = executor_.granted_peak_bytes();
    report.device_resident_bytes = now.resident_bytes;
    report.device_resident_peak_bytes = now.resident_peak_bytes;
    report.device_other_bytes = device_->other_bytes();
    add_streams(report, mover_->stream_counters());
    add_tiers(report, mover_->counters(Pool::host), mover_->counters(Pool::nvme));
    add_staging(report, mover_->staging());
    add_staging(report, mover_->coded_staging());
    add_codecs(report);
    return report;
}

}  // namespace spillway
