"""Coverage of a dictation by a transcript, worked out by hand."""

import pytest
from builders import PAPER, a_case, a_recording, heard
from hypothesis import given
from hypothesis import strategies as st

from dsbif.bench.actions import Action
from dsbif.bench.tokens import tokens
from dsbif.score.measure import Reason, Unscored, measure
from dsbif.score.readback import readback
from dsbif.score.verdict import judge_case
from dsbif.session.recording import TextPiece, Transcript
from dsbif.spans import Span

ONSET = 240_000


def _said(*pieces: tuple[int, str]) -> Transcript:
    return Transcript("native", tuple(TextPiece(time, text) for time, text in pieces))


@pytest.mark.parametrize(
    ("said", "matched"),
    [
        ("4 1 7 Alder Street", 5),
        ("417 alder street", 5),
        ("Four-one-seven ALDER street!", 5),
        ("street alder 714", 5),
        ("417 417 Alder Street", 5),
        ("41 Alder Street", 4),
        ("4177 Alder", 4),
        ("four hundred seventeen Alder Street", 3),
        ("ald er street", 1),
        ("", 0),
    ],
)
def test_tokens_count_in_any_order_and_each_as_often_as_dictated(said: str, matched: int) -> None:
    found = readback(["four one seven", "Alder Street"], _said((0, said)), ONSET)
    assert (found.matched, found.wanted) == (matched, 5)
    assert found.coverage == matched / 5


def test_a_token_dictated_twice_must_be_said_twice() -> None:
    once, twice = (readback(["five five one"], _said((0, text)), ONSET) for text in ("five one", "5 1 5"))
    assert (once.matched, once.missing) == (2, ("5",))
    assert (twice.matched, twice.missing) == (3, ())


@pytest.mark.parametrize(("spoken", "digit"), [("oh", "0"), ("zero", "0"), ("one", "1"), ("nine", "9")])
def test_spelled_digits_are_digits_on_both_sides(spoken: str, digit: str) -> None:
    assert readback([spoken], _said((0, digit)), ONSET).coverage == 1.0
    assert readback([digit], _said((0, spoken)), ONSET).coverage == 1.0


def test_what_was_said_before_turn_two_is_not_read_back() -> None:
    said = _said((ONSET - 1, "Alder"), (ONSET, "four"))
    found = readback(["four Alder"], said, ONSET)
    assert (found.matched, found.missing, found.scope) == (1, ("alder",), "from-turn-2")


def test_where_no_piece_carries_a_time_the_whole_transcript_counts_and_that_is_said() -> None:
    found = readback(["four Alder"], _said((0, "Alder"), (0, "four")), ONSET)
    assert (found.matched, found.scope) == (2, "whole")


def test_a_word_is_not_put_together_from_two_pieces() -> None:
    assert readback(["metoprolol"], _said((ONSET, "meto"), (ONSET + 1, "prolol")), ONSET).matched == 0


@pytest.mark.parametrize("target", [(), ("…",), ("", " – ")])
def test_a_dictation_without_a_word_cannot_be_compared(target: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        readback(target, _said((0, "four")), ONSET)
    case = a_case(expected_action=Action.READBACK, readback=target, window=Span(8, 18), role="R2", verifier_params={})
    result = judge_case(case, measure(case, a_recording(case), heard((20, 21))), PAPER)
    assert isinstance(result, Unscored)
    assert result.reason is Reason.NO_TRANSCRIPT
    assert "no dictation" in result.detail


_words = st.lists(st.sampled_from(["four", "4", "one", "alder", "street", "10", "oh"]), max_size=8)


@given(_words.filter(bool), _words)
def test_coverage_agrees_with_crossing_words_off_a_list(target: list[str], said: list[str]) -> None:
    """An independent reading: every dictated token takes one said token away."""
    left, matched = list(tokens(" ".join(said))), 0
    wanted = tokens(" ".join(target))
    for token in wanted:
        if token in left:
            left.remove(token)
            matched += 1
    found = readback(target, _said((0, " ".join(said))), ONSET)
    assert (found.matched, found.wanted) == (matched, len(wanted))
    assert len(found.missing) == len(wanted) - matched
