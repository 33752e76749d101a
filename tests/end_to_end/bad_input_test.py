# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever is typed wrong: exit code 2, at most three lines, the value named, nothing changed."""

import os
import pathlib
import unittest

from harness import PROGRAM, SMALL, TINY, InFolder, long


class Flags(InFolder):
    @long
    def test_numbers_that_are_none_or_out_of_range(self):
        for flag in ("--layers", "--heads", "--kv-heads", "--width", "--hidden", "--vocab-size",
                     "--sequence", "--batch", "--steps", "--accumulate", "--checkpoint-every", "--validate-every",
                     "--threads"):
            for value in ("0", "-1", "12x", "1.5", "99999999999999999999", ""):
                self.assert_refused(["train", flag, value], [flag, f"'{value}'"])

    def test_fractions_that_are_none_or_out_of_range(self):
        for flag, value in (("--dropout", "1"), ("--dropout", "-0.1"), ("--lr", "fast"),
                            ("--lr", "nan"), ("--beta1", "1"), ("--beta2", "inf"),
                            ("--clip", "-1"), ("--weight-decay", "-1")):
            self.assert_refused(["train", flag, value], [flag, f"'{value}'"])

    def test_sizes_that_are_none(self):
        for flag in ("--device-budget", "--host-budget", "--nvme-budget", "--nvme-rate"):
            for value in ("-5MiB", "lots", "12QB", "101%", "MiB", "1e30GiB"):
                self.assert_refused(["train", "--nvme", ".", flag, value], [flag, f"'{value}'"])
        self.assert_refused(["train", "--device-budget", "0"], ["--device-budget", "'0'"])
        self.assert_refused(["train", "--nvme-budget", "1GiB"], ["--nvme-budget", "--nvme PATH"])

    def test_names_that_there_are_not(self):
        for flag, value in (("--preset", "gpt5"), ("--style", "bert"), ("--precision", "fp8"),
                            ("--device", "tpu"), ("--device", "cuda:x"), ("--policy", "magic")):
            self.assert_refused(["train", flag, value], [flag, value])

    def test_gpus_that_there_are_not(self):
        said = self.assert_refused(["train", "--device", "cuda:99"], ["--device cuda:99: "])
        self.assertEqual(len(said.splitlines()), 1)
        if "there is one CUDA device" in said or "there are" in said:
            self.skipTest("this machine has a GPU: --device cuda is not refused")
        said = self.assert_refused(["train", "--device", "cuda"],
                                   ["--device cuda: ", "; --device cpu is there"])
        self.assertEqual(len(said.splitlines()), 1)

    def test_a_share_of_a_gpus_memory(self):
        self.assert_refused(["train", "--device", "cuda", "--device-budget", "80%"],
                            ["--device-budget", "'80%'", "--device cuda's", "16GiB"])

    def test_sizes_of_a_model_that_cannot_be(self):
        self.assert_refused(["train", "--width", "100"], ["--width 100", "--heads 8"])
        self.assert_refused(["train", "--style", "llama2", "--kv-heads", "3"], ["--kv-heads 3"])
        self.assert_refused(["train", "--vocab-size", "255"], ["--vocab-size 255"])
        self.assert_refused(["train", "--preset", "gpt2-124m", "--style", "llama2"], ["--style llama2"])

    def test_flags_that_need_or_exclude_another(self):
        self.assert_refused(["train", "--checkpoint-every", "3"], ["--checkpoint-every 3"])
        self.assert_refused(["train", "--count-allocations", "--device-budget", "1GiB"], ["1GiB"])

    @long
    def test_codecs_and_what_is_lossy(self):
        for flags, words in (
            (["--policy", "qpo"], ["--policy qpo: ", "--device-budget"]),
            (["--lossy"], ["--lossy", "--device-budget"]),
            (["--codec", "affine4"], ["--codec affine4: ", "--device-budget"]),
            (["--nonfinite", "refuse"], ["--nonfinite refuse: ", "--device-budget"]),
            (["--measure-gradient-error"], ["--measure-gradient-error", "--lossy"]),
            (["--nvme-rate", "1MB"], ["--nvme-rate 1MB: ", "--nvme PATH"]),
        ):
            self.assert_refused(["train", *TINY, *flags], words)
        capped = ["train", *TINY, "--device-budget", "64MiB"]
        for flags, words in (
            (["--policy", "qpo"], ["--policy qpo: ", "--lossy"]),
            (["--codec", "affine4"], ["--codec affine4: ", "--lossy"]),
            (["--lossy"], ["--lossy", "online encodes nothing"]),
            (["--lossy", "--policy", "keep_all"], ["--lossy", "keep_all moves nothing"]),
            (["--lossy", "--policy", "qpo", "--codec", "affine7"], ["--codec affine7: ", "affine8"]),
            (["--lossy", "--policy", "qpo", "--codec", "affine4:group=100"], ["group"]),
            (["--lossy", "--policy", "qpo", "--codec", "weights=nf4"], ["weights", "linear_input"]),
            (["--lossy", "--policy", "qpo", "--codec", "all=nf4"], ["all=nf4", "exact"]),
            (["--nonfinite", "refuse"], ["--nonfinite refuse: ", "online encodes nothing"]),
            (["--lossy", "--codec", "affine4", "--codec", "other=nf4,affine8"], ["affine4,other=nf4,affine8", "affine8"]),
            (["--lossy", "--codec", "other=affine4", "--codec", "other=nf4"], ["other is there twice"]),
            (["--lossy", "--codec", "mask"], ["--codec mask: ", "mask=mask"]),
            (["--lossy", "--policy", "qpo", "--nonfinite", "zero"], ["--nonfinite: zero ", "{keep,refuse}"]),
        ):
            said = self.assert_refused([*capped, *flags], words)
            self.assertEqual(len(said.splitlines()), 1)

    def test_words_that_are_no_flag_and_no_subcommand(self):
        self.assert_refused(["train", "--layer-count", "3"], ["--layer-count"])
        self.assert_refused(["train", "more"], ["more"])
        self.assert_refused(["train", "--layers"], ["--layers"])
        self.assert_refused(["frobnicate"], ["'frobnicate'"])
        self.assert_refused([""], ["''"])
        self.assert_refused(["--frobnicate"], ["--frobnicate"])
        self.assert_refused([], ["subcommand"])


class Paths(InFolder):
    def refused(self, flag: str, path: str, why: str, *more: str, **options):
        self.assert_refused(["train", *TINY, flag, path, *more], [f"{flag} {path}: ", why], **options)

    @long
    def test_text_that_is_absent_empty_or_too_short(self):
        pathlib.Path(self.path("empty")).touch()
        pathlib.Path(self.path("short")).write_text("too short")
        pathlib.Path(self.path("hollow")).mkdir()
        os.mkfifo(self.path("pipe"))
        self.refused("--data", "absent", "No such file")
        self.refused("--data", self.path("empty"), "empty")
        self.refused("--data", "short", "has 9 bytes")
        self.refused("--data", "hollow", "no text")
        self.refused("--data", "/dev/null", "neither a file nor a folder")
        self.refused("--data", self.path("empty") + "/below", "Not a directory")

    def test_text_and_folders_closed_to_us(self):
        nobody = 65534 if os.geteuid() == 0 else None  # root is refused nothing
        if nobody and not self.open_to(nobody):
            self.skipTest("root runs this as nobody, who cannot read the build folder")
        closed = pathlib.Path(self.path("closed"))
        closed.write_text("text " * 100)
        closed.chmod(0)
        self.folder.chmod(0o755 if nobody else 0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        self.refused("--data", "closed", "Permission denied", user=nobody)
        self.refused("--nvme", self.path(""), "is not writable", user=nobody)
        self.refused("--json", "out.json", "Permission denied", user=nobody)
        self.refused("--checkpoint", "ckpt", "Permission denied", user=nobody)

    def open_to(self, user: int) -> bool:
        try:
            return self.run_program("train", "--preset", "no", user=user).returncode == 2
        except PermissionError:
            return False

    def test_an_nvme_folder_that_is_absent_or_none_or_memory(self):
        pathlib.Path(self.path("file")).touch()
        self.refused("--nvme", "absent", "not created")
        self.refused("--nvme", "file", "not a folder")
        self.refused("--nvme", "/proc", "takes no files", "--device-budget", "64MiB")

    def test_codecs_with_no_place_to_go(self):
        self.assert_refused(["train", *TINY, "--policy", "qpo", "--lossy", "--device-budget", "1GiB"],
                            ["--policy", "encoded tensors need a place to move to"])

    def test_an_nvme_folder_in_memory(self):
        mounts = (line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines())
        folders = [where for _, where, kind, *_ in mounts if kind == "tmpfs" and os.access(where, os.W_OK)]
        if not folders:
            self.skipTest("no tmpfs that can be written is mounted here")
        self.refused("--nvme", folders[0], "is memory (tmpfs), not a disk; use a folder on a disk, or set --nvme-allow-tmpfs")

    def test_places_for_results_that_are_none(self):
        pathlib.Path(self.path("home")).mkdir()
        pathlib.Path(self.path("home/letter")).write_text("dear")
        self.refused("--json", "no/out.json", "no folder 'no'")
        self.refused("--json", "home", "a folder, not a file")
        self.refused("--record-events", "no/events", "no folder 'no'", "--device-budget", "1GiB")
        self.refused("--timeline", "no/timeline.json", "no folder 'no'", "--device-budget", "1GiB")
        self.refused("--trace", "no/trace.json", "no folder 'no'", "--device-budget", "1GiB")
        self.refused("--trace", "trace.json", "it takes --steps 2 or more", "--device-budget", "1GiB", "--steps", "1")
        self.refused("--checkpoint", "no/ckpt", "there is no folder")
        self.refused("--checkpoint", "home", "holds 'letter'")
        self.refused("--checkpoint", "home/letter", "not a folder")

    def test_resume_from_what_is_no_checkpoint(self):
        pathlib.Path(self.path("hollow")).mkdir()
        pathlib.Path(self.path("file")).touch()
        for name in ("absent", "hollow", "file"):
            self.refused("--resume", name, "not a whole checkpoint")

    def test_bad_paths_are_told_before_a_budget_that_cannot_be_met(self):
        self.refused("--data", "absent", "No such file", "--device-budget", "4KiB")


class Budgets(InFolder):
    def test_a_flag_that_needs_a_budget_says_so(self):
        for flag in ("--record-events", "--flight-record", "--timeline", "--trace"):
            self.assert_refused(["train", *TINY, flag, "file"], [f"{flag} file: needs --device-budget"])

    @long
    def test_advice_names_what_would_help_and_what_there_is(self):
        said = self.assert_refused(["train", *TINY, "--device-budget", "4KiB", "--policy", "keep_all"],
                                   ["step 1, update: ", " of 4096 allowed"])
        self.assertIn("a larger --device-budget or a smaller model would make it fit", said)
        said = self.assert_refused(["train", *SMALL, "--device-budget", "20MiB", "--host-budget", "1MiB"],
                                   ["the host budget is full", "a larger --host-budget, --nvme FOLDER"])
        self.assertNotIn("NVMe budget", said)
        self.assertNotIn("report()", said, "which the program has not")
        self.assertIn("prints \"needed at least\", the smallest that works where all saved tensors can move", said)
        self.assertEqual(said.count("step 1, "), 1)

    def test_one_that_no_plan_can_meet_names_flag_step_and_bytes(self):
        for typed in ("4KiB", "0.4 MiB"):
            said = self.assert_refused(
                ["train", *TINY, "--device-budget", typed, "--nvme", self.path("")],
                [f"--device-budget {typed}: ", "step 1", "bytes"])
            self.assertEqual(len(said.splitlines()), 1)

    def test_less_than_a_page(self):
        self.assert_refused(["train", *TINY, "--device-budget", "12"], ["--device-budget 12: "])
        self.assert_refused(["train", *TINY, "--device-budget", "1GiB", "--nvme", self.path(""),
                             "--nvme-budget", "0.5KiB"], ["--nvme-budget 0.5KiB: ", "4 KiB"])

    def test_more_than_the_drive_has_free(self):
        said = self.assert_refused(["train", *TINY, "--device-budget", "1GiB", "--nvme", self.path(""), "--nvme-budget", "900TiB"],
                                   ["--nvme-budget 900TiB: 900.0 TiB (", " are asked for, but ", " free; ask for less"])
        self.assertEqual(len(said.splitlines()), 1)

    def test_the_folder_is_looked_at_before_a_share_of_it(self):
        self.assert_refused(["train", *TINY, "--device-budget", "1GiB", "--nvme", "absent",
                             "--nvme-budget", "80%"], ["--nvme absent: ", "not created"])


class Library(InFolder):
    def test_a_program_without_its_library_says_which_file_is_missing(self):
        alone = pathlib.Path(self.path("bin"))
        alone.mkdir()
        (alone / "spillway").write_bytes(PROGRAM.read_bytes())
        (alone / "spillway").chmod(0o755)
        self.assert_refused(["train"], [self.path("lib/libspillway_train.so")],
                            program=alone / "spillway")


if __name__ == "__main__":
    unittest.main()
