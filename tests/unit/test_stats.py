import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsbif.report.stats import Share, holm, kendall_tau, mcnemar, wilson


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        # Solutions of |p - k/n| = z sqrt(p (1 - p) / n), worked out by bisection to four places.
        (32, 155, 0.1502, 0.2769),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (1, 1, 0.2065, 1.0),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_wilson_intervals(k: int, n: int, low: float, high: float) -> None:
    assert wilson(k, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_ends_of_the_interval_are_where_the_score_test_turns(kn: tuple[int, int]) -> None:
    k, n = kn
    low, high = wilson(k, n)
    assert 0 <= low <= k / n <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            assert abs(k / n - end) == pytest.approx(1.959963984540054 * math.sqrt(end * (1 - end) / n), rel=1e-6)


def test_a_share_is_printed_with_its_count_and_interval_or_not_at_all() -> None:
    assert str(Share(0, 31)) == "0/31 = 0.0 % [0.0, 11.0]"
    assert str(Share(31, 31)) == "31/31 = 100.0 % [89.0, 100.0]"
    assert str(Share(0, 0)) == "0/0"
    assert Share(0, 0).share is None


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3)])
def test_a_share_that_cannot_be_is_refused(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="k of n with 0 <= k <= n"):
        Share(k, n)


def test_an_interval_needs_a_trial() -> None:
    with pytest.raises(ValueError, match="at least one trial"):
        wilson(0, 0)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [(0, 0, 1.0), (1, 9, 22 / 1024), (5, 5, 1.0), (0, 6, 2 / 64), (3, 8, 2 * (1 + 11 + 55 + 165) / 2048)],
)
def test_mcnemar_is_exact(first: int, second: int, p: float) -> None:
    assert mcnemar(first, second) == mcnemar(second, first) == pytest.approx(p)


def test_holm_is_monotone_and_capped() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.9, 0.8]) == (1.0, 1.0)
    assert holm([]) == ()


@pytest.mark.parametrize(
    ("left", "right", "tau"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2, 3, 4], [1, 3, 2, 4], 4 / 6),
        ([1, 1, 2], [1, 2, 3], 2 / math.sqrt(6)),
        ([1, 1, 1], [1, 2, 3], None),
    ],
)
def test_kendall(left: list[float], right: list[float], tau: float | None) -> None:
    assert kendall_tau(left, right) == (None if tau is None else pytest.approx(tau))


def test_two_rankings_are_of_one_set() -> None:
    with pytest.raises(ValueError, match="got 1 and 2 values"):
        kendall_tau([1], [1, 2])
