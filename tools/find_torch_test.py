# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""find_torch's answer, and its search for CUDA, on made-up folders of wheels."""

import contextlib
import io
import pathlib
import tempfile
import unittest
from unittest import mock

import find_torch


class Line(unittest.TestCase):
    def line(self, version: str) -> tuple[str | None, str]:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as said:
            root = pathlib.Path(folder)
            (root / "lib").mkdir()
            (root / "lib" / "libtorch_cpu.so").touch()
            (root / "version.py").write_text(f"__version__ = '{version}'\n")
            line = find_torch.torch_line(root)
            return line and line.replace(folder, "ROOT"), said.getvalue()

    def test_a_release_with_or_without_its_build(self) -> None:
        for version in ("2.15.0", "2.15.0+cu130"):
            self.assertEqual(self.line(version), ("2.15.0;ROOT", ""))

    def test_a_pre_release_is_none_and_says_so(self) -> None:
        for version in ("2.13.0a0+git1234", "2.14.0.dev20260701+cpu", "2.13.0rc1"):
            line, said = self.line(version)
            self.assertIsNone(line)
            self.assertEqual(said, f"torch {version.partition('+')[0]} is a pre-release, and a release is needed\n")


class CudaParts(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.site = pathlib.Path(holder.name)
        no_toolkit = mock.patch.object(find_torch, "TOOLKIT", self.site / "no_toolkit")
        no_toolkit.start()
        self.addCleanup(no_toolkit.stop)

    def put(self, *paths: str) -> None:
        for path in paths:
            (self.site / path).parent.mkdir(parents=True, exist_ok=True)
            (self.site / path).touch()

    def found(self) -> tuple[list[str], str]:
        parts, why = find_torch.cuda_parts(self.site / "torch")
        return [str(part.relative_to(self.site)) for part in parts], why

    def test_wheels_of_cuda_13_with_the_rest_of_the_headers_in_triton(self) -> None:
        self.put("torch/lib/libc10_cuda.so", "nvidia/cu13/lib/libcudart.so.13",
                 "nvidia/cu13/include/cuda_runtime_api.h", "triton/backends/nvidia/include/crt/host_defines.h")
        self.assertEqual(self.found(), (["nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/include",
                                         "triton/backends/nvidia/include"], ""))

    def test_headers_that_are_whole_need_no_other_folder(self) -> None:
        self.put("torch/lib/libc10_cuda.so", "nvidia/cuda_runtime/lib/libcudart.so.12",
                 "nvidia/cuda_runtime/include/cuda_runtime_api.h",
                 "nvidia/cuda_runtime/include/crt/host_defines.h")
        self.assertEqual(self.found(), (["nvidia/cuda_runtime/lib/libcudart.so.12",
                                         "nvidia/cuda_runtime/include"], ""))

    def test_each_reason_why_not_is_told(self) -> None:
        self.assertIn("a build without CUDA", self.found()[1])
        self.put("torch/lib/libc10_cuda.so", "nvidia/cu13/lib/libcudart.so.13")
        self.assertIn("no CUDA runtime with headers", self.found()[1])
        self.put("nvidia/cu13/include/cuda_runtime_api.h")
        self.assertEqual(self.found()[0], [])
        self.assertIn("crt/host_defines.h", self.found()[1])


if __name__ == "__main__":
    unittest.main()
