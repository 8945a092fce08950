"""A case: everything that one line of the manifest says.

Times are turn-2 time (0 = first sample of turn 2) and turn-1 time (0 = first sample of the session). Session times
follow in the recording, which knows when turn 2 began.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsbif.bench.actions import Action
from dsbif.bench.levels import Conflict, Level
from dsbif.bench.probes import PROBES
from dsbif.bench.windows import WindowMode
from dsbif.spans import Span


@dataclass(frozen=True, slots=True)
class TimedSegment:
    """One segment of a turn as it was built: ``kind`` is ``speech`` or ``silence``; times in turn time."""

    name: str
    kind: str
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class UserTurn:
    """One turn of the user: a 24 kHz mono WAV (path relative to the corpus) and what is in it."""

    audio: str
    sha256: str
    samples: int
    segments: tuple[TimedSegment, ...]

    @property
    def speech(self) -> tuple[Span, ...]:
        """Where the user speaks, in turn time, from construction."""
        return tuple(segment.span for segment in self.segments if segment.kind == "speech")

    @property
    def end_s(self) -> float:
        """End of the last speech segment in turn time."""
        return max(span.end_s for span in self.speech)

    @property
    def text(self) -> str:
        """The words of the turn, pauses left out."""
        return " ".join(segment.text for segment in self.segments if segment.kind == "speech")


@dataclass(frozen=True, slots=True)
class Case:
    """One test case.

    ``window`` is in turn-2 time; ``readback`` lists the dictated tokens chunk by chunk; ``verifier_params`` are
    thresholds that the data itself carries (official releases) and that outrank the configuration's.
    """

    test_case_id: str
    conversation_id: str
    role: str
    role_name: str
    probe: str
    instance: int
    level: Level
    expected_action: Action
    l4_expected: Conflict | None
    system_prompt: str
    voice: str
    turn1: UserTurn
    turn2: UserTurn
    barge_in_after_s: float | None
    window: Span
    window_mode: WindowMode
    readback: tuple[str, ...] = ()
    verifier_params: Mapping[str, float] = field(default_factory=dict)

    @property
    def terminal(self) -> bool:
        """Whether the window opens at the end of the user's turn."""
        return self.window.start_s >= self.turn2.end_s

    @property
    def probe_title(self) -> str:
        """The probe in words, for people."""
        return PROBES[self.probe].title
