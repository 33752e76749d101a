# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The examples in Python, as their first lines say: they run, move bytes, and lose what plain training loses."""

import contextlib
import io
import os
import pathlib
import re
import runpy
import signal
import subprocess
import sys
import unittest
from unittest import mock

from same_bits import Case

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
BOTH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
SECONDS = 900
LOSS = re.compile(r"^\{'loss': '([\d.]+)'", re.MULTILINE)


def children(process):
    return pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()


class Examples(Case):
    def output_of(self, name, *arguments, before=()):
        """Its standard output. One that is not done in time says on which lines its processes are."""
        run = subprocess.Popen([sys.executable, *before, EXAMPLES / name, *arguments], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                               env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"})
        try:
            out, err = run.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            for process in {int(child) for child in children(run.pid)} | {run.pid}:
                os.kill(process, signal.SIGABRT)
            out, err = run.communicate(timeout=SECONDS)
        self.assertEqual(run.returncode, 0, out[-2000:] + err[-6000:])
        return out

    def under_its_own_budget(self, name, *arguments, before=()):
        """With the budget that its first lines have."""
        budget = re.search(r"--device-budget (\S+) --nvme build", (EXAMPLES / name).read_text()).group(1)
        text = self.output_of(name, *arguments, "--device-budget", budget, "--nvme", self.folder, before=before)
        self.assertRegex(text, r"moved +stored on NVMe +[1-9]")
        return text

    def test_nanogpt(self):
        arguments = ("--steps", "3")
        losses = re.findall(r"^step \d+: loss .*", self.under_its_own_budget("nanogpt.py", *arguments), re.MULTILINE)
        self.assertEqual(losses, self.output_of("nanogpt.py", *arguments).splitlines())
        self.assertEqual(len(losses), 3)

    def test_trainer(self):
        text = self.under_its_own_budget("trainer.py", "--steps", "2", "--accumulate", "2", "--cpu")
        losses = [float(loss) for loss in LOSS.findall(text)]
        plain = self.output_of("trainer.py", "--steps", "2", "--accumulate", "2", "--cpu")
        self.assertEqual(losses, [float(loss) for loss in LOSS.findall(plain)])
        self.assertEqual(len(losses), 2, text)
        self.assertLess(losses[1], losses[0])

    def test_fsdp2_in_two_processes(self):
        line = re.compile(r"rank \d, step \d+: loss \d+\.\d{9}")  # two processes may share a line
        losses = sorted(line.findall(self.under_its_own_budget("fsdp2.py", "--steps", "2", before=BOTH)))
        self.assertEqual(losses, sorted(line.findall(self.output_of("fsdp2.py", "--steps", "2", before=BOTH))))
        self.assertEqual(len(losses), 4)

    def test_each_has_help(self):
        for name in ("nanogpt.py", "trainer.py", "fsdp2.py"):
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown), self.assertRaises(SystemExit), \
                    mock.patch.object(sys, "argv", [name, "--help"]):
                runpy.run_path(str(EXAMPLES / name))["options"]()
            for option in ("--device-budget", "--nvme", "--steps"):
                self.assertIn(option, shown.getvalue())


if __name__ == "__main__":
    unittest.main()
