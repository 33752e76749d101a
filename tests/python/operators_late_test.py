# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The same of PyTorch's databases on the late accelerator, whose kernels and copies run as late as they may, where
the operator exists there: one sample of each, and no fault of order."""

import pathlib
import sys
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "semantics"))

import operators_test  # noqa: E402
import systems  # noqa: E402


# torch's copy of a conjugated tensor calls itself without end on a backend like this one.
COMPLEX_INSIDE = ("fft.",)


@unittest.skipUnless(systems.LATE_LIBRARY.exists(), f"the late accelerator is not built here: {systems.LATE_LIBRARY}")
class Late(operators_test.Databases):
    device = "late"
    dtypes = (torch.float32,)
    samples = operators_test.SAMPLES if operators_test.ALL else 1
    least = (300, 40)
    options = {"host_budget": "256MiB", "nvme": None}

    @classmethod
    def setUpClass(cls) -> None:
        systems.device_of(systems.SpillwayLate)

    def compare(self, name: str, body: operators_test.Body, leaves: list[torch.Tensor]) -> None:
        if name.startswith(COMPLEX_INSIDE):
            self.counts["complex inside"] += 1
            return
        try:
            with torch.no_grad():
                result = operators_test.tensors(body([leaf.detach().clone() for leaf in leaves]))
        except AttributeError:
            self.counts["asks the backend for the state of its random numbers"] += 1
            return
        except RuntimeError:
            result = []  # a module, which is on the device already
        if any(each.is_complex() for each in result):
            self.counts["complex"] += 1
            return
        super().compare(name, body, leaves)
        faults = torch.ops.late.faults()
        if faults:
            self.differ.append(f"{name}: {len(faults)} times streams are not in order, first: {faults[0]}"[:300])
            torch.ops.late.reset(len(self.differ))


if __name__ == "__main__":
    unittest.main()
