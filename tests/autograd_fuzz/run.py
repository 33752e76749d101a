# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Many seeds, in processes of their own, so that a crash or a hang is one seed's: python run.py --seeds
100000.
Failing programs are shrunk and written to a folder; the last line is JSON. Keep those that matter in
regressions/. A program whose plain autograd ends its process by a signal, without Spillway, is torch's own
crash: it is counted as `torch_crashed`, and does not fail."""

import argparse
import dataclasses
import faulthandler
import json
import multiprocessing as mp
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from autograd_fuzz.actions import random_program  # noqa: E402
from autograd_fuzz.batch import Tally, quiet, run_batch  # noqa: E402
from autograd_fuzz.interpret import Plain, interpret  # noqa: E402
from autograd_fuzz.program import Program, to_json  # noqa: E402
from autograd_fuzz.shrink import shrunk  # noqa: E402
from autograd_fuzz.systems import CODED_SHARE, Budget  # noqa: E402

BATCH = 25
SHARE = 100 * BATCH  # of a process: graphs that torch's own cycles keep alive keep their sessions open
HANGS_AFTER_S = 180
FORK = mp.get_context("fork")  # the parent opens no session and runs no program, so a fork of it is whole


def work(first: int, end: int, scratch: str, coded_share: float, to: Connection) -> None:
    """Tells each seed before it runs, and each batch's tally."""
    quiet()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    for start in range(first, end, BATCH):
        tally = Tally()
        programs = [random_program(seed) for seed in range(start, min(start + BATCH, end))]
        run_batch(programs, Budget.random(start, coded_share), scratch, tally, to.send)
        to.send(tally)
    to.send(None)


@dataclasses.dataclass
class Worker:
    at: int
    end: int
    scratch: str
    coded_share: float

    def __post_init__(self) -> None:
        self.connection, theirs = FORK.Pipe()
        self.process = FORK.Process(target=work, args=(self.at, self.end, self.scratch, self.coded_share, theirs))
        self.process.start()
        theirs.close()
        self.heard = time.monotonic()

    def take(self, total: Tally) -> bool:
        """False when it has ended, one way or another."""
        try:
            message = self.connection.recv()
        except EOFError:
            self.process.join()
            if crashes(self.process) and torch_crashes(random_program(self.at)):
                total.torch_crashed.append(self.at)
            else:
                total.failed[self.at] = f"the process ended with {self.process.exitcode}"
            return False
        self.heard = time.monotonic()
        if isinstance(message, Tally):
            add(total, message)
        elif message is not None:
            self.at = message
        return message is not None


    def end_hung(self, total: Tally) -> None:
        """Prints the stacks of all its threads first."""
        print(f"seed {self.at}: nothing happened for {HANGS_AFTER_S} s; it stands at", flush=True)
        if self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGUSR1)
        time.sleep(1)
        self.process.kill()
        total.failed[self.at] = f"nothing happened for {HANGS_AFTER_S} s"


def add(total: Tally, more: Tally) -> None:
    total.programs += more.programs
    total.refused += more.refused
    total.moved_bytes += more.moved_bytes
    total.coded_programs += more.coded_programs
    total.coded_values += more.coded_values
    total.loaded_programs += more.loaded_programs
    total.recomputed_programs += more.recomputed_programs
    total.failed |= more.failed
    for name, count in more.known.items():
        total.known[name] = total.known.get(name, 0) + count


def run_all(first: int, seeds: int, jobs: int, scratch: str, coded_share: float) -> Tally:
    total = Tally()
    end = first + seeds
    pending = [(start, min(start + SHARE, end)) for start in range(first, end, SHARE)]
    workers: list[Worker] = []
    reported = time.monotonic()
    while workers or pending:
        while pending and len(workers) < jobs:
            workers.append(Worker(*pending.pop(0), scratch, coded_share))
        ready = wait([worker.connection for worker in workers], timeout=5)
        for worker in list(workers):
            if worker.connection in ready and worker.take(total):
                continue
            if worker.connection not in ready and time.monotonic() - worker.heard < HANGS_AFTER_S:
                continue
            if worker.connection not in ready:
                worker.end_hung(total)
            workers.remove(worker)
            ended_early = worker.at in total.failed or worker.at in total.torch_crashed
            if ended_early and worker.at + 1 < worker.end and worker.process.exitcode != 0:
                pending.insert(0, (worker.at + 1, worker.end))
        if time.monotonic() - reported > 10:
            reported = time.monotonic()
            print(f"{total.programs} of {seeds} programs, {total.refused} refused, "
                  f"{total.moved_bytes >> 20} MiB moved, failed: {sorted(total.failed)}", flush=True)
    return total


def crashes(process: BaseProcess) -> bool:
    """By a signal; not by the one that ends what hangs."""
    return (process.exitcode or 0) < 0 and process.exitcode != -signal.SIGKILL


def torch_crashes(program: Program) -> bool:
    """In one of three forks with plain autograd alone: a crash may depend on what memory holds."""

    def attempt() -> None:
        quiet()
        interpret(program, Plain())
        os._exit(0)

    return any(crashes(in_a_fork(attempt)) for _ in range(3))


def in_a_fork(attempt: Callable[[], None]) -> BaseProcess:
    """Whatever it does, we go on; one that hangs is killed."""
    process = FORK.Process(target=attempt)
    process.start()
    process.join(HANGS_AFTER_S / 6)
    if process.is_alive():
        process.kill()
        process.join()
    return process


def fails_alone(program: Program, budget: Budget, scratch: str) -> bool:

    def attempt() -> None:
        quiet()
        tally = Tally()
        run_batch([program], budget, scratch, tally)
        os._exit(1 if tally.failed else 0)

    return in_a_fork(attempt).exitcode != 0


def keep(seed: int, why: str, budget: Budget, folder: pathlib.Path, scratch: str) -> None:
    program = random_program(seed)
    alone = fails_alone(program, budget, scratch)
    if alone:
        program = shrunk(program, lambda smaller: fails_alone(smaller, budget, scratch))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{seed}.json").write_text(to_json(program))
    print(f"seed {seed}, {budget}, {'shrunk' if alone else 'not alone, only after those before it'}: {why}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/autograd_fuzz"))
    parser.add_argument("--coded-share", type=float, default=CODED_SHARE, help="of the batches: with an exact codec")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    total = run_all(options.first, options.seeds, options.jobs, str(options.folder), options.coded_share)
    for seed, why in sorted(total.failed.items())[:20]:
        budget = Budget.random(seed - (seed - options.first) % BATCH, options.coded_share)
        keep(seed, why, budget, options.folder, str(options.folder))
    print(json.dumps({"seeds": options.seeds, "first": options.first, "failed": sorted(total.failed),
                      "torch_crashed": sorted(total.torch_crashed), "refused": total.refused, "known": total.known, "moved_bytes": total.moved_bytes,
                      "coded_programs": total.coded_programs, "coded_values": total.coded_values,
                      "loaded_programs": total.loaded_programs,
                      "recomputed_programs": total.recomputed_programs}))
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
