# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a machine is steady enough for a ratio of times to be judged: two runs of plain beside each other show it.

The rule of all benches that judge such a ratio: pairs are added until the interval of plain against plain is narrower
than 2 %, or the time for that is over. Then the line says `"unsteady": true`, and no time is judged.
"""

import math

NARROW = 0.02
LEAST_PAIRS = 5


def interval_of_median(values: list[float], confidence: float = 0.9) -> tuple[float, float]:
    """Order statistics that the median of what the values are drawn from lies between, with that confidence or more
    (the sign test), whatever its distribution. Of fewer values than that needs: the smallest and the largest."""
    ordered = sorted(values)
    count, at_each_end = len(ordered), 0
    outside = 2 * 0.5**count  # probability that the median is beyond both of the two that are taken
    while at_each_end + 1 < count / 2:
        outside += 2 * math.comb(count, at_each_end + 1) * 0.5**count
        if outside > 1 - confidence:
            break
        at_each_end += 1
    return ordered[at_each_end], ordered[count - 1 - at_each_end]


def is_steady(plain_over_plain: list[float]) -> bool:
    """Of ratios of two runs of plain each."""
    low, high = interval_of_median(plain_over_plain)
    return len(plain_over_plain) >= LEAST_PAIRS and high - low < NARROW
