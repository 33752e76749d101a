// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "simulator/simulator.h"

#include "simulator/run.h"

namespace spillway {

namespace {

Result<void> check_links(Machine const& machine, ExecutorOptions const& options) {
    auto const missing = [&](std::int64_t budget_bytes, Lane out, Lane in) {
        return budget_bytes > 0 &&
               (link_of(machine, out) == nullptr || link_of(machine, in) == nullptr);
    };
    if (missing(options.host_bytes, Lane::copy_out, Lane::copy_in)) {
        return Error{Errc::bad_argument, "has no link to the host and back", "machine"};
    }
    if (missing(options.nvme_bytes, Lane::nvme_write, Lane::nvme_read)) {
        return Error{Errc::bad_argument, "has no link to NVMe and back", "machine"};
    }
    return {};
}

Result<void> check(
    Trace const& trace,
    Machine const& machine,
    ExecutorOptions const& options,
    SimulatorOptions const& how
) {
    if (Result<void> const fine = validate(trace); !fine) {
        return fine;
    }
    if (Result<void> const fine = validate(machine); !fine) {
        return fine;
    }
    if (options.device_bytes < 0 || options.host_bytes < 0 || options.nvme_bytes < 0) {
        return Error{Errc::bad_argument, "a budget is below 0", "simulator"};
    }
    if (how.steps < 0 || !(how.jitter >= 0 && how.jitter <= 0.95)) {
        return Error{Errc::bad_argument, "steps below 0 or jitter outside 0 to 0.95", "simulator"};
    }
    auto const is_rate = [](double rate) { return rate == 0 || rate >= 1; };
    if (!is_rate(how.encode_rate_bytes_per_s) || !is_rate(how.decode_rate_bytes_per_s)) {
        return Error{Errc::bad_argument, "a codec's rate is below 1", "simulator"};
    }
    for (auto const& [slot, answer] : how.rule) {
        if (answer.encoded_bytes < 0) {
            return Error{Errc::bad_argument, "an encoded size is below 0", "simulator"};
        }
    }
    return check_links(machine, options);
}

}  // namespace

Result<SimulationResult> simulate(
    Trace const& trace,
    Machine const& machine,
    ExecutorOptions const& options,
    Plan const* plan,
    SimulatorOptions const& how
) {
    if (Result<void> const fine = check(trace, machine, options, how); !fine) {
        return fine.error();
    }
    return SimulatorRun(trace, machine, options, plan, how).run();
}

}  // namespace spillway
