# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Folders for NVMe that cannot be, and a disk that fills up: a clear error, and a model that trains on."""

import contextlib
import os
import pathlib
import resource
import unittest

import spillway
import torch
from same_bits import Case, noise, seeded

WIDTH, BUDGET = 256, "12MiB"


def net() -> torch.nn.Module:
    return torch.nn.Sequential(*[layer for _ in range(6) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())])


def loss_of(model: torch.nn.Module, step: int = 0) -> torch.Tensor:
    return model(noise(1024, WIDTH, step=step)).square().mean()


class Folders(Case):
    def check_refused(self, folder: pathlib.Path, why: str) -> None:
        model = seeded(net)
        with self.assertRaises(spillway.OptionError) as raised:
            self.open(model, BUDGET, nvme=folder)
        self.assertEqual(raised.exception.option, "nvme")
        said = str(raised.exception)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn(f"'{folder}' {why}", said)
        self.assertEqual(self.train(model, loss_of), self.train(seeded(net), loss_of))

    def test_that_are_none(self):
        file = pathlib.Path(self.folder) / "file"
        file.touch()
        self.check_refused(file, "is not a folder")
        self.check_refused(file / "below", "Not a directory")
        self.check_refused(pathlib.Path(self.folder) / "absent", "does not exist (it is not created)")
        self.assertEqual([found.name for found in pathlib.Path(self.folder).iterdir()], ["file"])

    def test_that_are_memory(self):
        mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        folders = [where for _, where, kind, *_ in mounts if kind == "tmpfs" and os.access(where, os.W_OK)]
        if not folders:
            self.skipTest("no tmpfs that can be written is mounted here")
        self.check_refused(pathlib.Path(folders[0]), "is memory (tmpfs), not a disk; use a folder on a disk, or set nvme_allow_tmpfs=True")

    def test_that_we_may_not_write(self):
        closed = pathlib.Path(self.folder) / "closed"
        closed.mkdir()
        closed.chmod(0o555)
        with self.as_nobody():
            try:
                os.listdir(closed)
            except PermissionError:
                self.skipTest("root runs this as nobody, who cannot reach the build folder")
            self.check_refused(closed, "is not writable")

    @contextlib.contextmanager
    def as_nobody(self):
        """Root is refused nothing, so that it becomes somebody else for a while."""
        if os.geteuid() != 0:
            yield
            return
        os.chmod(self.folder, 0o755)
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)


class Full(Case):
    """No file of this process may grow beyond a limit: that ends as a disk that is full does."""

    def limit_files(self, size_bytes: int) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, most))

    def setUp(self):
        super().setUp()
        before, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(self.limit_files, before)

    def test_the_forward_that_finds_no_room_raises_torchs_error_and_the_next_one_has_it(self):
        plain = self.train(seeded(net), loss_of)
        model = seeded(net)
        session = self.open(model, BUDGET, recompute="off")
        self.limit_files(1 << 20)
        with self.assertRaises(torch.OutOfMemoryError) as raised, session:
            loss_of(model)
        self.assertRegex(str(raised.exception), r"NVMe takes no more \(.*File too large\)")
        self.limit_files(1 << 30)
        self.assertEqual(self.train(model, loss_of, lambda: session), plain, "in the same session")
        self.assertGreater(session.report()["stored_bytes"], 1 << 20)
        session.close()
        self.assertEqual(self.train(seeded(net), loss_of), plain, "without a session")


if __name__ == "__main__":
    unittest.main()
