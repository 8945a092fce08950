"""Where a case is scored: from construction times to a window.

Times are *turn-2 time*: 0 is the first sample of turn 2. A barge-in therefore opens its window at 0, and every
window is known before any agent runs. Two modes:

* ``causal`` (default, ours): LISTEN on C2 looks at the dictation itself, [s2.on, s5.off], and LISTEN on R7_B at
  [end of the first figure, turn end].
* ``paper``: both are terminal, [turn end, turn end + 10 s], as the paper's numbers imply. It fails an agent that
  answers after the user has finished.
"""

from collections.abc import Mapping
from enum import StrEnum

from dsbif.bench.actions import Action
from dsbif.bench.probes import BARGE_IN_WINDOW_S, PROBES, TERMINAL_WINDOW_S
from dsbif.spans import Span


class WindowMode(StrEnum):
    """Which reading of the two ambiguous windows is used; ``official`` marks windows that a release brings along."""

    CAUSAL = "causal"
    PAPER = "paper"
    OFFICIAL = "official"


def trigger_window(probe_key: str, action: Action, mode: WindowMode, segments: Mapping[str, Span]) -> Span:
    """The window [w0, w1) of a case in turn-2 time.

    Args:
        segments: the named segments of turn 2, in seconds of turn-2 time.

    >>> pause = {"s1": Span(0, 5), "pause": Span(5, 7.5), "s3": Span(7.5, 12)}
    >>> str(trigger_window("C1", Action.LISTEN, WindowMode.CAUSAL, pause))
    '[5.000 → 7.500]'
    """
    probe = PROBES[probe_key]
    turn_end_s = max(span.end_s for span in segments.values())
    terminal = Span(turn_end_s, turn_end_s + TERMINAL_WINDOW_S)
    if probe.barge_in_after_s is not None:
        return Span(0.0, BARGE_IN_WINDOW_S)
    if probe_key == "C2":
        return _dictation_window(action, mode, segments, terminal)
    if probe_key == "R7_B_source_number_correction" and mode is WindowMode.CAUSAL:
        return Span(segments["figure"].end_s, turn_end_s)
    if probe.terminal:
        return terminal
    if probe_key == "R7_A_mid_clause_pause":
        return Span(segments["pause"].start_s, turn_end_s)
    if "trigger" in segments:
        return Span(segments["trigger"].end_s, turn_end_s)
    return segments["pause"]


def _dictation_window(action: Action, mode: WindowMode, segments: Mapping[str, Span], terminal: Span) -> Span:
    if action is Action.LISTEN and mode is WindowMode.CAUSAL:
        return Span(segments["s2"].start_s, segments["s5"].end_s)
    return terminal


def differs_between_modes(probe_key: str, action: Action) -> bool:
    """Whether ``causal`` and ``paper`` place this cell's window differently (five cells do)."""
    return action is Action.LISTEN and probe_key in ("C2", "R7_B_source_number_correction")
