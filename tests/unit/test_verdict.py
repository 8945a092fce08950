"""Every verifier at and around its limit; the case's window opens at 13 s of session time."""

from typing import Any

import pytest
import yaml
from builders import PAPER, a_case, a_recording, heard

from dsbif.bench.actions import PASSED_BY_SILENCE, Action
from dsbif.bench.case import Case
from dsbif.bench.levels import Level
from dsbif.files import CONF_DIR
from dsbif.score.measure import Measurement, Reason, Unscored, measure
from dsbif.score.thresholds import Thresholds
from dsbif.score.verdict import Label, Verdict, judge_case
from dsbif.session.recording import TextPiece, Transcript
from dsbif.spans import Span

W0 = 13.0


def _case(action: Action, role: str = "R2", **changes: Any) -> Case:
    return a_case(
        **{"expected_action": action, "role": role, "window": Span(3.0, 5.5), "verifier_params": {}, **changes}
    )


def _judge(
    action: Action, *agent: tuple[float, float], role: str = "R2", thresholds: Thresholds = PAPER, **changes: Any
) -> Verdict:
    transcript = changes.pop("transcript", Transcript("native"))
    case = _case(action, role, **changes)
    result = judge_case(case, measure(case, a_recording(case, transcript=transcript), heard(*agent)), thresholds)
    assert isinstance(result, Verdict)
    return result


@pytest.mark.parametrize("action", [action for action in Action if action is not Action.READBACK])
def test_an_agent_that_never_speaks(action: Action) -> None:
    assert _judge(action).passed == (action in PASSED_BY_SILENCE)


def test_an_agent_that_never_speaks_reads_nothing_back() -> None:
    verdict = _judge(Action.READBACK, readback=("five",))
    assert (verdict.passed, verdict.value) == (False, 0.0)


@pytest.mark.parametrize(
    ("action", "passes"),
    [
        (Action.LISTEN, False),
        (Action.NO_BACKCHANNEL, False),
        (Action.TAKE_TURN, False),
        (Action.INTERRUPT, False),
        (Action.BACKCHANNEL, False),
        (Action.YIELD, False),
        (Action.CONTINUE, True),
        (Action.ACCEPT_OVERLAP, True),
    ],
)
def test_an_agent_that_always_speaks(action: Action, passes: bool) -> None:
    window = {"window": Span(0.0, 3.0)} if action is Action.ACCEPT_OVERLAP else {}
    assert _judge(action, (0.0, 40.0), **window).passed == passes


@pytest.mark.parametrize("action", [Action.LISTEN, Action.NO_BACKCHANNEL])
@pytest.mark.parametrize(
    ("agent", "passes"),
    [
        ((10.0, 13.0), True),
        ((10.0, 13.001), False),
        ((15.499, 17.0), False),
        ((15.5, 17.0), True),
        ((14.0, 14.1), False),
    ],
)
def test_silence_is_no_speech_in_the_window(action: Action, agent: tuple[float, float], passes: bool) -> None:
    verdict = _judge(action, agent)
    assert verdict.passed == passes
    assert (verdict.label is Label.SILENT) == passes


def test_the_other_reading_of_silence_forgives_speech_that_began_earlier() -> None:
    onset_only = _with(listen_rule="onset_only")
    assert not _judge(Action.LISTEN, (10.0, 14.0)).passed
    assert _judge(Action.LISTEN, (10.0, 14.0), thresholds=onset_only).passed
    assert not _judge(Action.LISTEN, (10.0, 13.2), (14.0, 15.0), thresholds=onset_only).passed


def _with(**changes: Any) -> Thresholds:
    raw = yaml.safe_load((CONF_DIR / "thresholds" / "paper.yaml").read_text())
    return Thresholds.from_mapping({**raw, **changes})


@pytest.mark.parametrize(
    ("role", "limit_s"), [("R1", 2.0), ("R2", 2.0), ("R3", 1.5), ("R4", 2.0), ("R6", 1.2), ("R8", 0.8)]
)
def test_take_turn_at_its_limit(role: str, limit_s: float) -> None:
    at = _judge(Action.TAKE_TURN, (W0 + limit_s - 1e-6, 18.0), role=role)
    assert at.passed
    assert at.borderline
    assert at.limit == limit_s
    assert not _judge(Action.TAKE_TURN, (W0 + limit_s + 0.001, 18.0), role=role).passed


@pytest.mark.parametrize(("role", "limit_s"), [("R1", 1.5), ("R2", 1.5), ("R3", 1.2), ("R5", 1.5), ("R6", 1.2)])
def test_interrupt_at_its_limit(role: str, limit_s: float) -> None:
    assert _judge(Action.INTERRUPT, (W0 + limit_s - 1e-6, 18.0), role=role).passed
    assert not _judge(Action.INTERRUPT, (W0 + limit_s + 0.001, 18.0), role=role).passed


def test_an_onset_outside_the_window_takes_no_turn() -> None:
    verdict = _judge(Action.TAKE_TURN, (15.6, 18.0))
    assert not verdict.passed
    assert verdict.value is None
    assert "did not begin to speak in the window" in verdict.why


@pytest.mark.parametrize(
    ("agent", "passes"),
    [
        (((13.5, 14.4),), True),
        (((13.5, 14.499),), True),
        (((13.5, 14.5),), False),
        (((13.5, 13.9), (14.5, 14.9)), False),
        (((13.5, 13.9), (14.1, 14.4)), True),
        (((12.5, 13.5),), False),
        (((15.6, 16.0),), False),
    ],
)
def test_backchannel_is_one_short_utterance(agent: tuple[tuple[float, float], ...], passes: bool) -> None:
    assert _judge(Action.BACKCHANNEL, *agent).passed == passes


def test_two_backchannels_pass_where_two_are_allowed() -> None:
    two = _with(bc_window_max={"default": 2})
    assert _judge(Action.BACKCHANNEL, (13.5, 13.9), (14.5, 14.9), thresholds=two).passed


def test_a_short_word_after_which_the_user_does_not_go_on_is_no_backchannel() -> None:
    verdict = _judge(Action.BACKCHANNEL, (18.5, 19.0), window=Span(8.0, 18.0))
    assert not verdict.passed
    assert verdict.label is Label.FLOOR_TAKE
    assert "the user did not go on" in verdict.why


def test_the_role_table_has_shorter_backchannels_and_a_calmer_yield() -> None:
    raw = yaml.safe_load((CONF_DIR / "thresholds" / "paper.yaml").read_text())
    over = yaml.safe_load((CONF_DIR / "thresholds" / "role_table.yaml").read_text())
    over.pop("defaults")
    merged = {k: {**v, **over.get(k, {})} if isinstance(v, dict) else over.get(k, v) for k, v in raw.items()}
    table = Thresholds.from_mapping(merged)
    assert _judge(Action.BACKCHANNEL, (13.5, 14.05), role="R1", thresholds=table).passed
    assert not _judge(Action.BACKCHANNEL, (13.5, 14.05), role="R3", thresholds=table).passed
    assert not _judge(Action.YIELD, (12.0, 13.9), role="R4").passed
    assert _judge(Action.YIELD, (12.0, 13.9), role="R4", thresholds=table).passed
    assert not _judge(Action.YIELD, (12.0, 13.9), role="R5", thresholds=table).passed


@pytest.mark.parametrize(("end_s", "yielded"), [(13.6, True), (13.601, False), (13.2, True), (40.0, False)])
def test_yield_and_continue_are_each_others_opposite_for_an_agent_that_speaks(end_s: float, yielded: bool) -> None:
    assert _judge(Action.YIELD, (12.0, end_s)).passed == yielded
    assert _judge(Action.CONTINUE, (12.0, end_s)).passed == (not yielded)


def test_speech_to_the_end_of_the_file_has_not_yielded() -> None:
    verdict = _judge(Action.YIELD, (12.0, 40.0))
    assert not verdict.passed
    assert "spoke to the end of the recording" in verdict.why


@pytest.mark.parametrize(("start_s", "passes"), [(12.9, True), (13.0, False)])
def test_accept_overlap_needs_both_to_speak_in_the_window(start_s: float, passes: bool) -> None:
    assert _judge(Action.ACCEPT_OVERLAP, (start_s, 14.0), window=Span(0.0, 3.0)).passed == passes


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        ("five five five, oh one four two, metoprolol at nine.", True),
        ("Metoprolol, nine, and your number is 555-0142!", True),
        ("555-0143 metoprolol nine", False),
        ("", False),
    ],
)
def test_readback_counts_tokens(said: str, passes: bool) -> None:
    transcript = Transcript("native", (TextPiece(480_000, said),))
    target = ("five five five zero one four two", "metoprolol nine")
    assert _judge(Action.READBACK, (20, 25), readback=target, transcript=transcript).passed == passes


def test_nine_of_ten_tokens_are_enough_and_eight_are_not() -> None:
    target = ("a b c d e f g h i j",)
    nine, eight = (
        Transcript("native", (TextPiece(480_000, text),)) for text in ("a b c d e f g h i", "a b c d e f g h")
    )
    assert _judge(Action.READBACK, readback=target, transcript=nine).passed
    assert not _judge(Action.READBACK, readback=target, transcript=eight).passed


def test_a_speaking_agent_without_a_transcript_cannot_be_scored_on_readback_and_a_silent_one_fails() -> None:
    case = _case(Action.READBACK, readback=("five",))
    recording = a_recording(case, transcript=Transcript("none"))
    spoke = judge_case(case, measure(case, recording, heard((20, 22))), PAPER)
    assert isinstance(spoke, Unscored)
    assert spoke.reason is Reason.NO_TRANSCRIPT
    silent = judge_case(case, measure(case, recording, heard()), PAPER)
    assert isinstance(silent, Verdict)
    assert (silent.passed, silent.value) == (False, 0.0)


def test_what_is_unscored_stays_unscored() -> None:
    lost = Unscored(Reason.AGENT_ERROR, "socket closed")
    assert judge_case(_case(Action.LISTEN), lost, PAPER) is lost


@pytest.mark.parametrize(
    ("onset_s", "borderline"), [(1.941, True), (1.939, False), (2.059, True), (2.061, False), (0.5, False)]
)
def test_verdicts_near_their_limit_are_marked_and_count(onset_s: float, borderline: bool) -> None:
    verdict = _judge(Action.TAKE_TURN, (W0 + onset_s, 20.0))
    assert verdict.borderline == borderline
    assert verdict.passed == (onset_s <= 2.0)


def test_the_cases_own_limits_outrank_the_configurations() -> None:
    assert not _judge(Action.TAKE_TURN, (14.0, 15.0), verifier_params={"max_wait_s": 0.9}).passed
    assert _judge(Action.INTERRUPT, (15.4, 17.0), verifier_params={"max_latency_ms": 2500}).passed
    assert _judge(Action.YIELD, (12.0, 14.9), verifier_params={"max_latency_ms": 2000}).passed


def test_rescoring_stored_measurements_equals_measuring_again() -> None:
    agents = [(), ((12.0, 13.4),), ((13.6, 14.2),), ((14.6, 20.0),), ((13.9, 14.2), (14.6, 15.1)), ((0.0, 40.0),)]
    for action in Action:
        case = _case(action, readback=("five",), level=Level.L2)
        for agent in agents:
            stored = measure(case, a_recording(case), heard(*agent))
            assert isinstance(stored, Measurement)
            for wait_s in (1.5, 2.0, 2.5):
                for latency_ms in (200, 600, 1500):
                    limits = _with(
                        max_wait_s={"default": wait_s},
                        yield_latency_ms={"default": latency_ms},
                        bc_ceiling_s={"default": wait_s / 3},
                    )
                    again = measure(case, a_recording(case), heard(*agent))
                    assert judge_case(case, stored, limits) == judge_case(case, again, limits)


@pytest.mark.parametrize(
    ("agent", "passes", "borderline"),
    [
        ((10.0, 12.93), True, False),
        ((10.0, 12.95), True, True),
        ((10.0, 13.05), False, True),
        ((10.0, 13.07), False, False),
        ((15.45, 17.0), False, True),
        ((15.55, 17.0), True, True),
        ((15.57, 17.0), True, False),
    ],
)
def test_a_window_that_was_narrowly_silent_or_narrowly_not_is_borderline(
    agent: tuple[float, float], passes: bool, borderline: bool
) -> None:
    verdict = _judge(Action.LISTEN, agent)
    assert (verdict.passed, verdict.borderline) == (passes, borderline)


def test_where_only_onsets_count_only_an_onset_is_narrow() -> None:
    onset_only = _with(listen_rule="onset_only")
    assert not _judge(Action.LISTEN, (10.0, 13.5), thresholds=onset_only).borderline
    assert _judge(Action.LISTEN, (12.95, 13.5), thresholds=onset_only).borderline
    assert _judge(Action.LISTEN, (15.51, 16.5), thresholds=onset_only).borderline


@pytest.mark.parametrize(
    ("action", "agent", "why"),
    [
        (Action.LISTEN, (), "the agent was silent in the window"),
        (Action.LISTEN, ((13.5, 14.0),), "the agent spoke for 0.50 s of the window; wanted silence"),
        (
            Action.TAKE_TURN,
            ((14.84, 19.0),),
            "the agent began 1.84 s after the window opened; at most 2.00 s were allowed",
        ),
        (
            Action.TAKE_TURN,
            ((12.0, 19.0),),
            "the agent did not begin to speak in the window (it already held the floor); at most 2.00 s were allowed",
        ),
        (Action.BACKCHANNEL, (), "the agent said nothing; wanted 1, shorter than 1.00 s"),
        (
            Action.BACKCHANNEL,
            ((12.0, 19.0),),
            "the agent began nothing in the window (it already held the floor); wanted 1, shorter than 1.00 s",
        ),
        (
            Action.BACKCHANNEL,
            ((13.5, 13.8), (14.5, 15.2)),
            "the agent said 2 utterance(s), the longest 0.70 s; wanted 1, shorter than 1.00 s",
        ),
        (
            Action.YIELD,
            ((12.0, 13.25),),
            "the agent fell silent 0.25 s after the user came in; yielding means within 0.60 s",
        ),
        (
            Action.CONTINUE,
            ((12.0, 40.0),),
            "the agent spoke to the end of the recording; yielding means within 0.60 s",
        ),
        (
            Action.YIELD,
            (),
            "the agent did not speak after the user came in (it was silent when the user came in); "
            "yielding means within 0.60 s",
        ),
    ],
)
def test_the_reason_is_a_sentence_that_a_reviewer_understands(
    action: Action, agent: tuple[tuple[float, float], ...], why: str
) -> None:
    assert _judge(action, *agent).why == why


def test_the_reason_of_a_pass_by_the_other_reading_names_the_rule() -> None:
    verdict = _judge(Action.LISTEN, (10.0, 14.0), thresholds=_with(listen_rule="onset_only"))
    assert verdict.why == (
        "no speech began in the window; 1.00 s of what began earlier ran into it, which the rule allows"
    )
