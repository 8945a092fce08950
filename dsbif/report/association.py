"""How two ways of judging the same things go together: kappa, correlations, confusion. Pure arithmetic.

Every figure is None where it is not defined (a constant, nothing counted) and never a stand-in such as 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


def _paired(left: Sequence[object], right: Sequence[object]) -> None:
    if len(left) != len(right):
        raise ValueError(f"pairs are wanted; got {len(left)} and {len(right)} values")


def mid_ranks(values: Sequence[float]) -> tuple[float, ...]:
    """Ranks from 1; equal values share the middle of their ranks.

    >>> mid_ranks([10, 20, 20, 5])
    (2.0, 3.5, 3.5, 1.0)
    """
    ordered = sorted(values)
    first = {value: index for index, value in reversed(list(enumerate(ordered, 1)))}
    last = {value: index for index, value in enumerate(ordered, 1)}
    return tuple((first[value] + last[value]) / 2 for value in values)


def pearson(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Pearson's r of pairs; None below two pairs or where a side is constant. With a 0/1 side: the point-biserial r.

    >>> pearson([1, 2, 3], [2, 4, 6])
    1.0

    Raises:
        ValueError: the two sides differ in length.
    """
    _paired(left, right)
    if len(set(left)) < 2 or len(set(right)) < 2:
        return None
    mean_left, mean_right = math.fsum(left) / len(left), math.fsum(right) / len(right)
    a, b = [x - mean_left for x in left], [y - mean_right for y in right]
    scale = math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))
    if not scale:  # values that differ by less than a float can square
        return None
    return max(-1.0, min(1.0, math.fsum(x * y for x, y in zip(a, b, strict=True)) / scale))


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Spearman's rank correlation, ties at their middle rank; None below two pairs or where a side is constant.

    >>> spearman([1, 2, 3, 4], [1, 3, 2, 4])
    0.8

    Raises:
        ValueError: the two sides differ in length.
    """
    _paired(left, right)
    return pearson(mid_ranks(left), mid_ranks(right))


def cohen_kappa(left: Sequence[str], right: Sequence[str]) -> float | None:
    """Cohen's unweighted kappa; None without pairs, or where both only ever gave one and the same label.

    >>> cohen_kappa(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    0.5

    Raises:
        ValueError: the two sides differ in length.
    """
    _paired(left, right)
    n = len(left)
    agreed = sum(a == b for a, b in zip(left, right, strict=True)) * n
    by_chance = sum(left.count(label) * right.count(label) for label in set(left))
    return (agreed - by_chance) / (n * n - by_chance) if n * n > by_chance else None


@dataclass(frozen=True, slots=True)
class Confusion:
    """What was found where something was wanted, over ``pairs`` of (wanted, found).

    ``found`` may hold words beyond ``classes``: they are never right.
    """

    classes: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The classes, then whatever else was found."""
        return (*self.classes, *sorted({found for _, found in self.pairs} - set(self.classes)))

    @property
    def right(self) -> int:
        """How many were found as wanted."""
        return sum(wanted == found for wanted, found in self.pairs)

    def count(self, wanted: str, found: str) -> int:
        """One cell of the matrix."""
        return self.pairs.count((wanted, found))

    def f1(self, name: str) -> float | None:
        """F1 of one class: harmonic mean of precision and recall; None where the class was never wanted."""
        wanted = sum(one == name for one, _ in self.pairs)
        found = sum(one == name for _, one in self.pairs)
        return 2 * self.count(name, name) / (wanted + found) if wanted else None

    @property
    def macro_f1(self) -> float | None:
        """Mean F1 over the classes that were wanted; None where none was."""
        scores = [score for name in self.classes if (score := self.f1(name)) is not None]
        return sum(scores) / len(scores) if scores else None
