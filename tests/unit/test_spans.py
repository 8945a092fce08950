import pytest

from dsbif.spans import Span, clip, merge, overlap_s, starting_in


@pytest.mark.parametrize(
    ("gap_s", "pieces"),
    [(0.25, 1), (0.29, 1), (0.2999, 1), (0.3, 2), (0.31, 2), (0.45, 2)],
)
def test_gaps_shorter_than_the_merge_gap_close_and_others_stay(gap_s: float, pieces: int) -> None:
    assert len(merge([Span(0, 1), Span(1 + gap_s, 3)], gap_s=0.3)) == pieces


def test_merge_sorts_and_swallows_nested_spans() -> None:
    assert merge([Span(4, 5), Span(0, 3), Span(1, 2)], gap_s=0.3) == (Span(0, 3), Span(4, 5))


def test_starting_in_takes_the_first_moment_and_leaves_the_last() -> None:
    window = Span(1, 2)
    assert starting_in([Span(0.9, 3), Span(1, 3), Span(1.5, 9), Span(2, 3)], window) == (Span(1, 3), Span(1.5, 9))


def test_clip_cuts_at_both_ends_and_drops_what_only_touches() -> None:
    assert clip([Span(0, 1), Span(0.5, 1.5), Span(1.8, 4), Span(2, 3)], Span(1, 2)) == (Span(1, 1.5), Span(1.8, 2))


def test_overlap_adds_up_over_several_spans() -> None:
    assert overlap_s([Span(0, 2), Span(3, 4)], [Span(1, 3.5)]) == pytest.approx(1.5)


def test_a_span_cannot_end_before_it_starts() -> None:
    with pytest.raises(ValueError, match="ends at or after it starts"):
        Span(2, 1)


def test_a_span_reads_like_a_timeline() -> None:
    assert str(Span(1.25, 2.5).shifted(1)) == "[2.250 → 3.500]"
