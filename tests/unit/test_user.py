import numpy as np
import pytest
from numpy.typing import NDArray

from dsbif.session.user import Pacing, UserSide

PACING = Pacing(gap_s=1.0, trailing_s=0.5, onset_timeout_s=2.0)


def _side(
    barge_in_after_s: float | None = None, turn1: int = 24_000, turn2: int = 12_000, pacing: Pacing = PACING
) -> UserSide:
    return UserSide(np.full(turn1, 0.25, np.float32), np.full(turn2, 0.5, np.float32), turn1, barge_in_after_s, pacing)


def _all(side: UserSide, frame: int = 480, limit: int = 1000) -> NDArray[np.float32]:
    frames = []
    while not side.done and len(frames) < limit:
        frames.append(side.next(frame))
    return np.concatenate(frames)


def test_turn_two_follows_turn_one_after_the_gap_to_the_sample() -> None:
    side = _side(turn1=24_001)
    sent = _all(side)
    assert side.turn2_by == "take-turn"
    assert side.turn2_onset == 48_001
    assert np.flatnonzero(sent == 0.5)[[0, -1]].tolist() == [48_001, 60_000]
    assert np.count_nonzero(sent == 0.25) == 24_001


def test_the_session_ends_after_the_trailing_silence_at_a_whole_frame() -> None:
    side = _side()
    sent = _all(side)
    assert side.ends_at == 24_000 + 24_000 + 12_000 + 12_000
    assert len(sent) == 72_000


@pytest.mark.parametrize("frame", [480, 1920, 777])
def test_the_frame_size_changes_nothing_that_is_sent(frame: int) -> None:
    assert np.array_equal(_all(_side(), frame)[:72_000], _all(_side(), 480)[:72_000])


def test_a_barge_in_comes_its_delay_after_the_onset_to_the_sample() -> None:
    side = _side(barge_in_after_s=3.0)
    while side.position < 36_000:
        side.next(480)
    side.agent_began(30_123)
    sent = _all(side)
    assert side.turn2_by == "barge-in"
    assert side.turn2_onset == 30_123 + 72_000
    assert np.flatnonzero(sent == 0.5)[0] + 36_000 == side.turn2_onset


def test_only_the_first_onset_counts() -> None:
    side = _side(barge_in_after_s=1.0)
    side.next(480)
    side.agent_began(480)
    side.agent_began(9_999)
    assert side.turn2_onset == 24_480


def test_an_onset_learnt_late_never_injects_into_the_past() -> None:
    side = _side(barge_in_after_s=0.1)
    while side.position < 30_000:
        side.next(480)
    side.agent_began(24_000)
    assert side.turn2_onset == side.position


def test_an_agent_that_never_speaks_gets_turn_two_after_the_timeout_and_the_record_says_so() -> None:
    side = _side(barge_in_after_s=3.0)
    sent = _all(side)
    assert side.turn2_by == "onset-timeout"
    assert side.turn2_onset == 24_000 + 48_000
    assert np.flatnonzero(sent == 0.5)[0] == 72_000


def test_an_onset_does_not_move_a_turn_that_is_taken_in_order() -> None:
    side = _side()
    side.agent_began(100)
    assert side.turn2_onset == 48_000


def test_the_user_never_gives_way() -> None:
    side = _side(barge_in_after_s=1.0)
    side.agent_began(0)
    sent = _all(side)
    assert np.count_nonzero(sent == 0.25) == 24_000
    assert np.count_nonzero(sent == 0.5) == 12_000


def test_a_turn_taken_in_order_may_wait_for_the_answer_to_be_complete() -> None:
    side = _side(pacing=Pacing(gap_s=0.5, trailing_s=0.5, onset_timeout_s=2.0, answer_timeout_s=3.0))
    side.next(12_000)
    side.agent_finished()  # an answer to half a turn is none
    assert side.turn2_onset is None
    assert not side.awaits_onset
    side.next(18_000)
    side.agent_finished()
    assert (side.turn2_onset, side.turn2_by) == (30_000 + 12_000, "take-turn")
    side.agent_finished()
    assert side.ends_at == 42_000 + 12_000 + 12_000


def test_an_answer_that_is_never_complete_is_waited_for_so_long_and_no_longer() -> None:
    side = _side(pacing=Pacing(gap_s=0.5, trailing_s=0.5, onset_timeout_s=2.0, answer_timeout_s=3.0))
    _all(side)
    assert side.turn2_onset == 24_000 + 72_000 + 12_000


def test_the_session_ends_after_the_last_answer_and_a_flush() -> None:
    side = _side(pacing=Pacing(0.5, 0.5, 2.0, final_timeout_s=8.0, flush_s=1.5))
    while side.position < 24_000 + 12_000 + 12_000 + 24_000:
        assert side.ends_at is None
        side.next(480)
    side.agent_finished()
    assert side.ends_at == 72_000 + 36_000


def test_an_answer_within_the_tail_does_not_cut_the_tail() -> None:
    side = _side(pacing=Pacing(0.5, 0.5, 2.0, final_timeout_s=8.0, flush_s=1.5))
    while side.position < 48_000:
        side.next(480)
    side.agent_finished()
    assert side.ends_at == 48_000 + 12_000 + 36_000
