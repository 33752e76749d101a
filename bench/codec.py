#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-codec: how fast one core encodes and decodes, beside a memcpy of the same raw bytes.

Rates are raw float32 bytes a second of the thread's own time, of buffers several times the last-level
cache, on huge pages as a session's tensors; a memcpy of them runs before every timed call, and ratios
are of the two; where two copies of the same bytes differ too much (steady.py), none is judged. A machine
with AVX-512 is measured once more as one that has AVX2 alone ("avx2" in the names). value = the lowest
of the medians (encode, decode) of affine4, group 128, to the nearest code. It holds when 8 bits are as fast, stochastic rounding half as fast, and the vectors at least 8 times the
scalar reference both ways (affine4, on buffers that stay in the caches).
"""

import argparse
import os
import sys

import common
import steady

BAR = 0.8
STOCHASTIC_BAR = 0.5
REFERENCE_BAR = 8
MOST_TURNS = 4


def main():
    options = parse_arguments()
    program = os.path.join(options.build, "bench", "codec_bench")
    if not os.path.exists(program):
        sys.exit(f"codec.py: {program} is not built")
    size = common.parse_size(options.size)
    runs, is_steady = measure([program, "--size", str(size), "--rounds", str(options.rounds)])
    detail = {name: summary(times) for name, times in runs.items()}
    ratios = {name: lower(found) for name, found in detail.items()}
    fast_over_reference = {
        name: round(times_faster(runs[name], runs[f"{name} reference"]), 2)
        for name in runs if f"{name} reference" in runs}

    def lowest(name):
        return min(ratios[name], ratios.get(f"{name} avx2", ratios[name]))

    value = lowest("affine4")
    in_time = not is_steady or (value >= BAR and lowest("affine8") >= BAR
                                and lowest("affine4:stochastic") >= STOCHASTIC_BAR)
    holds = (in_time and fast_over_reference["affine4 cached"] >= REFERENCE_BAR)
    common.emit("codec", round(value, 4), "ratio", BAR, holds, {
        "ratios": {name: round(found, 4) for name, found in ratios.items()
                   if not name.endswith("reference")},
        "fast_over_reference": fast_over_reference,
        "codecs": detail, "rounds": len(runs["affine4"]["encode_s"]), "size_bytes": size,
        "last_level_cache_bytes": last_level_cache(),
        "machine": common.machine(),
    }, unsteady=not is_steady)


def measure(command):
    """Runs as one of the machine's own kind and as one of AVX2, in turns, until two copies of the same bytes take the
    same time, or MOST_TURNS are over; and whether they do."""
    runs = {}
    for turn in range(MOST_TURNS):
        common.progress(f"turn {turn + 1} of at most {MOST_TURNS}")
        for more, ending in (([], ""), (["--at-most-avx2", "1"], " avx2")):
            for name, times in common.run_json([*command, *more]).items():
                if ending and name.endswith(("reference", "cached")):
                    continue
                known = runs.setdefault(name + ending, times)
                for key, seconds in times.items() if known is not times else ():
                    known[key] = known[key] + seconds if isinstance(seconds, list) else seconds
        copies = [(times["copy_by_encode_s"], times["copy_by_decode_s"]) for name, times in runs.items()
                  if "cached" not in name and "reference" not in name]
        ratios = [other / one for ones, others in copies for one, other in zip(ones, others, strict=True)]
        if steady.is_steady(ratios):
            return runs, True
    return runs, False


def summary(times):
    """GB/s of raw bytes and ratios to memcpy, each with its spread."""
    gb = times["raw_bytes"] / 1e9
    found = {"coded_bytes": times["coded_bytes"]}
    for way in ("encode", "decode"):
        copies = times[f"copy_by_{way}_s"]
        found[f"{way}_gb_per_s"] = common.spread([gb / s for s in times[f"{way}_s"]])
        found[f"{way}_ratio"] = common.spread(
            [copy / s for copy, s in zip(copies, times[f"{way}_s"])])
    found["copy_gb_per_s"] = common.spread(
        [gb / s for s in times["copy_by_encode_s"] + times["copy_by_decode_s"]])
    return found


def lower(found):
    return min(found["encode_ratio"][1], found["decode_ratio"][1])


def times_faster(fast, reference):
    """Of both ways the one where the vectors help less."""
    def rate(times, way):
        return times["raw_bytes"] / common.median(times[f"{way}_s"])
    return min(rate(fast, way) / rate(reference, way) for way in ("encode", "decode"))


def last_level_cache():
    """Bytes of the largest cache of this core; 0 where the system does not say."""
    folder, largest = "/sys/devices/system/cpu/cpu0/cache", 0
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        try:
            with open(os.path.join(folder, name, "size"), encoding="ascii") as file:
                largest = max(largest, int(file.read().strip().rstrip("K")) * 1024)
        except (OSError, ValueError):
            pass
    return largest


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(common.ROOT, "build", "torch"),
                        help="build folder that holds bench/codec_bench")
    parser.add_argument("--size", default="256MiB", help="of the raw bytes (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="default %(default)s")
    return parser.parse_args()


if __name__ == "__main__":
    main()
