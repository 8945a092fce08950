"""Two outcomes of the same cases: what only one of them passed, the difference, its interval and its test.

Conventions
-----------
* A pair counts where both sides are scored. What lacks a side is left out of every figure, and counted.
* The interval is Newcombe's for paired shares: two Wilson intervals, joined with the correlation of the pairs.

Source: Newcombe, Stat. Med. 17 (1998) 2635, method 10. The choice of it is ours; the paper prints no intervals.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from dsbif.report.stats import Share, mcnemar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Counts of pairs by outcome; ``left_out`` lack a side."""

    both: int
    only_first: int
    only_second: int
    neither: int
    left_out: int = 0

    @property
    def n(self) -> int:
        """Complete pairs."""
        return self.both + self.only_first + self.only_second + self.neither

    @property
    def first(self) -> Share:
        """Passed on the first side, of the complete pairs."""
        return Share(self.both + self.only_first, self.n)

    @property
    def second(self) -> Share:
        """Passed on the second side, of the complete pairs."""
        return Share(self.both + self.only_second, self.n)

    @property
    def points(self) -> float | None:
        """First − second in percentage points; None without a pair.

        >>> round(Pairs(20, 10, 12, 113).points, 2)
        -1.29
        """
        return 100 * (self.only_first - self.only_second) / self.n if self.n else None

    @property
    def interval_points(self) -> tuple[float, float] | None:
        """The 95 % interval of ``points``; None without a pair.

        >>> [round(x, 1) for x in Pairs(1, 1, 7, 12).interval_points]
        [-50.7, -2.6]
        """
        if self.first.interval is None or self.second.interval is None:
            return None
        p, q = self.first.k / self.n, self.second.k / self.n
        (low1, high1), (low2, high2) = self.first.interval, self.second.interval
        down = _joined(p - low1, high2 - q, self._correlation)
        up = _joined(high1 - p, q - low2, self._correlation)
        return 100 * max(-1.0, p - q - down), 100 * min(1.0, p - q + up)

    @property
    def p(self) -> float | None:
        """Exact two-sided McNemar test, uncorrected; None without a pair."""
        return mcnemar(self.only_first, self.only_second) if self.n else None

    @property
    def _correlation(self) -> float:
        """Phi, its numerator drawn towards 0 by half of n as the method has it."""
        excess = float(self.both * self.neither - self.only_first * self.only_second)
        if excess > 0:
            excess = max(0.0, excess - self.n / 2)
        margins = (self.first.k, self.n - self.first.k, self.second.k, self.n - self.second.k)
        scale = math.sqrt(math.prod(margins))
        return excess / scale if scale else 0.0


def _joined(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))


def pair(first: Mapping[Key, bool | None], second: Mapping[Key, bool | None]) -> Pairs:
    """Outcomes by case, joined; None is unscored.

    >>> pair({"a": True, "b": True, "c": None}, {"a": True, "b": False, "c": True, "d": True})
    Pairs(both=1, only_first=1, only_second=0, neither=0, left_out=2)
    """
    keys = list(dict.fromkeys((*first, *second)))
    whole = [(a, b) for a, b in ((first.get(key), second.get(key)) for key in keys) if a is not None and b is not None]
    return Pairs(
        both=sum(a and b for a, b in whole),
        only_first=sum(a and not b for a, b in whole),
        only_second=sum(b and not a for a, b in whole),
        neither=sum(not a and not b for a, b in whole),
        left_out=len(keys) - len(whole),
    )
