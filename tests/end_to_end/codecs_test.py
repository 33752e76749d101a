# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`spillway codecs`: the table, the same as JSON, and what it refuses."""

import json
import pathlib
import re
import unittest

from harness import InFolder

NAMES = ["affine2", "affine3", "affine4", "affine5", "affine6", "affine8", "fp8_e4m3", "fp8_e5m2",
         "nf4", "mask", "sign", "lossless", "identity"]


class Codecs(InFolder):
    def test_every_codec_has_its_row_with_size_and_speed(self):
        done = self.run_program("codecs")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {line.split()[0]: line for line in done.stdout.splitlines()}
        for name in NAMES:
            self.assertRegex(rows[name], r" \d+(\s+\d+\.\d\d){2}$")
        self.assertIn(" 4.500 ", rows["affine4"])
        self.assertIn(" 147520 ", rows["affine4"])  # 64, 2048 groups of 8, half a byte each
        self.assertIn(" exact ", rows["mask"])
        self.assertTrue(re.search(r"^memcpy \d", done.stdout, re.MULTILINE))

    def test_json_says_the_same(self):
        done = self.run_program("codecs", "--json", "codecs.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(pathlib.Path(self.path("codecs.json")).read_text())
        self.assertEqual((told["format"], told["version"]), ("spillway.codecs", 1))
        rows = {row["codec"]: row for row in told["codecs"]}
        self.assertGreater(told["copy_bytes_per_s"], 0)
        self.assertEqual(rows["affine4"]["encoded_bytes"], 147520)
        self.assertAlmostEqual(rows["affine4"]["error_bound"], 0.5 / 15, places=4)
        self.assertEqual({name for name, row in rows.items() if not row["lossy"]},
                         {"mask", "lossless", "identity"})
        for row in rows.values():
            self.assertIn(f" {row['encoded_bytes']} ", done.stdout)

    def test_what_it_does_not_know(self):
        self.assert_refused(["codecs", "--bits"], ["--bits"])
        self.assert_refused(["codecs", "affine4"], ["affine4"])
        self.assert_refused(["codecs", "--json", "no/such/folder"], ["--json no/such/folder"])
        self.assert_refused(["codec"], ["'codec' is not a subcommand", "codecs"])


if __name__ == "__main__":
    unittest.main()
