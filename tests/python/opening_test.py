# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What is so when a session opens, a mode or the working folder, and is no more when it trains."""

import os
import pathlib
import unittest

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import same_bits


def net() -> torch.nn.Module:
    return torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)])


def loss_of(model: torch.nn.Module, step: int) -> torch.Tensor:
    return model(same_bits.noise(1024, 256, step=step)).square().mean()


class Opening(same_bits.Case):
    def test_a_session_that_was_opened_under_a_mode_moves(self):
        plain = self.train(same_bits.seeded(net), loss_of)
        for mode in (FakeTensorMode, torch.inference_mode, lambda: torch.device("meta")):
            model = same_bits.seeded(net)
            with mode():
                session = self.open(model, "10MiB", min_tensor_bytes=1)
            self.assertEqual(self.train(model, loss_of, lambda: session), plain)
            self.check_moved(session.report())
            session.close()

    def test_files_are_written_where_the_program_was_when_it_named_them(self):
        self.addCleanup(os.chdir, pathlib.Path.cwd())
        names = ["events", "failed", "timeline"]
        os.chdir(self.folder)
        model = net()
        session = self.open(model, "10MiB", record_events=names[0], flight_record=pathlib.Path(names[1]), timeline=names[2])
        (pathlib.Path(self.folder) / "later").mkdir()
        os.chdir("later")
        with session, self.assertRaises(torch.OutOfMemoryError):
            loss_of(model, 0) + torch.empty(1 << 30)
        session.close()
        self.assertEqual(os.listdir(), [])
        self.assertEqual(sorted(os.listdir("..")), sorted([*names, "later"]))


if __name__ == "__main__":
    unittest.main()
