#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""One entry of bench/gpu/run.sh: a command in a fresh process, a time limit, one JSON line in the file.

The line is what the command printed last, where that is a JSON object; else whether it succeeded and
the last thing it said. A failure is a line like any other, where `error` says why; the exit code is 1
then. With --fails-with it is the other way round: only a failure that says these words is none.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

SKIPPED = 77
SHOWN_LINES = 40  # of what a check printed: ctest's seconds, or the compiler's errors


def last_object(text: str) -> dict[str, Any] | None:
    lines = text.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def last_words(*texts: str) -> str:
    """The last line that is not empty, of the first text that has one."""
    for text in texts:
        for line in reversed(text.splitlines()):
            if line.strip():
                return line.strip()[:500]
    return "said nothing"


def run(command: list[str], limit_s: float) -> dict[str, Any]:
    """What the command left, and its exit code; a group of its own, so that none of it outlives it."""
    if limit_s <= 0:
        return {"error": "not run: the time for all entries was used up", "exit_code": None}
    try:
        child = subprocess.Popen(command, text=True, errors="replace", stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    except OSError as failure:
        return {"error": f"cannot be run: {failure}", "exit_code": None}
    try:
        out, err = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        return {"error": f"not done after {limit_s:.0f} s; last words: {last_words(err, out)}",
                "exit_code": None}
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        raise
    sys.stderr.write(err)
    line = last_object(out)
    if line is None:
        sys.stderr.write("".join(out.splitlines(keepends=True)[-SHOWN_LINES:]))
        line = {"kind": "check", "said": last_words(out, err), "error": None}
    if child.returncode == SKIPPED:
        line["skipped"] = last_words(err, out)
    elif child.returncode != 0 and not line.get("error"):
        line["error"] = f"exit code {child.returncode}: {last_words(err, out)}"
    return line | {"exit_code": child.returncode}


def failed(error: str | None, fails_with: str | None) -> bool:
    if fails_with is None:
        return bool(error)
    return fails_with not in (error or "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE", help="JSON lines")
    parser.add_argument("--name", required=True)
    parser.add_argument("--round", type=int, default=1, metavar="N")
    parser.add_argument("--limit", type=float, required=True, metavar="S", help="seconds for this entry")
    parser.add_argument("--deadline", type=float, required=True, metavar="T",
                        help="for all entries, in seconds of the epoch")
    parser.add_argument("--fails-with", metavar="WORDS", help="what it must end with")
    parser.add_argument("command", nargs="+", metavar="-- COMMAND ...")
    options = parser.parse_args()
    begin = time.time()
    found = run(options.command, min(options.limit, options.deadline - begin))
    line = {"entry": options.name, "round": options.round, "seconds": round(time.time() - begin, 2), **found}
    if options.fails_with is not None:
        line["fails_with"] = options.fails_with
    with options.out.open("a") as file:
        file.write(json.dumps(line) + "\n")
    is_failure = failed(line.get("error"), options.fails_with)
    words = line.get("error") or line.get("skipped") or "ok"
    if options.fails_with is not None:
        words += f" (it had to say: {options.fails_with})"
    print(f"{line['seconds']:7.1f} s  {'FAILED  ' if is_failure else ''}{options.name}: {words}", flush=True)
    return int(is_failure)


if __name__ == "__main__":
    sys.exit(main())
