#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-nvme: the NVMe tier's public store and load, checksums on, against fio.

Both sides write a fresh file of the same size in the same folder and read it back, random bytes,
O_DIRECT, io_uring. Ours lie in the arena, as a session's tensors do: on huge pages, not registered.
fio has fixed buffers, huge pages too where glibc offers them, and, of three queue depths, the best of
each direction, found before the pairs. value = the lower of the two medians (write, read) of ours / fio's.
Pairs are added until fio is as fast in one as in the next (steady.py), or none more ends in `--minutes`:
then no rate is judged.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

import common
import steady

BAR = 0.92
DEPTHS = (8, 16, 32)


def main():
    options = parse_arguments()
    program = os.path.join(options.build, "bench", "nvme_bench")
    if not os.path.exists(program):
        sys.exit(f"nvme.py: {program} is not built")
    if shutil.which("fio") is None:
        sys.exit("nvme.py: fio is missing: apt-get install fio")
    os.makedirs(options.folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-nvme-", dir=options.folder) as folder:
        measure(options, program, folder)


def measure(options, program, folder):
    deadline = common.Deadline(options.minutes)
    size = common.parse_size(options.size)
    fio_file = os.path.join(folder, "fio")
    depth = best_depths(fio_file, size, options)

    def ours():
        return common.run_json(
            [program, "--folder", folder, "--size", str(size)])

    def theirs():
        write = fio(fio_file, size, "write", depth["write"], options)
        read = fio(fio_file, size, "read", depth["read"], options)
        os.unlink(fio_file)
        return {**{f"write_{k}": v for k, v in write.items()},
                **{f"read_{k}": v for k, v in read.items()}}

    def slower(run):
        return 1 / run["write_gb_per_s"] + 1 / run["read_gb_per_s"]

    rounds, is_steady = steady.rounds_until_steady(
        {"ours": ours, "plain": theirs}, slower, deadline.minutes_left(),
        lambda number, done: common.progress(show(number, done["ours"], done["plain"])), options.pairs)
    measured = [(done["ours"], done["plain"]) for done in rounds]
    ratios = {way: [mine[f"{way}_gb_per_s"] / other[f"{way}_gb_per_s"] for mine, other in measured]
              for way in ("write", "read")}
    value = min(common.median(ratios["write"]), common.median(ratios["read"]))
    detail = {
        "write_ratio": common.spread(ratios["write"]),
        "read_ratio": common.spread(ratios["read"]),
        "pairs": len(measured), "size_bytes": size, "fio_depth": depth,
        "fio_refill_buffers": options.refill, "fio_huge_pages": options.fio_huge,
        "machine": common.machine(),
    }
    for side, index in (("ours", 0), ("fio", 1)):
        for key in sorted(measured[0][index]):
            detail[f"{side}_{key}"] = common.spread([pair[index][key] for pair in measured])
    common.emit("nvme", round(value, 4), "ratio", BAR, value >= BAR or not is_steady, detail, unsteady=not is_steady)


def show(number, mine, other):
    return (f"pair {number}: write {mine['write_gb_per_s']:.2f} / {other['write_gb_per_s']:.2f}, "
            f"read {mine['read_gb_per_s']:.2f} / {other['read_gb_per_s']:.2f} GB/s (ours / fio)")


def best_depths(path, size, options):
    rates = {"write": {}, "read": {}}
    for depth in DEPTHS:
        for way in ("write", "read"):
            rates[way][depth] = fio(path, size, way, depth, options)["gb_per_s"]
        os.unlink(path)
    common.progress(f"fio by depth: {rates}")
    return {way: max(found, key=found.get) for way, found in rates.items()}


def fio(path, size, way, depth, options):
    """GB/s and CPU seconds a GB of one sequential pass."""
    report = json.loads(common.run([
        "fio", "--name=bench", f"--filename={path}", f"--size={size}", f"--rw={way}", "--bs=1M",
        f"--iodepth={depth}", "--ioengine=io_uring", "--direct=1", "--fixedbufs=1",
        "--registerfiles=1", "--randrepeat=0", f"--refill_buffers={int(options.refill)}",
        "--mem_align=4096", "--output-format=json"], env=fio_environment(options)))
    job = report["jobs"][0]
    seconds = job[way]["runtime"] / 1e3
    busy = (job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds
    return {"gb_per_s": size / seconds / 1e9, "cpu_s_per_gb": busy / (size / 1e9)}


def fio_environment(options):
    """fio takes its buffers from malloc; glibc (2.35) can ask for huge pages there."""
    if not options.fio_huge:
        return None
    return {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(common.ROOT, "build", "torch"),
                        help="build folder that holds bench/nvme_bench")
    parser.add_argument("--folder", help="on the disk to measure (default: the build folder)")
    parser.add_argument("--size", default="2GiB", help="of the file (default %(default)s)")
    parser.add_argument("--pairs", type=int, default=7, help="at least (default %(default)s)")
    common.add_minutes(parser)
    parser.add_argument("--refill", action=argparse.BooleanOptionalAction, default=False,
                        help="fio makes new random bytes for every write, which costs it CPU")
    parser.add_argument("--fio-huge", action=argparse.BooleanOptionalAction, default=True,
                        help="fio's memory lies on huge pages too; --no-fio-huge: as fio is")
    options = parser.parse_args()
    options.folder = options.folder or options.build
    return options


if __name__ == "__main__":
    main()
