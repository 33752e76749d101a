# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import os
import pathlib
import re
import shutil
import tempfile
import unittest
from unittest import mock

import run_parts
import sources


class AnotherTorch(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.home = pathlib.Path(holder.name)
        for folder in ("bin", "tools"):
            (self.home / folder).mkdir()
        shutil.copy(sources.ROOT / "tools" / "setup.sh", self.home / "tools")

    def python(self, version: str) -> str:
        """One whose torch is `version`; none if that is empty."""
        file = self.home / "bin" / "python"
        line = f'echo "{version};/torch"' if version else "exit 1"
        file.write_text(f'#!/bin/sh\ncase "$*" in *find_torch.py) {line} ;; esac\n')
        file.chmod(0o755)
        return str(file)

    def part(self, wanted: str | None = None, **environment: str) -> tuple[run_parts.Part | None, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("SPILLWAY_PYTHON", "VIRTUAL_ENV")}
        with mock.patch.dict(os.environ, {**kept, **environment}, clear=True), \
                mock.patch.object(sources, "ROOT", self.home), \
                contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()) as said:
            return run_parts.of_another_torch(wanted), said.getvalue()

    def test_is_not_downloaded_beside_yours_and_what_is_is_told(self) -> None:
        part, said = self.part(SPILLWAY_PYTHON=self.python("2.13.0"))
        self.assertIsNone(part)
        self.assertIn("no torch is downloaded", said)
        for file in re.findall(r"tools/\S+\.txt", said):
            self.assertTrue((sources.ROOT / file).exists(), file)
        self.assertIn("tools/requirements.txt, tools/site/requirements.txt", said)

    def test_is_there_where_your_environment_has_none(self) -> None:
        self.python("")
        part, said = self.part(VIRTUAL_ENV=str(self.home))
        self.assertIsNotNone(part)
        self.assertEqual(said, "")

    def test_is_there_where_it_is_asked_for(self) -> None:
        part, _ = self.part("2.12.0", SPILLWAY_PYTHON=self.python("2.13.0"))
        self.assertEqual(part, run_parts.Part("torch 2.12.0", ["test-torch", "TORCH=2.12.0"]))

    def test_a_python_that_has_none_ends_the_whole(self) -> None:
        with self.assertRaises(SystemExit) as ended:
            self.part(SPILLWAY_PYTHON=self.python(""))
        self.assertEqual(ended.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
