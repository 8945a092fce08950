import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsbif.report.association import Confusion, cohen_kappa, mid_ranks, pearson, spearman


def test_ties_share_the_middle_of_their_ranks() -> None:
    assert mid_ranks([3, 1, 3, 3, 2]) == (4.0, 1.0, 4.0, 4.0, 2.0)
    assert mid_ranks([]) == ()


@pytest.mark.parametrize(
    ("left", "right", "rho"),
    [
        ([1, 2, 3, 4, 5], [5, 6, 7, 8, 7], 0.8207826816681233),  # ranks 1 2 3.5 5 3.5: 8 / sqrt(10 * 9.5)
        ([10, 20, 30], [30, 20, 10], -1.0),
        ([86, 97, 99, 100, 101, 103, 106, 110, 112, 113], [2, 20, 28, 27, 50, 29, 7, 17, 6, 12], -29 / 165),
        ([1, 1, 1], [1, 2, 3], None),
        ([1], [1], None),
        ([], [], None),
    ],
)
def test_spearman_by_hand(left: list[float], right: list[float], rho: float | None) -> None:
    assert spearman(left, right) == (None if rho is None else pytest.approx(rho))


@given(st.permutations(range(9)))
def test_without_ties_spearman_is_the_sum_of_squared_rank_differences(order: list[int]) -> None:
    n, squares = len(order), sum((i - j) ** 2 for i, j in enumerate(order))
    assert spearman(range(n), order) == pytest.approx(1 - 6 * squares / (n * (n * n - 1)))


def test_with_a_side_of_zeros_and_ones_pearson_is_the_point_biserial() -> None:
    passed, pas = [1, 1, 1, 0, 0], [90.0, 80.0, 70.0, 60.0, 40.0]
    # means 80 and 50, population sd sqrt(296): (80 - 50) / sqrt(296) * sqrt(3 * 2 / 25)
    assert pearson(passed, pas) == pytest.approx(30 / math.sqrt(296) * math.sqrt(6 / 25))
    assert pearson([1, 1, 1], [1.0, 2.0, 3.0]) is None
    assert pearson([1e-200, 2e-200], [0.0, 1.0]) is None


@pytest.mark.parametrize(
    ("table", "kappa"),
    [
        ({"yy": 20, "yn": 5, "ny": 10, "nn": 15}, 0.4),  # 0.7 agreed, 0.5 by chance
        ({"yy": 45, "yn": 15, "ny": 25, "nn": 15}, 6 / 46),  # 0.60 agreed, 0.54 by chance
        ({"yy": 3, "nn": 3}, 1.0),
        ({"yn": 3, "ny": 3}, -1.0),
        ({"yn": 4}, 0.0),
        ({"yy": 4}, None),
        ({}, None),
    ],
)
def test_kappa_by_hand(table: dict[str, int], kappa: float | None) -> None:
    pairs = [pair for pair, n in table.items() for _ in range(n)]
    random.Random(1).shuffle(pairs)
    found = cohen_kappa([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    assert found == (None if kappa is None else pytest.approx(kappa))


@pytest.mark.parametrize("measure", [pearson, spearman, cohen_kappa])
def test_pairs_are_wanted(measure: object) -> None:
    with pytest.raises(ValueError, match=r"pairs are wanted; got 1 and 2 values"):
        measure([1], [1, 2])  # type: ignore[operator]


def test_a_confusion_by_hand() -> None:
    pairs = [("a", "a")] * 3 + [("a", "b")] + [("b", "b")] * 2 + [("b", "odd")] * 2
    found = Confusion(("a", "b", "c"), tuple(pairs))
    assert (found.right, found.columns) == (5, ("a", "b", "c", "odd"))
    assert [found.count("a", column) for column in found.columns] == [3, 1, 0, 0]
    assert found.f1("a") == pytest.approx(6 / 7)  # precision 1, recall 3/4
    assert found.f1("b") == pytest.approx(4 / 7)  # precision 2/3, recall 1/2
    assert found.f1("c") is None
    assert found.macro_f1 == pytest.approx((6 / 7 + 4 / 7) / 2)
    assert Confusion(("a",), (("a", "odd"),)).macro_f1 == 0.0
    assert Confusion(("a",), ()).macro_f1 is None
