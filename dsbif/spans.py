"""Spans of time and their algebra: the ground floor on which every rule stands.

Conventions
-----------
* A span is half-open, ``[start_s, end_s)``, in seconds on one clock.
* "Closer than a gap" is strict: two spans exactly ``gap_s`` apart stay two spans.
* Nothing here rounds; equality of gaps is taken to a nanosecond, since 2.3 - 2.0 is less than 0.3 in floating point.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_TINY_S = 1e-9


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of time in seconds.

    >>> Span(1.0, 2.5).duration_s
    1.5
    >>> str(Span(1.0, 2.5))
    '[1.000 → 2.500]'
    """

    start_s: float
    end_s: float

    def __post_init__(self) -> None:
        if not self.start_s <= self.end_s:
            raise ValueError(f"a span ends at or after it starts; got [{self.start_s}, {self.end_s}]")

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.end_s - self.start_s

    def shifted(self, by_s: float) -> "Span":
        """The same span, ``by_s`` seconds later."""
        return Span(self.start_s + by_s, self.end_s + by_s)

    def contains(self, time_s: float) -> bool:
        """Whether ``start_s <= time_s < end_s``."""
        return self.start_s <= time_s < self.end_s

    def intersects(self, other: "Span") -> bool:
        """Whether the two share time; touching ends do not count."""
        return self.start_s < other.end_s and other.start_s < self.end_s

    def __str__(self) -> str:
        return f"[{self.start_s:.3f} → {self.end_s:.3f}]"


def merge(spans: Iterable[Span], gap_s: float) -> tuple[Span, ...]:
    """Close every gap shorter than ``gap_s``; the result is sorted and disjoint.

    >>> [str(s) for s in merge([Span(0, 1), Span(1.25, 2), Span(2.3, 3)], gap_s=0.3)]
    ['[0.000 → 2.000]', '[2.300 → 3.000]']
    """
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and (span.start_s <= merged[-1].end_s or span.start_s - merged[-1].end_s < gap_s - _TINY_S):
            merged[-1] = Span(merged[-1].start_s, max(merged[-1].end_s, span.end_s))
        else:
            merged.append(span)
    return tuple(merged)


def clip(spans: Iterable[Span], window: Span) -> tuple[Span, ...]:
    """The parts of ``spans`` that lie inside ``window``."""
    return tuple(
        Span(max(span.start_s, window.start_s), min(span.end_s, window.end_s))
        for span in spans
        if span.intersects(window)
    )


def starting_in(spans: Iterable[Span], window: Span) -> tuple[Span, ...]:
    """The spans, whole, that begin in ``window``: ``start_s <= begin < end_s``."""
    return tuple(span for span in spans if window.contains(span.start_s))


def overlap_s(one: Sequence[Span], other: Sequence[Span]) -> float:
    """Seconds that two sets of disjoint spans share.

    >>> overlap_s([Span(0, 2)], [Span(1, 3), Span(5, 6)])
    1.0
    """
    return sum(
        (min(a.end_s, b.end_s) - max(a.start_s, b.start_s) for a in one for b in other if a.intersects(b)),
        0.0,
    )
