# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import unittest

import check_lints

HEAD = "// SPDX-FileCopyrightText: The Spillway authors\n// SPDX-License-Identifier: Apache-2.0\n"


class CheckLints(unittest.TestCase):
    def bans(self, path: str, text: str) -> int:
        return len(check_lints.ban_faults(path, text))

    def test_bans_hold_where_they_should(self) -> None:
        for code in ("std::getenv(\"A\")", "throw 1;", "io_uring_submit(&r)", "::pread(fd, p, n, 0)",
                     "#include <torch/torch.h>"):
            self.assertEqual(self.bans("src/base/a.cc", code), 1, code)

    def test_exceptions_to_bans(self) -> None:
        self.assertEqual(self.bans("cli/main.cc", "getenv(\"A\"); throw 1;"), 0)
        self.assertEqual(self.bans("src/tier/uring.cc", "io_uring_submit(&r); pread(1);"), 0)
        self.assertEqual(self.bans("src/torch_driver/a.cc", "throw 1;"), 0)
        self.assertEqual(self.bans("src/base/a_test.cc", "throw 1;"), 0)

    def test_comments_and_strings_do_not_count(self) -> None:
        self.assertEqual(self.bans("src/base/a.cc", "// throw\n/* getenv(\n */ f(\"throw\"); don_throw();"), 0)

    def test_texts(self) -> None:
        self.assertEqual(check_lints.text_faults("src/a.h", HEAD + "#pragma once\n"), [])
        self.assertEqual(len(check_lints.text_faults("src/a.h", HEAD)), 1)
        self.assertEqual(len(check_lints.text_faults("src/a.cc", "int a;\n")), 1)
        self.assertEqual(len(check_lints.text_faults("src/a.cc", HEAD + "// \u00e9\n")), 1)
        self.assertEqual(len(check_lints.text_faults("src/a.cc", HEAD + "// TODO later\n")), 1)
        self.assertEqual(check_lints.text_faults("src/a.cc", HEAD + "// TODO(#7): later\n"), [])


if __name__ == "__main__":
    unittest.main()
