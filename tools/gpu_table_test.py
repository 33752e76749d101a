# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench" / "gpu"))

import table  # noqa: E402

GIB = 1 << 30
CEILINGS = {"kind": "ceilings", "entry": "ceilings", "seconds": 9.0, "out_pinned_bytes_per_s": 50e9,
            "in_pinned_bytes_per_s": 40e9, "block_bytes": 1, "error": None}


def times(median: float) -> dict:
    return {"min": median * 0.9, "median": median, "max": median * 1.5}


def line(mode: str = "plain", **changes: object) -> dict:
    """A run of made-up numbers: forward 1 s, backward 2 s, update 0.5 s."""
    return {"entry": f"train {mode}", "round": 1, "seconds": 9.0, "kind": "training", "mode": mode, "model": "m",
            "precision": "bf16", "batch": 2, "sequence": 8, "steps": 3, "deterministic": False,
            "cap_bytes": 0, "budget_bytes": 0, "step_seconds": times(3.5), "forward_seconds": times(1.0),
            "backward_seconds": times(2.0), "update_seconds": times(0.5), "out_bytes_a_step": 0,
            "in_bytes_a_step": 0, "losses": [5.0, 4.0], "gradient_hash": "1", "gradient_norms": [1.0, 2.0],
            "allocated_peak_bytes": 3 * GIB, "reserved_peak_bytes": 4 * GIB, "error": None, **changes}


def spillway(**changes: object) -> dict:
    return line("spillway", **{"budget_bytes": 24 * GIB, "cap_bytes": 24 * GIB, "out_bytes_a_step": 30e9,
                               "in_bytes_a_step": 20e9, "step_seconds": times(4.0), "host_peak_bytes": 8 * GIB, "allocator_retries": 7,
                               "stall_store_seconds_a_step": 0.25, "stall_load_seconds_a_step": 0.5, **changes})


class Ideal(unittest.TestCase):
    def test_copies_hide_behind_compute(self) -> None:
        self.assertEqual(table.ideal_seconds(spillway(), [line()], CEILINGS), 1.0 + 2.0 + 0.5)

    def test_each_phase_is_as_long_as_its_longer_side(self) -> None:
        out = spillway(out_bytes_a_step=200e9)
        self.assertEqual(table.ideal_seconds(out, [line()], CEILINGS), 4.0 + 2.0 + 0.5)
        back = spillway(in_bytes_a_step=200e9)
        self.assertEqual(table.ideal_seconds(back, [line()], CEILINGS), 1.0 + 5.0 + 0.5)

    def test_a_disk_is_not_measured_by_the_links_to_the_host(self) -> None:
        on_disk = spillway(nvme_budget_bytes=GIB)
        self.assertIsNone(table.ideal_seconds(on_disk, [line()], CEILINGS))
        self.assertEqual(table.row(on_disk, [line()], CEILINGS)[0], "spillway, NVMe")
        self.assertEqual(table.row(spillway(), [line()], CEILINGS)[0], "spillway")

    def test_nothing_without_plain_or_without_ceilings(self) -> None:
        self.assertIsNone(table.ideal_seconds(spillway(), [], CEILINGS))
        self.assertIsNone(table.ideal_seconds(spillway(), [line()], None))
        self.assertIsNone(table.ideal_seconds(spillway(), [line()], {**CEILINGS, "error": "no"}))


class Equality(unittest.TestCase):
    def verdict(self, run: dict, *plain: dict) -> str:
        return table.equality(run, [*plain])

    def test_bits(self) -> None:
        self.assertEqual(self.verdict(spillway(), line()), "bit-equal")
        self.assertNotEqual(self.verdict(spillway(gradient_hash="2"), line()), "bit-equal")
        self.assertNotEqual(self.verdict(spillway(losses=[5.0, 4.1]), line()), "bit-equal")

    def test_against_the_noise(self) -> None:
        noisy = line(gradient_hash="3", gradient_norms=[1.001, 2.0])
        near = spillway(gradient_hash="2", gradient_norms=[1.0005, 2.0])
        far = spillway(gradient_hash="2", gradient_norms=[1.0, 2.2])
        self.assertIn("within noise", self.verdict(near, line(), noisy))
        self.assertIn("BEYOND NOISE", self.verdict(far, line(), noisy))
        self.assertIn("noise not measured", self.verdict(far, line()))
        self.assertIn("BEYOND NOISE", self.verdict(near, line(), line()))

    def test_what_is_lossy_is_no_failure(self) -> None:
        lossy = spillway(gradient_hash="2", gradient_norms=[1.0, 2.2]) | {"mode": "qpo"}
        self.assertEqual(table.row(lossy, [line()], None)[-1], "lossy: 9.1e-02")

    def test_plain_is_compared_with_the_other_plain(self) -> None:
        one, other = line(), line(gradient_hash="2", gradient_norms=[1.001, 2.0])
        self.assertEqual(self.verdict(one, one, other), "noise 1.0e-03")
        self.assertEqual(self.verdict(one, one), "-")

    def test_a_number_that_is_none_is_no_noise(self) -> None:
        self.assertIn("inf", self.verdict(spillway(losses=[5.0, None]), line()))


class Rendered(unittest.TestCase):
    def rows(self, *lines: dict) -> list[list[str]]:
        text = table.render([*lines])
        return [[cell.strip() for cell in row.strip("|").split("|")]
                for row in text.splitlines() if row.startswith("| ")]

    def test_a_run(self) -> None:
        self.assertIn(["spillway", "1", "24 GiB", "4.000 (3.600 to 6.000)", "1.14", "3.00", "4.00", "8.00",
                       "7", "30.00 / 20.00", "0.750", "0.88", "bit-equal"],
                      self.rows(CEILINGS, line(), spillway()))

    def test_a_failed_run_says_why_in_the_table_of_its_work(self) -> None:
        failed = {key: value for key, value in line(cap_bytes=24 * GIB, error="out of | memory").items()
                  if key not in ("batch", "sequence", "step_seconds", "losses")}
        text = table.render([failed, line()])
        self.assertEqual(text.count("## "), 1)
        self.assertIn("| plain | 1 | 24 GiB | failed: out of / memory |", text)

    def test_other_work_is_another_table(self) -> None:
        text = table.render([line(), line(batch=4), line(deterministic=True)])
        self.assertEqual(text.count("\n## "), 3)
        self.assertIn("deterministic kernels", text)

    def test_a_plain_run_under_a_cap_is_no_reference(self) -> None:
        capped = line(cap_bytes=24 * GIB, step_seconds=times(1.0))
        self.assertEqual([row[4] for row in self.rows(line(), capped)[1:]], ["1.00", "0.29"])

    def test_checks_and_rates(self) -> None:
        rows = self.rows({"entry": "build", "seconds": 90.2, "kind": "check", "said": "done", "error": None},
                         {"entry": "tests", "seconds": 1.0, "kind": "check", "said": "x", "error": "exit code 8: x"},
                         {"entry": "train x", "seconds": 40.0, "error": "not done after 40 s"},
                         {"entry": "nvme ceiling", "seconds": 3, "write_gb_per_s": 2.5, "read_gb_per_s": 3.0},
                         CEILINGS)
        self.assertIn(["build", "90", "ok", "done"], rows)
        self.assertIn(["tests", "1", "FAILED", "exit code 8: x"], rows)
        self.assertIn(["train x", "40", "FAILED", "not done after 40 s"], rows)
        self.assertIn(["out pinned", "50.00"], rows)
        self.assertIn(["nvme read", "3.00"], rows)

    def test_codecs_beside_the_copy(self) -> None:
        row = {"codec": "affine4", "dtype": "f32", "copy_gb_per_s": 1000.0, "encode_gb_per_s": 900.0,
               "decode_gb_per_s": 1100.0, "encode_of_copy": 0.9, "decode_of_copy": 1.1,
               "encode_moved_of_copy": 0.5, "decode_moved_of_copy": 0.6}
        rows = self.rows({"entry": "codecs", "seconds": 3.0, "kind": "codecs", "rows": [row], "error": None})
        self.assertIn(["affine4", "f32", "900 (0.90, 0.50)", "1100 (1.10, 0.60)", "1000"], rows)
        text = table.render([{"entry": "codecs", "seconds": 3.0, "kind": "codecs", "error": None,
                              "skipped": "not run on a GPU: none"}])
        self.assertIn("Codecs: not run on a GPU: none", text)

    def test_expandable_segments_are_named_and_a_dry_run_is_no_row(self) -> None:
        rows = self.rows(CEILINGS, line(), spillway(allocator_settings="expandable_segments:True"), line(dry_run=True))
        self.assertEqual([row[0] for row in rows if row[1:2] == ["1"]], ["plain", "spillway, expandable segments"])

    def test_rows_are_as_long_as_their_head(self) -> None:
        rows = self.rows(CEILINGS, line(), spillway(), spillway(error="no"))
        self.assertEqual({len(row) for row in rows if len(row) > 2}, {len(table.COLUMNS)})

    def test_nothing_gives_a_head_only(self) -> None:
        self.assertEqual(len(table.render([]).splitlines()), 3)
        self.assertEqual(table.read(json.dumps(line()) + "\n\n"), [line()])


if __name__ == "__main__":
    unittest.main()
