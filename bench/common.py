# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What every bench/*.py shares: the JSON line, medians, interleaved pairs, the machine."""

import json
import os
import platform
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def emit(name, value, unit, bar, holds, detail, unsteady=False):
    """Prints the result as the last line, one JSON object, and exits: 0 when it holds. `unsteady`: not all was
    judged, since the machine (steady.py) or the time did not allow it."""
    if unsteady:
        progress(f"bench-{name}: unsteady, so not all is judged; run it when nothing else runs, or for longer: MINUTES=n")
    if not holds:
        progress(f"bench-{name}: {value} is outside its bar, {bar} ({unit}), or a condition in detail does not hold: "
                 "exit code 1. docs/benchmarks.md has the values of other machines.")
    sys.stderr.flush()
    line = {"name": name, "value": value, "unit": unit, "bar": bar, "holds": bool(holds),
            **({"unsteady": True} if unsteady else {}), "detail": detail}
    print(json.dumps(line), flush=True)
    sys.exit(0 if holds else 1)


def machine():
    """The machine and the commit that a number belongs to."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": round(os.getloadavg()[0], 2),
        "commit": _commit(),
    }


def median(values):
    return statistics.median(values)


def spread(values):
    """Smallest, median and largest, rounded for people."""
    return [round(v, 4) for v in (min(values), statistics.median(values), max(values))]


def pairs(count, ours, theirs, warm_up=1, show=None):
    """Runs the two sides alternately, the order swapped every pair, so that a slow drift of the
    machine falls on both. Returns [(ours, theirs)] without the first `warm_up` pairs."""
    measured = []
    for i in range(count + warm_up):
        if i % 2 == 0:
            mine, other = ours(), theirs()
        else:
            other, mine = theirs(), ours()
        if i >= warm_up:
            measured.append((mine, other))
        if show:
            progress(show(i - warm_up + 1, mine, other))
    return measured


MINUTES = 9  # of a bench, so that it ends within ten


class Deadline:
    """The time that a bench has in all."""

    def __init__(self, minutes=MINUTES):
        self.end = time.monotonic() + 60 * minutes

    def minutes_left(self):
        return max(0.0, (self.end - time.monotonic()) / 60)

    def share(self, parts):
        """Minutes of each of the parts that are still to come."""
        return self.minutes_left() / parts


def add_minutes(parser, what="in all: nothing more is begun that would not end in them"):
    parser.add_argument("--minutes", type=float, default=MINUTES, metavar="N", help=f"{what} (default %(default)s)")


def progress(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    """Standard output of a command; its standard error, and exit code 2, when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        progress(f"{command[0]} failed ({done.returncode}): {done.stderr.strip()[-2000:]}")
        sys.exit(2)
    return done.stdout


def run_json(command, **options):
    """The last line of a command's output, read as JSON."""
    return json.loads(run(command, **options).strip().splitlines()[-1])


def wait_for_quiet(limit_s=0, load=0.5):
    """Waits, up to a limit, until the machine is idle enough to measure."""
    end = time.monotonic() + limit_s
    while os.getloadavg()[0] > load and time.monotonic() < end:
        time.sleep(1)


def torch_python(build):
    """The Python whose torch the build is against."""
    left = os.path.join(build, "python.path")
    if os.path.exists(left):
        with open(left, encoding="utf-8") as file:
            return file.read().strip()
    return os.environ.get("SPILLWAY_PYTHON") or sys.executable


def parse_size(text):
    """Bytes of "2GiB", "700MB", "4096"."""
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
    for unit, factor in units.items():
        if text.endswith(unit):
            return int(float(text[: -len(unit)]) * factor)
    return int(text)


def _cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            for line in info:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def _commit():
    """SPILLWAY_COMMIT, for a tree without its history; else the short commit of the tree, with "+" where it has changes;
    "" without git."""
    told = os.environ.get("SPILLWAY_COMMIT")
    if told:
        return told
    try:
        short = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
                               capture_output=True, text=True, check=True).stdout.strip()
        dirty = subprocess.run(["git", "-C", ROOT, "status", "--porcelain"],
                               capture_output=True, text=True, check=True).stdout.strip()
        return short + ("+" if dirty else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
