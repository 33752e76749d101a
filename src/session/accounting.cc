// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/accounting.h"

#include "base/clock.h"
#include "base/log.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

namespace spillway {

namespace {

/// Of a timeline that nobody may ever ask for: some megabytes.
constexpr std::size_t kKeptTimelineEntries = 20'000;

constexpr std::size_t kKeptStepTimes = 64;

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

void add_codecs(Report& report, Mover const& mover) {
    for (CodingCounters const& row : mover.coding_counters()) {
        CodecReport& codec = report.codecs.emplace_back();
        codec.tensor_class = row.label;
        codec.codec = to_text(row.codec);
        codec.bits = row.elements > 0 ? 8.0 * static_cast<double>(row.encoded_bytes) /
                                            static_cast<double>(row.elements)
                                      : 0;
        codec.values = row.values;
        codec.raw_bytes = row.raw_bytes;
        codec.encoded_bytes = row.encoded_bytes;
        codec.encode_ns = row.encode_ns;
        codec.decoded_bytes = row.decoded_bytes;
        codec.decode_ns = row.decode_ns;
        codec.error_squares = row.sums.of_errors;
        codec.value_squares = row.sums.of_values;
        codec.went_raw = row.went_raw;
    }
    std::sort(report.codecs.begin(), report.codecs.end(), [](auto const& one, auto const& other) {
        return std::tie(one.tensor_class, one.codec) < std::tie(other.tensor_class, other.codec);
    });
}

}  // namespace

Accounting::Accounting(
    AccountingOptions options, Device& device, Mover& mover, Encodings const& encodings
)
    : options_(std::move(options)), device_(device), mover_(mover), encodings_(encodings) {
    state_.report.device_limit_bytes = options_.device_limit_bytes;
    if (options_.keep_timeline) {
        state_.timeline.emplace(kKeptTimelineEntries);
    }
}

Result<void> Accounting::open_timeline() {
    if (options_.timeline_file.empty()) {
        return {};
    }
    MutexLock const lock(mutex_);
    Result<void> const opened = state_.timeline.emplace().open(options_.timeline_file);
    if (!opened.ok()) {
        state_.timeline.reset();
    }
    return opened;
}

void Accounting::close() {
    MutexLock const lock(mutex_);
    if (!state_.timeline || options_.timeline_file.empty()) {
        return;
    }
    take_stream_stalls();
    state_.timeline->mark("closed");  // where the last phase ends
    Result<void> const written = state_.timeline->write();
    if (!written.ok()) {
        log_once(written.error().message());
    }
}

Result<void> Accounting::write_timeline_now(std::string const& path) {
    MutexLock const lock(mutex_);
    if (!state_.timeline) {
        return Error{Errc::unsupported, "this session keeps no timeline", ""};
    }
    take_stream_stalls();
    return state_.timeline->write_to(path);
}

bool Accounting::keeps_timeline() const {
    MutexLock const lock(mutex_);
    return state_.timeline.has_value();
}

/// The step before ends.
std::int64_t Accounting::begin_step() {
    std::int64_t const now_ns = steady_now_ns();
    MutexLock const lock(mutex_);
    std::int64_t const took_ns = state_.step_began_ns ? now_ns - *state_.step_began_ns : 0;
    if (state_.step_began_ns) {
        if (state_.is_planned) {
            ++state_.report.plan.steps;
            if (state_.step_times_ns.size() == kKeptStepTimes) {
                state_.step_times_ns.erase(state_.step_times_ns.begin());
            }
            state_.step_times_ns.push_back(took_ns);
        } else {
            state_.report.plan.recorded_step_ns = took_ns;
        }
    }
    state_.step_began_ns = now_ns;
    if (state_.timeline) {
        state_.timeline->begin_step();
    }
    return took_ns;
}

void Accounting::plan_begins(std::string policy, std::int64_t step_ns, std::int64_t peak_bytes) {
    MutexLock const lock(mutex_);
    see_peak();
    state_.report.plan.step_ns = median_step_ns();  // until steps of this plan have ended
    state_.step_times_ns.clear();
    state_.is_planned = true;
    state_.report.plan.policy = std::move(policy);
    state_.report.plan.refusal.clear();
    state_.report.plan.foretold_step_ns = step_ns;
    state_.report.plan.foretold_peak_bytes = peak_bytes;
}

void Accounting::plan_was_mended(std::int64_t rounds) {
    MutexLock const lock(mutex_);
    state_.report.plan.feedback_rounds = rounds;
}

void Accounting::keep_return_waits(bool keep) {
    MutexLock const lock(mutex_);
    state_.waits_for_returns.keep(keep);
    mover_.keep_stream_stalls(keep);
}

std::map<ValueId, std::int64_t> Accounting::take_return_waits() {
    MutexLock const lock(mutex_);
    take_stream_stalls();
    return state_.waits_for_returns.take();
}

/// Of the steps that are known; else what was last.
std::int64_t Accounting::median_step_ns() const {
    std::vector<std::int64_t> times = state_.step_times_ns;
    if (times.empty()) {
        return state_.report.plan.step_ns;
    }
    auto const middle = times.begin() + std::ssize(times) / 2;
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
}

void Accounting::has_no_plan(std::string policy, std::string refusal) {
    MutexLock const lock(mutex_);
    state_.report.plan.policy = std::move(policy);
    state_.report.plan.refusal = std::move(refusal);
}

void Accounting::begin_phase(std::int64_t step, Phase phase) {
    MutexLock const lock(mutex_);
    state_.phase = phase;
    if (!state_.first_phase_ns) {
        state_.first_phase_ns = steady_now_ns();
    }
    if (state_.timeline) {
        state_.timeline->mark("step " + std::to_string(step) + ", " + std::string(name_of(phase)));
    }
}

/// Books the peak since the last event to the phase.
void Accounting::see_peak() {
    state_.peak_bytes = std::max(state_.peak_bytes, device_.take_peak());
    std::int64_t& of_phase =
        state_.report.device_peak_by_phase[static_cast<std::size_t>(state_.phase)];
    of_phase = std::max(of_phase, state_.peak_bytes);
    state_.report.device_peak_bytes = std::max(state_.report.device_peak_bytes, state_.peak_bytes);
    if (state_.is_planned) {
        state_.report.plan.peak_bytes = std::max(state_.report.plan.peak_bytes, state_.peak_bytes);
    }
}

std::int64_t Accounting::take_peak() {
    MutexLock const lock(mutex_);
    see_peak();
    if (state_.first_phase_ns) {
        state_.report.steps_ns = steady_now_ns() - *state_.first_phase_ns;
    }
    return std::exchange(state_.peak_bytes, 0);
}

void Accounting::uses(std::int64_t allocated_bytes) {
    MutexLock const lock(mutex_);
    if (state_.timeline) {
        state_.timeline->used(Pool::device, allocated_bytes);
    }
}

void Accounting::saved(std::int64_t size_bytes) {
    MutexLock const lock(mutex_);
    ++state_.report.saved_values;
    state_.report.saved_bytes += size_bytes;
}

void Accounting::goes_raw(bool was_lossy) {
    MutexLock const lock(mutex_);
    state_.report.raw_for_two_savers += was_lossy ? 1 : 0;
}

void Accounting::store_begins(ValueId value, Pool pool) {
    MutexLock const lock(mutex_);
    if (options_.keep_timeline) {
        state_.histories.of(value).pool = pool;
    }
}

void Accounting::encode_begins(ValueId value, Codec const& codec) {
    MutexLock const lock(mutex_);
    if (options_.keep_timeline) {
        state_.histories.of(value).codec = codec;
    }
}

void Accounting::encode_refused(ValueId value) {
    MutexLock const lock(mutex_);
    if (options_.keep_timeline) {
        History& history = state_.histories.of(value);
        history.codec.reset();
        history.was_refused = true;
    }
}

void Accounting::left(ValueId value, std::int64_t size_bytes, bool came_free, bool by_recipe) {
    MutexLock const lock(mutex_);
    (came_free ? state_.report.freed_bytes : state_.report.kept_by_others_bytes) += size_bytes;
    if (options_.keep_timeline) {
        History& history = state_.histories.of(value);
        history.left = true;
        history.by_recipe = by_recipe;
        history.came_free = history.came_free || came_free;
    }
}

void Accounting::return_begins(CommandId command, ValueId value) {
    MutexLock const lock(mutex_);
    state_.waits_for_returns.begins(command, value);
}

void Accounting::returned(ValueId value) {
    MutexLock const lock(mutex_);
    if (options_.keep_timeline) {
        ++state_.histories.of(value).returned;
    }
}

void Accounting::recomputed(
    ValueId value, std::int64_t size_bytes, std::int64_t operators, std::int64_t took_ns
) {
    std::int64_t const now_ns = steady_now_ns();
    MutexLock const lock(mutex_);
    ++state_.report.recomputed_values;
    state_.report.recomputed_bytes += size_bytes;
    state_.report.recomputed_operators += operators;
    state_.report.recompute_ns += took_ns;
    if (options_.keep_timeline) {
        ++state_.histories.of(value).recomputed;
    }
    if (state_.timeline) {
        Span span;
        span.lane = Lane::compute;
        span.what = name_of(SideWork::recompute);
        span.value = value;
        span.size_bytes = size_bytes;
        state_.timeline->moved(std::move(span), {now_ns - took_ns, now_ns});
    }
}

/// On the slower link, where there are two.
std::int64_t Accounting::move_ns(std::int64_t away_bytes) const {
    std::int64_t slowest_ns = 0;
    for (Pool const pool : kAwayPools) {
        TierCounters const moved = mover_.counters(pool);
        double const bytes = static_cast<double>(away_bytes);
        auto const took = [bytes](std::int64_t busy_ns, std::int64_t moved_bytes) {
            return moved_bytes > 0
                       ? static_cast<double>(busy_ns) * bytes / static_cast<double>(moved_bytes)
                       : 0.0;
        };
        double const ns =
            took(moved.store_ns, moved.stored_bytes) + took(moved.load_ns, moved.loaded_bytes);
        slowest_ns = std::max(slowest_ns, static_cast<std::int64_t>(ns));
    }
    return slowest_ns;
}

void Accounting::begin_admission(std::int64_t now_ns) {
    MutexLock const lock(mutex_);
    state_.admitting_since_ns = now_ns;
}

void Accounting::end_admission(std::int64_t now_ns) {
    MutexLock const lock(mutex_);
    admitted_until(now_ns);
    state_.admitting_since_ns.reset();
}

/// Room was being made until then, without a wait, if it is being made.
void Accounting::admitted_until(std::int64_t end_ns) {
    if (!state_.admitting_since_ns) {
        return;
    }
    stalled_by(StallCause::admission) += end_ns - *state_.admitting_since_ns;
    if (state_.timeline) {
        state_.timeline->stalled(StallCause::admission, {*state_.admitting_since_ns, end_ns});
    }
}

void Accounting::stalled(Moving const& waited_for, std::int64_t waited_ns) {
    if (waited_ns == 0) {
        return;
    }
    std::int64_t const now_ns = steady_now_ns();
    MutexLock const lock(mutex_);
    admitted_until(now_ns - waited_ns);
    if (state_.admitting_since_ns) {
        state_.admitting_since_ns = now_ns;
    }
    bool const is_store = waited_for.is_leaving();
    StallCause const in_memory = is_store ? StallCause::copy_out : StallCause::copy_in;
    StallCause const cause = waited_for.pool == Pool::nvme ? StallCause::nvme : in_memory;
    (is_store ? state_.report.stall_store_ns : state_.report.stall_load_ns) += waited_ns;
    stalled_by(cause) += waited_ns;
    if (state_.timeline) {
        state_.timeline->stalled(cause, {now_ns - waited_ns, now_ns});
    }
    if (options_.keep_timeline) {
        state_.histories.of(waited_for.value).waited_ns += waited_ns;
    }
    if (!is_store) {
        state_.waits_for_returns.waited(waited_for.value, waited_ns);
    }
}

/// Both parts of a move whose bytes went through staging.
void Accounting::ended(Completion const& ended, Moving const& move) {
    MutexLock const lock(mutex_);
    if (!state_.timeline || !ended.outcome.ok()) {
        return;
    }
    bool const is_store = move.is_leaving();
    Span span;
    span.value = move.value;
    span.size_bytes = move.size_bytes;
    span.text = move.text;
    if (ended.on_codec.is_measured()) {
        span.lane = Lane::side;
        span.what = name_of(move.work);
        state_.timeline->moved(span, ended.on_codec);
    }
    span.lane = is_store ? Lane::copy_out : Lane::copy_in;
    span.what = name_of(is_store ? CommandKind::store : CommandKind::load);
    if (ended.on_stream.is_measured()) {
        std::int64_t const coded_bytes =
            move.kind == CommandKind::run ? encodings_.away_bytes_of(move.value) : 0;
        span.size_bytes = coded_bytes > 0 ? coded_bytes : move.size_bytes;
        state_.timeline->moved(span, ended.on_stream);
    }
    bool const is_nvme = move.pool == Pool::nvme;
    if (ended.on_tier.is_measured() && (is_nvme || !ended.on_stream.is_measured())) {
        span.lane = is_nvme ? (is_store ? Lane::nvme_write : Lane::nvme_read) : span.lane;
        state_.timeline->moved(std::move(span), ended.on_tier);
    }
    take_stream_stalls();
}

void Accounting::take_stream_stalls() {
    for (StreamStall const& stall : mover_.take_stream_stalls()) {
        if (!stall.for_store) {
            state_.waits_for_returns.waited(stall.command, stall.waited_ns);
        }
        if (state_.timeline) {
            state_.timeline->stalled(
                stall.for_store ? StallCause::copy_out : StallCause::copy_in, stall.time
            );
        }
    }
}

std::map<ValueId, History> Accounting::histories() const {
    MutexLock const lock(mutex_);
    return state_.histories.all();
}

void Accounting::begin_histories() {
    MutexLock const lock(mutex_);
    state_.histories.clear();
}

std::int64_t Accounting::stalled_ns() const {
    MutexLock const lock(mutex_);
    auto const& causes = state_.report.stall_by_cause_ns;
    return std::accumulate(causes.begin(), causes.end(), std::int64_t{0});
}

Report Accounting::report() {
    MutexLock const lock(mutex_);
    see_peak();
    Report report = state_.report;
    report.plan.step_ns = median_step_ns();
    DeviceUsage const now = device_.usage();
    report.device_bytes = now.used_bytes;
    report.device_peak_bytes = std::max(report.device_peak_bytes, now.peak_bytes);
    report.device_resident_bytes = now.resident_bytes;
    report.device_resident_peak_bytes = now.resident_peak_bytes;
    report.device_discarded_bytes = now.discarded_bytes;
    report.device_other_bytes = device_.other_bytes();
    add_streams(report, mover_.stream_counters());
    add_tiers(report, mover_.counters(Pool::host), mover_.counters(Pool::nvme));
    add_staging(report, mover_.staging());
    add_staging(report, mover_.coded_staging());
    add_codecs(report, mover_);
    return report;
}

}  // namespace spillway
