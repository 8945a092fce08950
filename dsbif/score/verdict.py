"""The nine verifiers, one under another, as in the paper's table.

Conventions
-----------
* Comparisons are <= and >= as written, on unrounded seconds.
* The label of a window is derived here, since it depends on thresholds: ``silent``, ``backchannel``, ``floor_take``.
* A verdict within 60 ms of its limit is *borderline*: the detector's grid is 32 ms. It is marked, and it counts. For
  LISTEN and NO_BACKCHANNEL that is at most 60 ms of speech in the window, or none but some within 60 ms of its ends.
* An agent that never speaks passes LISTEN, NO_BACKCHANNEL and CONTINUE and fails the other six.

Divergences from the paper
--------------------------
1. ``listen_rule=in_window`` reads "silent" as no speech in the window at all; the paper words it also as no speech that
   *begins* in it (``onset_only``). Stricter: an agent that talks through the window fails LISTEN.
2. ``backchannel`` needs every utterance begun in the window to be shorter than the ceiling, where the paper speaks of
   one. Stricter for agents that say two things.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from dsbif.bench.actions import Action
from dsbif.bench.case import Case
from dsbif.score.measure import Measurement, Reason, Unscored
from dsbif.score.thresholds import CaseThresholds, ListenRule, Thresholds
from dsbif.spans import Span, clip, starting_in


class Label(StrEnum):
    """What the agent did in the window."""

    SILENT = "silent"
    BACKCHANNEL = "backchannel"
    FLOOR_TAKE = "floor_take"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Pass or fail, with the figure that decided it.

    ``value`` is None where there was nothing to measure (no onset, no offset). ``unit``: ``s``, ``share`` or ``count``.
    """

    passed: bool
    value: float | None
    limit: float
    unit: str
    why: str
    label: Label
    borderline: bool = False


def judge_case(case: Case, measured: Measurement | Unscored, thresholds: Thresholds) -> Verdict | Unscored:
    """The verdict of a case; what could not be measured stays unscored."""
    if isinstance(measured, Unscored):
        return measured
    return VERIFIERS[case.expected_action](measured, thresholds.for_case(case))


def label_of(m: Measurement, t: CaseThresholds) -> Label:
    """What the agent did in the window, by the thresholds."""
    quiet = not m.begun and (t.listen_rule is ListenRule.ONSET_ONLY or m.speech_in_window_s == 0)
    if quiet:
        return Label.SILENT
    short = bool(m.begun) and all(item.duration_s < t.bc_ceiling_s for item in m.begun)
    return Label.BACKCHANNEL if short and m.user_resumes_s is not None else Label.FLOOR_TAKE


def listen(m: Measurement, t: CaseThresholds) -> Verdict:
    """LISTEN: the window is silent."""
    return _silence(m, t)


def no_backchannel(m: Measurement, t: CaseThresholds) -> Verdict:
    """NO_BACKCHANNEL: the window is silent, short acknowledgements included."""
    return _silence(m, t)


def take_turn(m: Measurement, t: CaseThresholds) -> Verdict:
    """TAKE_TURN: the agent begins to speak within the maximum wait."""
    return _onset(m, t, t.max_wait_s)


def backchannel(m: Measurement, t: CaseThresholds) -> Verdict:
    """BACKCHANNEL: one short utterance in the window, and the user goes on."""
    label = label_of(m, t)
    longest_s = max((item.duration_s for item in m.begun), default=None)
    passed = label is Label.BACKCHANNEL and 1 <= len(m.begun) <= t.bc_window_max
    if longest_s is None:
        said = "said nothing" if not m.speech_in_window_s else "began nothing in the window (it already held the floor)"
    else:
        said = f"said {len(m.begun)} utterance(s), the longest {longest_s:.2f} s"
    wanted = "1" if t.bc_window_max == 1 else f"1 to {t.bc_window_max:g}"
    why = f"the agent {said}; wanted {wanted}, shorter than {t.bc_ceiling_s:.2f} s"
    if longest_s is not None and m.user_resumes_s is None:
        why += "; and the user did not go on"
    return Verdict(passed, longest_s, t.bc_ceiling_s, "s", why, label, _near(longest_s, t.bc_ceiling_s, t))


def interrupt(m: Measurement, t: CaseThresholds) -> Verdict:
    """INTERRUPT: the agent begins to speak within the latency, while the user goes on."""
    return _onset(m, t, t.interrupt_latency_s)


def read_back(m: Measurement, t: CaseThresholds) -> Verdict | Unscored:
    """READBACK: the transcript covers the dictated tokens."""
    if m.readback is None:
        return Unscored(Reason.NO_TRANSCRIPT, "the case has no dictation to compare with")
    if m.transcript_source == "none" and m.agent_spans:
        return Unscored(
            Reason.NO_TRANSCRIPT, "the agent spoke and gives no transcript of its own; transcript=whisper makes one"
        )
    coverage = m.readback.coverage
    missing = f"; missing: {' '.join(m.readback.missing)}" if m.readback.missing else ""
    heard_by = f", as heard by {m.readback.engine}" if m.readback.engine else ""
    why = f"{m.readback.matched} of {m.readback.wanted} dictated tokens were read back{heard_by}{missing}"
    return Verdict(coverage >= t.coverage, coverage, t.coverage, "share", why, label_of(m, t))


def yield_floor(m: Measurement, t: CaseThresholds) -> Verdict:
    """YIELD: the agent falls silent within the latency."""
    passed = m.offset_s is not None and m.offset_s <= t.yield_latency_s
    return _offset(m, t, passed)


def continue_floor(m: Measurement, t: CaseThresholds) -> Verdict:
    """CONTINUE: the agent has not yielded."""
    yielded = m.offset_s is not None and m.offset_s <= t.yield_latency_s
    return _offset(m, t, not yielded)


def accept_overlap(m: Measurement, t: CaseThresholds) -> Verdict:
    """ACCEPT_OVERLAP: agent and user speak at once in the window."""
    why = f"agent and user spoke at once for {m.overlap_s:.2f} s of the window; wanted more than {t.overlap_s:.2f} s"
    near = m.overlap_s > 0 and _near(m.overlap_s, t.overlap_s, t)
    return Verdict(m.overlap_s > t.overlap_s, m.overlap_s, t.overlap_s, "s", why, label_of(m, t), near)


VERIFIERS: Mapping[Action, Callable[[Measurement, CaseThresholds], Verdict | Unscored]] = {
    Action.LISTEN: listen,
    Action.NO_BACKCHANNEL: no_backchannel,
    Action.TAKE_TURN: take_turn,
    Action.BACKCHANNEL: backchannel,
    Action.INTERRUPT: interrupt,
    Action.READBACK: read_back,
    Action.YIELD: yield_floor,
    Action.CONTINUE: continue_floor,
    Action.ACCEPT_OVERLAP: accept_overlap,
}


def _silence(m: Measurement, t: CaseThresholds) -> Verdict:
    label = label_of(m, t)
    passed = label is Label.SILENT
    spoke_s = m.speech_in_window_s
    if not spoke_s:
        why = "the agent was silent in the window"
    elif passed:
        why = f"no speech began in the window; {spoke_s:.2f} s of what began earlier ran into it, which the rule allows"
    else:
        why = f"the agent spoke for {spoke_s:.2f} s of the window; wanted silence"
    near = _narrowly_silent(m, t) if passed else _near(spoke_s, 0.0, t)
    return Verdict(passed, spoke_s, 0.0, "s", why, label, near)


def _narrowly_silent(m: Measurement, t: CaseThresholds) -> bool:
    """Whether a window wider by the margin at both ends would not be silent."""
    wider = Span(m.w0_s - t.borderline_s, m.w1_s + t.borderline_s)
    if t.listen_rule is ListenRule.ONSET_ONLY:
        return bool(starting_in(m.agent_spans, wider))
    return bool(clip(m.agent_spans, wider))


def _onset(m: Measurement, t: CaseThresholds, limit_s: float) -> Verdict:
    passed = m.genuine_s is not None and m.genuine_s <= limit_s
    if m.genuine_s is None:
        held = "" if m.agent_silent_at_w0 else " (it already held the floor)"
        why = f"the agent did not begin to speak in the window{held}; at most {limit_s:.2f} s were allowed"
    else:
        why = f"the agent began {m.genuine_s:.2f} s after the window opened; at most {limit_s:.2f} s were allowed"
    return Verdict(passed, m.genuine_s, limit_s, "s", why, label_of(m, t), _near(m.genuine_s, limit_s, t))


def _offset(m: Measurement, t: CaseThresholds, passed: bool) -> Verdict:
    limit_s = t.yield_latency_s
    if m.offset_s is not None:
        stopped = f"the agent fell silent {m.offset_s:.2f} s after the user came in"
    elif m.censored:
        stopped = "the agent spoke to the end of the recording"
    else:
        stopped = "the agent did not speak after the user came in"
    silent = " (it was silent when the user came in)" if m.agent_silent_at_w0 else ""
    why = f"{stopped}{silent}; yielding means within {limit_s:.2f} s"
    return Verdict(passed, m.offset_s, limit_s, "s", why, label_of(m, t), _near(m.offset_s, limit_s, t))


def _near(value: float | None, limit: float, t: CaseThresholds) -> bool:
    return value is not None and abs(value - limit) <= t.borderline_s
