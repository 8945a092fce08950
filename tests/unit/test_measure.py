"""The case of ``a_case``: user speech 0–3 and 5.5–8 in turn 2, window 3.000042–5.500042; turn 2 begins at 10 s."""

from typing import Any

import pytest
from builders import a_case, a_recording, a_turn, heard
from hypothesis import given
from hypothesis import strategies as st

from dsbif.bench.actions import Action
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.errors import CaseError
from dsbif.score.heard import BadAudio
from dsbif.score.measure import Measurement, Reason, Unscored, measure, measurement_line, read_measurement
from dsbif.session.recording import TextPiece, Transcript
from dsbif.spans import Span

PAUSE = {"window": Span(3.0, 5.5)}


def measured(*agent: tuple[float, float], case: Case | None = None, **recording: Any) -> Measurement:
    case = case or a_case(**PAUSE)
    result = measure(case, a_recording(case, **recording), heard(*agent))
    assert isinstance(result, Measurement)
    return result


def test_an_agent_that_never_speaks() -> None:
    m = measured()
    assert (m.genuine_s, m.offset_s, m.begun, m.speech_in_window_s, m.overlap_s) == (None, None, (), 0.0, 0.0)
    assert m.agent_silent_at_w0
    assert not m.censored


def test_the_window_is_placed_on_the_session_clock() -> None:
    m = measured()
    assert (m.w0_s, m.w1_s) == (13.0, 15.5)


def test_genuine_is_the_first_onset_inside_the_window() -> None:
    m = measured((11.0, 13.4), (14.25, 15.0), (15.4, 16.0))
    assert m.genuine_s == 1.25
    assert [item.onset_s for item in m.begun] == pytest.approx([1.25, 2.4])


def test_speech_that_already_holds_the_floor_is_no_genuine_onset() -> None:
    m = measured((12.9, 16.0))
    assert m.genuine_s is None
    assert not m.agent_silent_at_w0
    assert m.speech_in_window_s == 2.5


@pytest.mark.parametrize(("start_s", "counts"), [(12.999, False), (13.0, True), (15.499, True), (15.5, False)])
def test_a_span_begins_in_the_window_from_w0_on_and_before_w1(start_s: float, counts: bool) -> None:
    assert (measured((start_s, 17.0)).genuine_s is not None) == counts


def test_an_utterance_begun_in_the_window_has_its_whole_length() -> None:
    m = measured((15.0, 18.5))
    assert m.begun[0].duration_s == 3.5
    assert m.speech_in_window_s == 0.5


@pytest.mark.parametrize(("gap_s", "utterances"), [(0.25, 1), (0.29, 1), (0.30, 2), (0.35, 2), (0.45, 2)])
def test_gaps_around_the_merge(gap_s: float, utterances: int) -> None:
    m = measured((13.2, 13.6), (13.6 + gap_s, 14.4))
    assert len(m.begun) == utterances


def test_a_gap_across_w0_that_is_merged_makes_one_span_that_holds_the_floor() -> None:
    m = measured((12.0, 12.9), (13.1, 14.0))
    assert m.genuine_s is None
    assert m.offset_s == 1.0


@pytest.mark.parametrize(
    ("agent", "offset_s", "silent_at_w0"),
    [
        (((12.0, 13.4),), pytest.approx(0.4), False),
        (((10.0, 12.0), (14.0, 14.6)), pytest.approx(1.6), True),
        (((10.0, 12.0),), None, True),
        (((12.0, 13.0),), None, True),
        (((12.0, 13.4), (14.0, 15.0)), pytest.approx(0.4), False),
    ],
)
def test_the_offset_is_of_the_span_that_covers_w0_else_of_the_next(
    agent: tuple[tuple[float, float], ...], offset_s: float | None, silent_at_w0: bool
) -> None:
    m = measured(*agent)
    assert m.offset_s == offset_s
    assert m.agent_silent_at_w0 == silent_at_w0


@pytest.mark.parametrize(("end_s", "censored"), [(40.0, True), (39.98, True), (39.9, False)])
def test_speech_that_runs_to_the_end_of_the_file_has_not_stopped(end_s: float, censored: bool) -> None:
    m = measured((12.0, end_s))
    assert m.censored == censored
    assert (m.offset_s is None) == censored


def test_the_user_resumes_after_the_first_utterance_of_the_window() -> None:
    assert measured((13.5, 14.0)).user_resumes_s == pytest.approx(2.5, abs=1e-4)
    assert measured().user_resumes_s is None


def test_a_user_who_had_resumed_before_the_agent_began_does_not_resume() -> None:
    """The user goes on at 15.5 s; an agent that begins after that has nobody who goes on after it."""
    case = a_case(window=Span(3.0, 8.0))
    assert measured((15.4, 16.0), case=case).user_resumes_s == pytest.approx(2.5, abs=1e-4)
    assert measured((15.6, 16.0), case=case).user_resumes_s is None


def test_nobody_resumes_where_the_user_has_nothing_left_to_say() -> None:
    case = a_case(window=Span(8.0, 18.0))
    assert measured((19.0, 20.0), case=case).user_resumes_s is None


def test_overlap_is_agent_in_window_against_user_from_construction() -> None:
    case = a_case(window=Span(0.0, 3.0))
    m = measured((9.0, 11.5), (12.5, 30.0), case=case)
    assert m.overlap_s == pytest.approx(1.5 + 0.5)


def test_the_window_is_cut_at_the_end_of_the_recording() -> None:
    case = a_case(window=Span(8.0, 18.0))
    result = measure(case, a_recording(case, duration_s=23.0), heard((22.5, 23.0), duration_s=23.0))
    assert isinstance(result, Measurement)
    assert result.w1_s == 23.0
    assert result.genuine_s == 4.5


@pytest.mark.parametrize(
    ("recording", "sound", "reason", "detail"),
    [
        ({"status": "agent_error", "error": "socket closed"}, heard(), Reason.AGENT_ERROR, "socket closed"),
        ({"turn2_onset_samples": None, "turn2_by": "not-reached"}, heard(), Reason.TURN2_NOT_REACHED, "before turn 2"),
        ({}, BadAudio("the recording is empty"), Reason.BAD_AUDIO, "the recording is empty"),
        ({}, heard(duration_s=12.0), Reason.BAD_AUDIO, "ends at 12.000 s, before the window opens at 13.000 s"),
    ],
)
def test_what_cannot_be_measured_is_unscored(
    recording: dict[str, Any], sound: Any, reason: Reason, detail: str
) -> None:
    case = a_case(**PAUSE)
    result = measure(case, a_recording(case, **recording), sound)
    assert isinstance(result, Unscored)
    assert result.reason is reason
    assert detail in result.detail


def test_flags_of_the_session_and_of_the_audio_come_together() -> None:
    case = a_case(**PAUSE)
    result = measure(case, a_recording(case, flags=("onset-timeout",)), heard(flags=("quiet_agent",)))
    assert isinstance(result, Measurement)
    assert result.flags == ("onset-timeout", "quiet_agent")


def _readback_case() -> Case:
    return a_case(
        expected_action=Action.READBACK, readback=("four one seven Alder", "five five five"), window=Span(8, 18)
    )


def test_a_readback_counts_from_turn_two_on() -> None:
    said = Transcript(
        "native", (TextPiece(24_000, "four one seven Alder"), TextPiece(480_000, "So, 417, and 55 something."))
    )
    m = measured((20.0, 21.0), case=_readback_case(), transcript=said)
    assert m.readback is not None
    assert (m.readback.matched, m.readback.wanted, m.readback.scope) == (5, 7, "from-turn-2")
    assert m.readback.missing == ("5", "alder")


def test_a_transcript_without_times_counts_whole() -> None:
    said = Transcript("asr", (TextPiece(0, "417 Alder, 555"),))
    m = measured((20.0, 21.0), case=_readback_case(), transcript=said)
    assert m.readback is not None
    assert (m.readback.coverage, m.readback.scope, m.readback.source) == (1.0, "whole", "asr")


def test_a_measurement_survives_the_trip_through_its_line() -> None:
    m = measured((13.123456789, 14.1), (15.4, 39.99), case=_readback_case())
    assert read_measurement(measurement_line(m), "here") == m


def test_a_line_with_a_wrong_type_is_named() -> None:
    line = {**measurement_line(measured()), "w0_s": "early"}
    with pytest.raises(CaseError, match=r"measurements.jsonl:3: key 'w0_s': .*found 'early'.* measured again"):
        read_measurement(line, "measurements.jsonl:3")


_spans = st.lists(st.tuples(st.integers(0, 39_000), st.integers(40, 4_000)), max_size=8)


@given(_spans)
def test_measures_agree_with_counting_milliseconds(pairs: list[tuple[int, int]]) -> None:
    """An independent reading of the rules: one boolean a millisecond."""
    agent = tuple((start / 1000, min(start + length, 40_000) / 1000) for start, length in pairs)
    m = measured(*agent)
    talks = [False] * 40_000
    for start, length in pairs:
        talks[start : min(start + length, 40_000)] = [True] * (min(start + length, 40_000) - start)
    _close_gaps(talks, 300)
    inside = talks[13_000:15_500]
    onsets = [ms for ms in range(2_500) if inside[ms] and not talks[13_000 + ms - 1]]
    assert m.speech_in_window_s == pytest.approx(sum(inside) / 1000)
    assert m.genuine_s == (pytest.approx(onsets[0] / 1000) if onsets else None)
    assert len(m.begun) == len(onsets)
    assert m.agent_silent_at_w0 == (not talks[13_000])
    user = [10_000 <= ms < 13_000 or 15_500 <= ms < 18_000 for ms in range(40_000)]
    shared_ms = sum(a and u for a, u in zip(inside, user[13_000:15_500], strict=True))
    assert m.overlap_s == pytest.approx(shared_ms / 1000, abs=1e-4)


def _close_gaps(talks: list[bool], gap_ms: int) -> None:
    last = None
    for ms in range(len(talks)):
        if talks[ms]:
            if last is not None and 1 < ms - last <= gap_ms:
                talks[last + 1 : ms] = [True] * (ms - last - 1)
            last = ms


@pytest.mark.parametrize(("duration_s", "scored"), [(17.9, False), (17.99, True), (18.0, True), (30.0, True)])
def test_a_recording_that_ends_before_the_user_does_is_no_audio_to_score(duration_s: float, scored: bool) -> None:
    case = a_case(**PAUSE)
    result = measure(case, a_recording(case, duration_s), heard((13.5, 14.0), duration_s=duration_s))
    assert isinstance(result, Measurement) == scored
    if isinstance(result, Unscored):
        assert result == Unscored(
            Reason.BAD_AUDIO, "the recording ends at 17.900 s, while the user speaks until 18.000 s"
        )


def test_a_measurement_with_a_number_that_is_none_is_refused() -> None:
    line = {**measurement_line(measured((13.5, 14.0))), "genuine_s": float("nan")}
    with pytest.raises(CaseError, match=r"here: key 'genuine_s': .*finite number; found 'nan'"):
        read_measurement(line, "here")


TICK_S = 1 / 1024
"""About a millisecond, and exact in floating point."""


@given(
    agent=st.lists(st.tuples(st.integers(0, 39_000), st.integers(90, 4_000)), max_size=7),
    w0=st.integers(0, 9_000),
    length=st.integers(1, 12_000),
    pauses=st.lists(st.integers(100, 3_000), min_size=2, max_size=2),
    tail=st.integers(0, 10_000),
)
def test_every_duration_agrees_with_counting_ticks(
    agent: list[tuple[int, int]], w0: int, length: int, pauses: list[int], tail: int
) -> None:
    """An independent reading of all rules, one boolean a tick, on windows, pauses and endings of any kind."""
    first, second = pauses
    speech = [(0, 2_000), (2_000 + first, 4_000 + first), (4_000 + first + second, 9_100 + first + second)]
    onset = 10 * 1024
    user = _track([(0, 3_072), *((start + onset, end + onset) for start, end in speech)], 60_000)
    total = onset + speech[-1][1] + tail
    talks = _track([(start, min(start + n, total)) for start, n in agent if start < total], total)
    segments = tuple(
        TimedSegment(f"s{i}", "speech", "x", Span(a * TICK_S, b * TICK_S)) for i, (a, b) in enumerate(speech)
    )
    case = a_case(
        window=Span(w0 * TICK_S, (w0 + length) * TICK_S),
        turn1=a_turn(72_000),
        turn2=UserTurn("x.wav", "0" * 64, 10**6, segments),
    )
    sound = heard(
        *((start * TICK_S, min(start + n, total) * TICK_S) for start, n in agent if start < total),
        duration_s=total * TICK_S,
    )
    m = measure(case, a_recording(case, total * TICK_S), sound)
    assert isinstance(m, Measurement)
    _agrees(m, talks, user, onset + w0, min(onset + w0 + length, total))


def _agrees(m: Measurement, talks: list[bool], user: list[bool], w0: int, w1: int) -> None:
    onsets = [t for t in range(w0, w1) if talks[t] and (t == 0 or not talks[t - 1])]
    assert [item.onset_s for item in m.begun] == [(t - w0) * TICK_S for t in onsets]
    assert [item.duration_s for item in m.begun] == [(_until(talks, t) - t) * TICK_S for t in onsets]
    assert m.genuine_s == ((onsets[0] - w0) * TICK_S if onsets else None)
    assert m.agent_silent_at_w0 == (not talks[w0])
    assert m.speech_in_window_s == sum(talks[w0:w1]) * TICK_S
    assert m.overlap_s == sum(a and u for a, u in zip(talks[w0:w1], user[w0:w1], strict=True)) * TICK_S
    speaking = next((t for t in range(w0, len(talks)) if talks[t]), None)
    stops = _until(talks, speaking) if speaking is not None else None
    cut = stops is not None and (len(talks) - stops) * TICK_S <= 0.032
    assert m.censored == cut
    assert m.offset_s == (None if stops is None or cut else (stops - w0) * TICK_S)
    after = range(onsets[0] + 1, len(user)) if onsets else ()
    resumes = next((t for t in after if user[t] and not user[t - 1]), None)
    assert m.user_resumes_s == (None if resumes is None else (resumes - w0) * TICK_S)


def _track(spans: list[tuple[int, int]], total: int) -> list[bool]:
    track = [False] * total
    for start, end in spans:
        track[start:end] = [True] * (end - start)
    _close_gaps(track, 307)
    return track


def _until(track: list[bool], start: int) -> int:
    return next((t for t in range(start, len(track)) if not track[t]), len(track))
