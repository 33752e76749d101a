# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a machine is steady enough for a ratio of times to be judged: two runs of plain beside each other show it.

The rule of all benches that judge such a ratio: pairs are added until the interval of plain against plain is narrower
than 2 %, or no further one ends in the bench's time. Then the line says `"unsteady": true`, and no time is judged.
"""

import math
import time
from collections.abc import Callable
from typing import TypeVar

Run = TypeVar("Run")

NARROW = 0.02
LEAST_ROUNDS = 5
LEAST_RATIOS = LEAST_ROUNDS - 1  # of one round and the next


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
    """Of ratios of two runs of plain each. A few show nothing."""
    if len(plain_over_plain) < LEAST_RATIOS:
        return False
    low, high = interval_of_median(plain_over_plain)
    return high - low < NARROW


def rounds_until_steady(
    sides: dict[str, Callable[[], Run]], time_of: Callable[[Run], float], minutes: float,
    show: Callable[[int, dict[str, Run]], None], least: int = LEAST_ROUNDS
) -> tuple[list[dict[str, Run]], bool]:
    """Rounds of all sides, the order turned each round, until "plain" is as quick in one as in the next, or another round
    would not end in `minutes`; and whether it was. `show` gets each round as it ends."""
    begin = time.monotonic()
    rounds: list[dict[str, Run]] = []
    names = list(sides)
    while True:
        turned = len(rounds) % len(names)
        done = {name: sides[name]() for name in [*names[turned:], *names[:turned]]}
        rounds.append(done)
        show(len(rounds), done)
        seconds = [time_of(each["plain"]) for each in rounds]
        is_calm = is_steady([after / before for before, after in zip(seconds, seconds[1:], strict=False)])
        if is_late(begin, len(rounds), minutes) or (len(rounds) >= least and is_calm):
            return rounds, is_calm


def is_late(begin: float, rounds: int, minutes: float) -> bool:
    """Whether one more round, as long as those since `begin` were, would end after `minutes`."""
    return rounds > 0 and (time.monotonic() - begin) * (rounds + 1) / rounds > 60 * minutes
