# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""check_forwarding on made-up headers, and on those of every torch that is set up here."""

import pathlib
import unittest

import check_forwarding
import sources

HEADERS = {
    "c10/core/Allocator.h": """
        struct C10_API Allocator {
          virtual ~Allocator() = default;
          virtual DataPtr allocate(size_t n) = 0;  // virtual void not_code();
        };""",
    "c10/core/CachingDeviceAllocator.h": """
        struct C10_API DeviceAllocator : public c10::Allocator {
          virtual void recordStream(const DataPtr& ptr, c10::Stream stream) = 0;
        };""",
    "c10/cuda/CUDACachingAllocator.h": """
        class CUDAAllocator;
        class CUDAAllocator : public DeviceAllocator {
          virtual void recordStream(const DataPtr& ptr, CUDAStream stream) = 0;
          void recordStream(const DataPtr& ptr, c10::Stream stream) override { recordStream(ptr, x); }
          virtual std::pair<int, int> quiet(
              std::function<bool(int)> filter = {}) { if (true) { return {}; } }
          virtual void last() {}
        };
        virtual int elsewhere();""",
}
OURS = """{ behind_->allocate(n); } { behind_->recordStream(a, b); } { behind_->recordStream(a, c); }
          { return behind_->quiet(filter); } { behind_->last(); }"""


class Forwarding(unittest.TestCase):
    def test_what_hands_everything_on_has_no_fault(self) -> None:
        self.assertEqual(check_forwarding.faults(HEADERS, OURS), [])

    def test_each_virtual_that_is_not_handed_on_is_named(self) -> None:
        for call in ("allocate(n)", "recordStream(a, c)", "quiet(filter)", "last()"):
            found = check_forwarding.faults(HEADERS, OURS.replace(f"behind_->{call}", "nothing()"))
            self.assertEqual(len(found), 1, call)
            self.assertIn(f"::{call.split('(')[0]} is not handed on", found[0])

    def test_what_stands_in_a_comment_is_not_handed_on(self) -> None:
        found = check_forwarding.faults(HEADERS, OURS.replace("{ behind_->last(); }", "// behind_->last();"))
        self.assertEqual(len(found), 1)

    def test_a_class_that_is_gone_is_a_fault(self) -> None:
        moved = {**HEADERS, "c10/core/Allocator.h": "struct Other { virtual void f(); };"}
        self.assertIn("has torch moved it", check_forwarding.faults(moved, OURS)[0])

    def test_every_torch_that_is_set_up_here(self) -> None:
        headers = sorted(pathlib.Path(sources.ROOT, ".venv").glob(
            "torch-*/lib/python*/site-packages/torch/include/c10/cuda/CUDACachingAllocator.h"))
        if not headers:
            self.skipTest("no torch is set up here; spillway_torch_driver_test checks the one built for")
        for header in headers:
            self.assertEqual(check_forwarding.check(header.parents[2]), [], header)


if __name__ == "__main__":
    unittest.main()
