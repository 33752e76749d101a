# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import unittest

import check_sizes

SOURCE = """#include <x>
namespace a {
/// Comment with { a brace.
class B {
 public:
    explicit B(int x)
        : x_{x}, y_{f(1)} {
        if (x) {
            g("}");
        }
    }
    int get() const { return x_; }

 private:
    int x_ = 0;
};

template <typename T>
T many(
    T a
) {
    auto h = [](int b) {
        return b;
    };
    return h(a);
}
enum class E { a, b };
constexpr int kTable[] = {1, 2};
}  // namespace a
TEST(suite, case_name) {
    int const big = 1'000'000;
}
"""


class CheckSizes(unittest.TestCase):
    def test_functions_are_found_with_their_lines(self) -> None:
        found = [(f.where, f.lines, f.is_case) for f in check_sizes.functions("p", SOURCE)]
        self.assertEqual(found, [("p:6", 6, False), ("p:12", 1, False), ("p:19", 8, False),
                                 ("p:30", 3, True)])

    def test_long_function_and_long_file_are_faults(self) -> None:
        body = "int f() {\n" + "    g();\n" * 69 + "}\n"
        self.assertEqual(len(check_sizes.faults({"src/a.cc": body})[0]), 1)
        self.assertEqual(len(check_sizes.faults({"src/a.cc": "int a;\n" * 801})[0]), 2)

    def test_within_the_budget(self) -> None:
        body = "int f() {\n" + "    g();\n" * 68 + "}\n"
        self.assertEqual(check_sizes.faults({"src/a.cc": body})[0], [])


if __name__ == "__main__":
    unittest.main()
