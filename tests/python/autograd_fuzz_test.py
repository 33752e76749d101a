# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Random autograd programs: Spillway and plain autograd show the same bits, errors, hooks and versions, and what
is broken on purpose is noticed."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from autograd_fuzz import batch  # noqa: E402
from autograd_fuzz.actions import random_program  # noqa: E402
from autograd_fuzz.interpret import Plain, System, difference, interpret  # noqa: E402
from autograd_fuzz.known import known  # noqa: E402
from autograd_fuzz.program import Program, from_json, to_json  # noqa: E402
from autograd_fuzz.shrink import shrunk  # noqa: E402
from autograd_fuzz.systems import Budget, IgnoresWrites, Perturbs, Sessions  # noqa: E402

QUICK = os.environ.get("SPILLWAY_TESTS") == "quick"
PROGRAMS, BATCH = (100, 5) if QUICK else (400, 25)  # a batch has a budget and codecs of its own
long = unittest.skipIf(QUICK, "make test-all runs it")
REGRESSIONS = pathlib.Path(__file__).resolve().parents[1] / "autograd_fuzz" / "regressions"
SAVES_INPUTS = hasattr(torch.utils.checkpoint._CheckpointFrame, "save_inputs")  # without a node of its own


class Fuzz(unittest.TestCase):
    def setUp(self):
        scratch = pathlib.Path(os.environ["SPILLWAY_BINARY_DIR"]) / "scratch"
        scratch.mkdir(exist_ok=True)
        self.folder = tempfile.mkdtemp(dir=scratch)
        self.addCleanup(shutil.rmtree, self.folder)
        batch.quiet()

    def run_all(self, programs: list[Program], budget: Budget, tally: batch.Tally) -> None:
        at: list[int] = []
        try:
            batch.run_batch(programs, budget, self.folder, tally, at.append)
        except BaseException:
            print(f"in seed {at[-1] if at else 'none'}", flush=True)
            raise

    def test_random_programs_do_as_under_plain_autograd(self):
        tally = batch.Tally()
        for start in range(0, PROGRAMS, BATCH):
            programs = [random_program(seed) for seed in range(start, start + BATCH)]
            self.run_all(programs, Budget.random(start), tally)
        self.assertEqual(tally.failed, {})
        self.assertEqual(tally.programs, PROGRAMS)
        self.assertLess(tally.refused, 0.05 * PROGRAMS)
        self.assertLess(sum(tally.known.values()), 0.08 * PROGRAMS)
        self.assertGreater(tally.moved_bytes, PROGRAMS * 50_000)
        self.assertGreater(tally.loaded_programs, 0.1 * PROGRAMS)
        self.assertGreater(tally.coded_programs, 0.01 * PROGRAMS)
        self.assertGreater(tally.recomputed_programs, 0.02 * PROGRAMS)

    def test_programs_that_failed_once(self):
        for file in sorted(REGRESSIONS.glob("*.json")):
            for device in ("1536KiB", "3MiB"):
                with self.subTest(file.stem, budget=device):
                    for coded in ([], ["online"]):
                        tally = batch.Tally()
                        self.run_all([from_json(file.read_text())], Budget([device], coded=coded), tally)
                        self.assertEqual((tally.failed, tally.refused, tally.known), ({}, 0, {}), coded)

    def test_known_differences_are_still_there(self):
        for file in sorted((REGRESSIONS / "known").glob("*.json")):
            with self.subTest(file.stem):
                program = from_json(file.read_text())
                plain = interpret(program, Plain())
                sessions = Sessions(Budget(["8MiB"]), self.folder)
                try:
                    events = interpret(program, sessions)
                finally:
                    sessions.close()
                found = difference(plain, events)
                if found is None and file.stem == "shape_of_a_leaf_in_a_checkpoint" and not SAVES_INPUTS:
                    print(f"{file.stem}: not seen, because this torch's checkpoint saves its inputs by an operator")
                    continue
                self.assertIsNotNone(found, "take it out of known.py, move the program to regressions/")
                self.assertEqual(known(*found) or batch.known_under_hooks(program, found[0], events), file.stem.split("-")[0])

    def test_json_gives_the_program_again(self):
        for seed in range(200):
            program = random_program(seed)
            self.assertEqual(from_json(to_json(program)), program)

    def test_plain_autograd_is_the_same_twice(self):
        for seed in range(100):
            program = random_program(seed)
            self.assertIsNone(difference(interpret(program, Plain()), interpret(program, Plain())), seed)


def two_threads_that_wait_for_each_other(*_: object) -> None:
    held = threading.Lock()
    with held:
        waiting = threading.Thread(target=held.acquire, daemon=True)
        waiting.start()
        waiting.join()


@long
class Hangs(unittest.TestCase):
    def test_a_hang_is_one_seeds_and_the_stacks_of_its_threads_are_printed(self):
        """The runner is started as a program, since it forks; its second batch never ends."""
        here = str(pathlib.Path(__file__).resolve().parent)
        program = (f"import sys; sys.path[:0] = [{here!r}, {str(pathlib.Path(here).parent)!r}]\n"
                   "from autograd_fuzz import run\n"
                   "from autograd_fuzz_test import two_threads_that_wait_for_each_other\n"
                   "ordinary = run.run_batch\n"
                   "def planted(programs, budget, scratch, tally, tell=lambda seed: None):\n"
                   "    if programs[0].seed != 25:\n"
                   "        return ordinary(programs, budget, scratch, tally, tell)\n"
                   "    tell(25)\n"
                   "    two_threads_that_wait_for_each_other()\n"
                   "run.run_batch, run.HANGS_AFTER_S = planted, 15\n"
                   f"print(run.run_all(0, 28, 1, {os.environ['SPILLWAY_BINARY_DIR']!r} + '/scratch', 0.0))\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
        self.assertIn("failed={25: 'nothing happened for 15 s'}", done.stdout, done.stderr)
        self.assertIn("seed 25: nothing happened for 15 s; it stands at", done.stdout)
        self.assertEqual(done.stderr.lower().count("thread 0x"), 2, done.stderr)
        self.assertIn("in two_threads_that_wait_for_each_other", done.stderr)
        self.assertIn("programs=27", done.stdout, "those behind it run in another process")


    def test_a_crash_of_plain_autograd_is_torchs_and_one_under_spillway_alone_fails(self):
        here = str(pathlib.Path(__file__).resolve().parent)
        program = (f"import os, signal, sys; sys.path[:0] = [{here!r}, {str(pathlib.Path(here).parent)!r}]\n"
                   "from autograd_fuzz import batch, run\n"
                   "ordinary = run.interpret\n"
                   "def planted(program, system):\n"
                   "    if program.seed == 3 or (program.seed == 5 and not isinstance(system, run.Plain)):\n"
                   "        os.kill(os.getpid(), signal.SIGSEGV)\n"
                   "    return ordinary(program, system)\n"
                   "run.interpret = batch.interpret = planted\n"
                   f"print(run.run_all(0, 8, 1, {os.environ['SPILLWAY_BINARY_DIR']!r} + '/scratch', 0.0))\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
        self.assertIn("failed={5: 'the process ended with -11'}, torch_crashed=[3]", done.stdout, done.stderr)


@long
class Broken(unittest.TestCase):
    def smallest(self, make: type, seeds: int) -> Program:
        """The first program that notices, shrunk."""

        def fails(program: Program) -> bool:
            system: System = make()
            return batch.differs_under(system, program)

        batch.quiet()
        found = next((random_program(seed) for seed in range(seeds) if fails(random_program(seed))), None)
        self.assertIsNotNone(found, f"no program of {seeds} noticed")
        program = shrunk(found, fails, seconds=20)
        self.assertTrue(fails(program))
        return program

    def test_a_changed_number_is_noticed(self):
        program = self.smallest(Perturbs, 50)
        self.assertLessEqual(len(program.steps), 8, to_json(program))

    def test_a_write_that_is_ignored_is_noticed(self):
        program = self.smallest(IgnoresWrites, 300)
        self.assertLessEqual(len(program.steps), 8, to_json(program))
        self.assertTrue(any(step.op not in ("enter", "backward", "loss") for step in program.steps))


if __name__ == "__main__":
    unittest.main()
