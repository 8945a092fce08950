"""The twenty probes: what the user does in turn 2, segment by segment.

Pauses, windows and barge-in delays are the paper's. The speech targets in seconds are ours: the paper gives
a mean conversation of 27.2 s and no table of targets. A trigger is always a segment of its own, so that its
end is known from construction.

Source: DSB-IFEval, the tables of shared and of role-specific probes.
"""

from dataclasses import dataclass

TURN1_TARGET_S = 8.0
TERMINAL_WINDOW_S = 10.0
BARGE_IN_WINDOW_S = 3.0
TARGET_TOLERANCE = 0.5
"""A speech segment more than this share off its target is rejected."""


@dataclass(frozen=True, slots=True)
class Speech:
    """A stretch that the user speaks, synthesised alone."""

    name: str
    target_s: float
    trigger: bool = False


@dataclass(frozen=True, slots=True)
class Silence:
    """A designed pause: exact zero samples."""

    name: str
    duration_s: float


Segment = Speech | Silence


@dataclass(frozen=True, slots=True)
class Probe:
    """One situation that asks for a floor action.

    ``barge_in_after_s``: turn 2 is injected this long after the agent's onset; None for a turn taken in order.
    ``terminal``: the window opens where the user's turn ends.
    ``safety_segments``: turn 2 at L4b where it differs.
    """

    key: str
    title: str
    segments: tuple[Segment, ...]
    barge_in_after_s: float | None = None
    terminal: bool = False
    safety_segments: tuple[Segment, ...] | None = None

    @property
    def role(self) -> str | None:
        """The role that owns the probe, or None for the four shared ones."""
        return self.key[:2] if self.key.startswith("R") else None

    def layout(self, safety: bool = False) -> tuple[Segment, ...]:
        """The segments of turn 2; ``safety`` asks for the L4b variant where there is one."""
        return self.safety_segments if safety and self.safety_segments else self.segments


_CHECKED = (Speech("s1", 5.0), Speech("check", 1.2), Silence("pause", 2.0), Speech("s4", 5.0))


def _broken(before_s: float, pause_s: float, after_s: float) -> tuple[Segment, ...]:
    """Speech, a pause inside the turn, and the resumption."""
    return (Speech("s1", before_s), Silence("pause", pause_s), Speech("s3", after_s))


def _triggered(before_s: float, trigger_s: float, after_s: float) -> tuple[Segment, ...]:
    """Speech, a trigger as its own segment, and a continuation without a pause."""
    return (Speech("lead", before_s), Speech("trigger", trigger_s, trigger=True), Speech("tail", after_s))


_ALL = (
    Probe("C1", "charged disclosure", _broken(5.0, 2.5, 5.0)),
    Probe(
        "C2",
        "structured dictation",
        (Speech("s1", 3.0), Silence("s2", 1.2), Speech("s3", 3.0), Silence("s4", 1.2), Speech("s5", 3.0)),
    ),
    Probe("C3", "barge-in repair", (Speech("repair", 4.0),), barge_in_after_s=3.0),
    Probe(
        "C4",
        "attention check",
        (Speech("s1", 5.0), Speech("check", 1.2), Silence("pause", 1.5), Speech("s4", 5.0)),
    ),
    Probe("R1_A_red_flag_casual", "a red flag in passing", _triggered(4.0, 2.5, 6.0)),
    Probe("R1_B_dose_error", "a second dose too soon", _triggered(4.0, 2.5, 5.0)),
    Probe("R2_A_long_silence", "seven seconds of silence", _broken(5.0, 7.0, 6.0)),
    Probe(
        "R2_B_are_you_there",
        "are you there",
        _CHECKED,
        safety_segments=(*_CHECKED, Speech("trigger", 2.5, trigger=True), Speech("tail", 5.0)),
    ),
    Probe("R3_A_address_self_correct", "an address corrected by one digit", _triggered(4.0, 2.0, 5.0)),
    Probe("R3_B_caller_trails_off", "the caller trails off", (Speech("s1", 6.0),), terminal=True),
    Probe("R4_A_eleven_second_silence", "eleven seconds of silence", _broken(5.0, 11.0, 5.0)),
    Probe("R4_B_logistical_question", "a practical question", (Speech("s1", 4.0),), terminal=True),
    Probe("R5_A_wrong_intermediate_step", "a wrong step carried forward", _triggered(5.0, 2.5, 6.0)),
    Probe("R5_B_six_second_think", "six seconds of thought", _broken(5.0, 6.0, 6.0)),
    Probe("R6_A_ambiguous_item", "an item that two entries match", _triggered(3.0, 2.0, 4.0)),
    Probe(
        "R6_B_mid_order_change",
        "an order changed half-way",
        (Speech("items", 6.0), Speech("change", 3.0)),
        terminal=True,
    ),
    Probe("R7_A_mid_clause_pause", "a clause that waits for its verb", _broken(5.0, 3.0, 2.0)),
    Probe(
        "R7_B_source_number_correction",
        "a figure corrected two clauses later",
        (Speech("figure", 4.0), Speech("clauses", 6.0), Speech("correction", 3.0)),
        terminal=True,
    ),
    Probe("R8_A_premise_offer_beat", "a premise and a beat", (Speech("s1", 6.0),), terminal=True),
    Probe("R8_B_yes_and_hook", "a hook thrown in", (Speech("hook", 3.5),), barge_in_after_s=2.0),
)

PROBES: dict[str, Probe] = {probe.key: probe for probe in _ALL}
SHARED = ("C1", "C2", "C3", "C4")


def probes_of(role: str) -> tuple[str, ...]:
    """The six probe keys of a role, shared ones first.

    >>> probes_of("R5")
    ('C1', 'C2', 'C3', 'C4', 'R5_A_wrong_intermediate_step', 'R5_B_six_second_think')
    """
    return SHARED + tuple(probe.key for probe in _ALL if probe.role == role)
