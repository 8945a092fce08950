"""The few statistics that the tables need, in closed form.

Shares are always of counts; intervals are Wilson's at 95 %, finite at k = 0 and k = n.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Share:
    """k of n, never printed without both.

    >>> str(Share(32, 155))
    '32/155 = 20.6 % [15.0, 27.7]'
    >>> str(Share(0, 0))
    '0/0'
    """

    k: int
    n: int

    def __post_init__(self) -> None:
        if not 0 <= self.k <= self.n:
            raise ValueError(f"a share is k of n with 0 <= k <= n; got {self.k} of {self.n}")

    @property
    def share(self) -> float | None:
        """K / n, or None where nothing was counted."""
        return self.k / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % Wilson interval, or None where nothing was counted."""
        return wilson(self.k, self.n) if self.n else None

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.k}/{self.n}"
        low, high = self.interval
        return f"{self.k}/{self.n} = {100 * self.k / self.n:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def wilson(k: int, n: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson's score interval of a binomial share, inside [0, 1].

    >>> [round(x, 4) for x in wilson(0, 10)]
    [0.0, 0.2775]
    """
    if n <= 0:
        raise ValueError("an interval needs at least one trial")
    p, z2 = k / n, z * z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    low = 0.0 if k == 0 else max(0.0, centre - half)
    high = 1.0 if k == n else min(1.0, centre + half)
    return low, high


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided McNemar test of paired outcomes: p of the discordant pairs under a fair coin.

    >>> round(mcnemar(1, 9), 6)
    0.021484
    """
    n = only_first + only_second
    if n == 0:
        return 1.0
    tail: float = sum(math.comb(n, i) for i in range(min(only_first, only_second) + 1)) / 2**n
    return float(min(1.0, 2 * tail))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down correction; adjusted values in the order given.

    >>> [round(p, 10) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, worst = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return tuple(adjusted)


def kendall_tau(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Kendall's tau-b of two rankings; None where one of them is all ties.

    >>> kendall_tau([1, 2, 3], [1, 3, 2])
    0.3333333333333333
    """
    if len(left) != len(right):
        raise ValueError(f"two rankings of one set; got {len(left)} and {len(right)} values")
    score = ties_left = ties_right = 0
    pairs = 0
    for i in range(len(left)):
        for j in range(i):
            a, b = _sign(left[i] - left[j]), _sign(right[i] - right[j])
            pairs += 1
            score += a * b
            ties_left += a == 0
            ties_right += b == 0
    scale = (pairs - ties_left) * (pairs - ties_right)
    return score / math.sqrt(scale) if scale else None


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
