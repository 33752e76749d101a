#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-ledger: do the runtime's own books agree with the allocator and with the kernel?

One training run under the cap. Two comparisons, value = the larger:
  ledger / allocator - 1      the most device bytes that the executor granted, against the peak that the
                              allocator counted. At each event it is told what is in use, and changes
                              that by what it frees, lets return and lets be allocated: so this finds
                              grants that do not add up, not a miscount of what was told
  (allocator peak + host and staging bytes) / VmHWM growth - 1
                              growth: the process's peak less what was resident after libtorch was
                              loaded and warmed, before the model's first tensor. Differences up to
                              the slack, 48 MiB, are heap, stacks and code, and count as none
"""

import argparse
import pathlib

import common
import train_runs

BAR = 0.05
SLACK_BYTES = 48 * train_runs.MIB


def off(reported_bytes: int, seen_bytes: int, slack_bytes: int = 0) -> float:
    """How far `told` is from `seen`, as a share of `seen`, beyond the slack."""
    return max(0, abs(reported_bytes - seen_bytes) - slack_bytes) / seen_bytes


def main() -> None:
    options = parse_arguments()
    program = train_runs.programs(options.build)
    with train_runs.scratch(options) as name:
        folder = pathlib.Path(name)
        nvme = folder / "nvme"
        nvme.mkdir()
        run = train_runs.stop_unless_ok(train_runs.train(
            "spillway", program.spillway,
            [*train_runs.shared_flags(options, options.steps), "--device-budget", options.cap,
             "--nvme", str(nvme)], folder))
    report = run.report
    ledger = report["ledger_peak_bytes"]
    allocator = run.allocator_peak_bytes
    outside = report["host_peak_bytes"] + report["staging_bytes"]
    growth = run.process_peak_bytes - run.baseline_rss_bytes
    by_allocator = off(ledger, allocator)
    by_process = off(allocator + outside, growth, SLACK_BYTES)
    value = max(by_allocator, by_process)
    common.emit("ledger", round(value, 4), "share", BAR, value <= BAR, {
        "ledger_over_allocator_off": round(by_allocator, 4),
        "accounted_over_growth_off": round(by_process, 4),
        "ledger_peak_bytes": ledger,
        "allocator_peak_bytes": allocator,
        "arena_resident_peak_bytes": report["device_resident_peak_bytes"],
        "host_and_staging_bytes": outside,
        "vmhwm_growth_bytes": growth,
        "baseline_rss_bytes": run.baseline_rss_bytes,
        "process_peak_bytes": run.process_peak_bytes,
        "difference_bytes": allocator + outside - growth,
        "slack_bytes": SLACK_BYTES,
        "cap_bytes": common.parse_size(options.cap),
        "steps": options.steps, "threads": options.threads, "flags": options.flags,
        "machine": common.machine(),
    })


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    train_runs.add_flags(parser)
    parser.add_argument("--steps", type=int, default=3, metavar="N", help="default %(default)s")
    return parser.parse_args()


if __name__ == "__main__":
    main()
