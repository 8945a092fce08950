"""Paired outcomes, against counts and intervals worked out elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsbif.report.pairs import Pairs, pair
from dsbif.report.stats import Share

counts = st.integers(0, 200)


def test_a_pair_needs_both_sides() -> None:
    first = {1: True, 2: True, 3: False, 4: False, 5: None, 6: True}
    second = {1: True, 2: False, 3: True, 4: False, 5: True, 7: True}
    assert pair(first, second) == Pairs(both=1, only_first=1, only_second=1, neither=1, left_out=3)


def test_nothing_compared_is_no_figure() -> None:
    empty: Pairs = pair({1: None}, {1: True})
    assert (empty.n, empty.left_out, empty.points, empty.interval_points, empty.p) == (0, 1, None, None, None)
    assert empty.first == Share(0, 0)


@pytest.mark.parametrize(
    ("pairs", "low", "high"),
    [
        # Method 10 for the 21 patients of Bentur et al., as Fagerland, Lydersen and Laake print it.
        (Pairs(1, 1, 7, 12), -0.507, -0.026),
        # No discordant pair: Wilson's half-widths at 10/20, 0.2007 each, and phi, corrected, (100 − 10)/100 = 0.9:
        # sqrt(2 · 0.2007² · (1 − 0.9)) = 0.0897.
        (Pairs(10, 0, 0, 10), -0.0897, 0.0897),
    ],
)
def test_newcombes_interval_for_pairs(pairs: Pairs, low: float, high: float) -> None:
    assert pairs.interval_points == (pytest.approx(100 * low, abs=0.06), pytest.approx(100 * high, abs=0.06))


@given(st.builds(Pairs, counts, counts, counts, counts))
def test_the_interval_holds_the_difference_and_turns_with_the_sides(pairs: Pairs) -> None:
    turned = Pairs(pairs.both, pairs.only_second, pairs.only_first, pairs.neither)
    if pairs.n == 0:
        assert pairs.points is None
        return
    assert pairs.points is not None
    assert pairs.interval_points is not None
    assert turned.interval_points is not None
    low, high = pairs.interval_points
    assert -100 <= low <= pairs.points + 1e-9
    assert pairs.points - 1e-9 <= high <= 100
    assert turned.interval_points == (pytest.approx(-high), pytest.approx(-low))
    assert pairs.points == pytest.approx(100 * (pairs.first.k - pairs.second.k) / pairs.n)
    assert pairs.p == turned.p
