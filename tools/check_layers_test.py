# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import pathlib
import tempfile
import unittest

import check_layers

RULES = check_layers.Rules("base:\ntier: base  # places\ntrain: include torch\ninclude: base <ATen/core/Tensor.h>\n"
                           "cli: include\n!tier: <chrono>\n")


class CheckLayers(unittest.TestCase):
    def faults(self, path: str, *names: str) -> list[str]:
        return check_layers.faults(path, "".join(f"#include {n}\n" for n in names), RULES)

    def test_allowed_includes_pass(self) -> None:
        self.assertEqual(self.faults("src/tier/a.cc", '"tier/a.h"', '"base/b.h"', "<vector>"), [])
        self.assertEqual(self.faults("src/train/a.cc", "<ATen/ATen.h>", "<spillway/x.h>"), [])
        self.assertEqual(self.faults("include/spillway/a.h", "<ATen/core/Tensor.h>"), [])

    def test_a_layer_above_is_a_fault_with_its_line(self) -> None:
        found = self.faults("src/base/a.h", "<vector>", '"tier/a.h"')
        self.assertEqual(found, ['src/base/a.h:2: base may not include tier ("tier/a.h")'])

    def test_torch_is_seen_by_few(self) -> None:
        self.assertEqual(len(self.faults("src/tier/a.h", "<c10/core/Allocator.h>")), 1)
        self.assertEqual(len(self.faults("cli/main.cc", "<torch/torch.h>")), 1)
        self.assertEqual(len(self.faults("include/spillway/a.h", "<ATen/ATen.h>")), 1)

    def test_forbidden_header_and_unknown_folder(self) -> None:
        self.assertEqual(len(self.faults("src/tier/a.cc", "<chrono>")), 1)
        self.assertEqual(self.faults("src/tier/a_test.cc", "<chrono>"), [])
        self.assertEqual(len(self.faults("src/new/a.cc")), 1)

    def test_circle_in_the_table(self) -> None:
        self.assertEqual(len(check_layers.Rules("a: b\nb: a\n").circles()), 1)

    def test_a_folder_that_is_gone_is_a_fault(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for path in ("src/base", "cli"):
                (pathlib.Path(folder) / path).mkdir(parents=True)
            rules = check_layers.Rules("base: torch <vector>\ncli: base compute\nprobe: base\n!cli: <thread>\n")
            self.assertEqual(rules.missing(pathlib.Path(folder)),
                             ["layers.txt: there is no folder compute", "layers.txt: there is no folder probe"])


if __name__ == "__main__":
    unittest.main()
