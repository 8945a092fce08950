"""How an agent lives in time, as three protocols. Adapters implement one; a driver knows nothing else about them.

* *lockstep*: frames in, frames out, many sessions as rows of one batch, as fast as the machine goes;
* *turn*: the whole input, then one reply;
* *live*: a connection on a wall clock.

Audio is mono float32 in [-1, 1] at 24 kHz on both sides of the seam; an adapter whose model runs at another rate
resamples inside. This module imports next to nothing, since adapters also run under other interpreters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from dsbif.bench.case import Case
    from dsbif.session.pcm import Pcm
    from dsbif.session.user import Pacing


Conditioning = Literal["full", "partial", "none"]
"""Whether the system prompt reaches the model: results carry it, since some systems cannot take a prompt."""


@dataclass(frozen=True, slots=True)
class AgentAudio:
    """Speech, or whatever else the agent put on its channel: float32 [n]."""

    pcm: Pcm


@dataclass(frozen=True, slots=True)
class AgentText:
    """A piece of what the agent says, in its own words."""

    text: str


@dataclass(frozen=True, slots=True)
class TurnDone:
    """The agent reported that its answer is complete; ``kind`` is its word for how it ended."""

    kind: str = "completed"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The agent stopped its own speech; ``kind`` is its word for why."""

    kind: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something that belongs into the case's record: the prompt as it went over the wire, words never heard."""

    name: str
    text: str


Emission = AgentAudio | AgentText | TurnDone | Interrupted | Note


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What a reader of results must know about an agent.

    ``conditioning``: whether the system prompt reaches the model at all.
    ``transcript``: ``native`` where the agent reports its own words, else ``none``.
    ``versions``: packages, checkpoints and modes, as they stand in the record.
    """

    name: str
    conditioning: Conditioning
    transcript: Literal["native", "none"]
    versions: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class LockstepAgent(Protocol):
    """Frames in, frames out, for ``rows`` independent sessions at once.

    Rows start and stop at any frame, unless ``equal_start`` is there and true: then the driver starts rows at the same
    frame only. ``start`` must leave nothing of an earlier case: no history, cache or turn-detector state. ``step`` is
    called with every row's frame, float32 [rows, frame_samples]; rows that run no case carry zeros, are False in
    ``active`` and get no emissions. A fault of one row is an ``AgentError``; with its attribute ``row`` set, only
    that row's case fails.
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


@dataclass(frozen=True, slots=True)
class Reply:
    """A turn agent's answer: float32 [n] at 24 kHz, its words, the seconds it took to make, and notes."""

    pcm: Pcm
    text: str
    compute_s: float
    notes: Sequence[Note] = ()


@runtime_checkable
class TurnAgent(Protocol):
    """The whole input, then one reply. It never speaks while the user's side is playing."""

    facts: AgentFacts

    def reply(self, prompt: str, user: Pcm, seed: int) -> Reply:
        """Answer the user's side, float32 [n]: both turns and the silence between them; an empty reply is a result.

        Raises:
            AgentError: it gave no reply. ``AgentLostError`` where it, or the way to it, has gone away.
        """

    def close(self) -> None:
        """Give everything back; may be called twice."""


class LiveSession(Protocol):
    """One conversation over a connection, from ready to closed."""

    async def send(self, pcm: Pcm) -> None:
        """Send the user's next samples, float32 [n], 20 ms at a time; never waits for an answer."""

    def emissions(self) -> AsyncIterator[Emission]:
        """What the agent emits, as soon as it arrives; ends where the connection was closed in good order.

        Raises:
            AgentError: the agent reported an error. ``AgentLostError`` where the connection broke.
        """

    async def close(self) -> None:
        """Hang up; may be called twice and while ``emissions`` is being read."""


@runtime_checkable
class EndPointed(Protocol):
    """A live session that must be told when the user's turn is over, since its agent does not listen for it."""

    async def user_finished(self) -> None:
        """The turn's last sample has been sent."""


@runtime_checkable
class LiveAgent(Protocol):
    """An agent on a wall clock, with any number of sessions at once."""

    facts: AgentFacts

    async def open(self, prompt: str, seed: int) -> LiveSession:
        """Connect, set the prompt and wait until the agent is ready: the session's clock starts when this returns.

        Raises:
            AgentBusyError: no session is free now; the driver waits and asks again.
            AgentError: it refused. ``AgentLostError`` where it cannot be reached.
        """

    async def close(self) -> None:
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
