# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""When a ratio of times is judged: bench/steady.py."""

import pathlib
import random
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import steady  # noqa: E402


class Interval(unittest.TestCase):
    def test_it_holds_the_median_as_often_as_it_says(self) -> None:
        drawn = random.Random(1)
        for count in (5, 6, 8, 12, 20, 40):
            held = 0
            for _ in range(2000):
                low, high = steady.interval_of_median([drawn.gauss(1, 0.02) for _ in range(count)])
                held += low <= 1 <= high
            self.assertGreater(held, 0.88 * 2000, count)

    def test_it_leaves_out_more_of_more_values(self) -> None:
        self.assertEqual(steady.interval_of_median([3, 1, 2]), (1, 3))
        self.assertEqual(steady.interval_of_median(list(range(8))), (1, 6))
        low, high = steady.interval_of_median(list(range(100)))
        self.assertLess(high - low, 20)


    def test_a_few_ratios_show_nothing(self) -> None:
        self.assertFalse(steady.is_steady([1.0, 1.0, 1.0]))
        self.assertTrue(steady.is_steady([1.0, 1.001, 0.999, 1.0]))


class Rounds(unittest.TestCase):
    def rounds(self, plain: list[float], minutes: float) -> tuple[int, bool]:
        seconds = iter(plain)
        done, is_calm = steady.rounds_until_steady(
            {"ours": lambda: 1.0, "plain": lambda: next(seconds)}, lambda run: run, minutes, lambda _number, _done: None)
        return len(done), is_calm

    def test_a_steady_machine_needs_the_least(self) -> None:
        self.assertEqual(self.rounds([1.0, 1.001, 1.0, 0.999, 1.0], minutes=1), (5, True))

    def test_rounds_are_added_until_it_is(self) -> None:
        self.assertEqual(self.rounds([1.0, 1.1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], minutes=1)[1], True)
        self.assertGreater(self.rounds([1.0, 1.1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], minutes=1)[0], 5)

    def test_an_unsteady_one_ends_with_the_time(self) -> None:
        self.assertEqual(self.rounds([1.0, 1.5] * 5, minutes=0), (1, False))

    def test_no_round_is_begun_that_would_not_end_in_time(self) -> None:
        now = time.monotonic()
        self.assertFalse(steady.is_late(now - 60, rounds=3, minutes=2))
        self.assertTrue(steady.is_late(now - 100, rounds=3, minutes=2))
        self.assertFalse(steady.is_late(now - 90, rounds=0, minutes=1))

    def test_the_order_turns(self) -> None:
        order = []
        sides = {name: lambda name=name: order.append(name) or 1.0 for name in ("plain", "ours", "other")}
        steady.rounds_until_steady(sides, lambda run: run, 1, lambda _number, _done: None)
        self.assertEqual(order[:7], ["plain", "ours", "other", "ours", "other", "plain", "other"])


if __name__ == "__main__":
    unittest.main()
