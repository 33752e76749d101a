# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""tools/land.sh, on a small repository whose `make test` is a line."""

import fcntl
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("land.sh")
GREEN, RED = "test:\n\t@echo 2 passed, 0 failed\n", "test:\n\t@echo the reason; exit 1\n"


class Land(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.tree = pathlib.Path(scratch.name) / "tree"
        (self.tree / "tools").mkdir(parents=True)
        shutil.copy(SCRIPT, self.tree / "tools")
        self.git("init", "-q", "-b", "main")
        self.first = self.commit(GREEN)
        self.git("switch", "-q", "-c", "next")

    def git(self, *words: str) -> str:
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.tree, check=True,
                              capture_output=True, text=True).stdout.strip()

    def commit(self, makefile: str, note: str = "") -> str:
        (self.tree / "Makefile").write_text(makefile)
        (self.tree / "note").write_text(note)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a commit")
        return self.git("rev-parse", "HEAD")

    def land(self) -> subprocess.CompletedProcess:
        return subprocess.run([self.tree / "tools/land.sh"], capture_output=True, text=True, check=False)

    def main(self) -> str:
        return self.git("rev-parse", "main")

    def test_green_moves_main_to_exactly_that_commit(self) -> None:
        second = self.commit(GREEN, "second")
        done = self.land()
        self.assertEqual((done.returncode, self.main()), (0, second), done.stderr)
        self.assertIn(f"main is at {second[:10]}", done.stdout)
        self.assertIn("main is at next already", self.land().stdout)

    def test_main_moves_with_its_files_where_it_is_checked_out(self) -> None:
        second = self.commit(GREEN, "second")
        self.git("switch", "-q", "main")
        self.assertEqual(self.land().returncode, 0)
        self.assertEqual((self.main(), self.git("status", "--porcelain")), (second, ""))

    def test_red_says_why_and_moves_nothing(self) -> None:
        self.commit(RED)
        done = self.land()
        self.assertEqual((done.returncode, self.main()), (1, self.first))
        self.assertIn("the reason", done.stdout)
        self.assertTrue((self.tree.parent / "tree.landing/Makefile").exists(), "it is left for a look")

    def test_the_clone_is_clean_but_for_what_set_up_made(self) -> None:
        self.commit("test:\n\t@mkdir -p .venv; touch .venv/kept; test ! -e left; touch left\n", "one")
        self.assertEqual(self.land().returncode, 0)
        self.commit("test:\n\t@test -e .venv/kept -a ! -e left\n", "two")
        self.assertEqual(self.land().returncode, 0)

    def test_what_is_not_committed_is_refused(self) -> None:
        self.commit(GREEN, "second")
        (self.tree / "new").write_text("")
        done = self.land()
        self.assertEqual((done.returncode, self.main()), (2, self.first))
        self.assertRegex(done.stderr, r"\Aland: uncommitted changes; .*new.*\n\Z")

    def test_a_main_that_next_lacks_is_refused(self) -> None:
        self.commit(GREEN, "second")
        self.git("switch", "-q", "main")
        alone = self.commit(GREEN, "third")
        done = self.land()
        self.assertEqual((done.returncode, self.main()), (2, alone))
        self.assertIn("git rebase main next", done.stderr)

    def test_one_at_a_time(self) -> None:
        self.commit(GREEN, "second")
        with open(f"{self.tree}.landing.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = self.land()
        self.assertEqual((done.returncode, self.main()), (2, self.first))
        self.assertIn("another landing is under way", done.stderr)


if __name__ == "__main__":
    unittest.main()
