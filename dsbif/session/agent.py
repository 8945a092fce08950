"""How an agent lives in time, as protocols. Adapters implement one; the driver knows nothing else about them.

Audio is mono float32 in [-1, 1] at 24 kHz on both sides of the seam; an adapter whose model runs at another rate
resamples inside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from dsbif.bench.case import Case
from dsbif.session.recording import Conditioning
from dsbif.session.user import Pacing, Pcm


@dataclass(frozen=True, slots=True)
class AgentAudio:
    """Speech, or whatever else the agent put on its channel: float32 [n]."""

    pcm: Pcm


@dataclass(frozen=True, slots=True)
class AgentText:
    """A piece of what the agent says, in its own words."""

    text: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The agent stopped its own speech; ``kind`` is its word for why."""

    kind: str


Emission = AgentAudio | AgentText | Interrupted


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What a reader of results must know about an agent.

    ``conditioning``: whether the system prompt reaches the model at all.
    ``transcript``: ``native`` where the agent reports its own words, else ``none``.
    """

    name: str
    conditioning: Conditioning
    transcript: Literal["native", "none"]
    versions: Mapping[str, str] = field(default_factory=dict)


class LockstepAgent(Protocol):
    """Frames in, frames out, for ``rows`` independent sessions at once.

    Rows start and stop at any frame. ``start`` must leave nothing of an earlier case: no history, cache or
    turn-detector state. ``step`` is called with every row's frame, float32 [rows, frame_samples]; rows that run no
    case carry zeros, are False in ``active`` and get no emissions. A fault of one row is an ``AgentError``; with
    its attribute ``row`` set, only that row's case fails.
    """

    facts: AgentFacts
    rows: int
    frame_samples: int

    def start(self, row: int, prompt: str, seed: int) -> None:
        """Begin a new case in a row with fresh state."""

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        """Hear one frame of every row and say what each row emits now."""

    def stop(self, row: int) -> None:
        """End the row's case; harmless where none runs."""

    def close(self) -> None:
        """Give everything back; may be called twice."""


@runtime_checkable
class Privileged(Protocol):
    """A reference agent that is shown the case. No system under test may implement this."""

    def reveal(self, row: int, case: Case, turn1_samples: int, pacing: Pacing) -> None:
        """Show the case that the next ``start`` of this row begins."""


class OnsetWatch(Protocol):
    """A streaming detector of the agent's speech onset, for barge-ins.

    ``name`` and ``settings`` go into the recording. ``push`` takes the agent's channel as it is played and returns the
    first onset at or after ``counts_from`` together with the sample at which it was noticed, or None.
    """

    name: str
    settings: Mapping[str, float]

    def push(self, pcm: Pcm) -> tuple[int, int] | None:
        """Hear the next samples of the agent's channel, float32 [n]."""
