"""The user's side of an episode, as a pure state machine over samples.

The user stream never stops, rewinds or gives way: turn 1, then silence, then turn 2, then silence until the session
ends. What varies is when turn 2 begins:

* *take-turn*: ``gap_s`` after turn 1's last sample;
* *barge-in*: ``barge_in_after_s`` after the agent's onset, silence being sent meanwhile; an agent that does not speak
  within ``onset_timeout_s`` of turn 1's end gets turn 2 all the same, and the recording says so.

Source: DSB-IFEval, the orchestrator; the time-out is ours, since the paper is silent on agents that never speak.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dsbif.session.clock import to_samples
from dsbif.session.pcm import Pcm

TurnStart = Literal["take-turn", "barge-in", "onset-timeout", "not-reached"]


@dataclass(frozen=True, slots=True)
class Pacing:
    """How long the user's side is silent, in seconds. Data of the model's configuration, never of its code."""

    gap_s: float = 3.0
    trailing_s: float = 5.0
    onset_timeout_s: float = 8.0


class UserSide:
    """Sends the two turns of one case, sample by sample.

    Args:
        turn1: mono float32 at 24 kHz.
        turn2: the same.
        turn1_speech_end_samples: end of turn 1's last speech; an agent onset counts from there on.
        barge_in_after_s: None for a turn taken in order.
        pacing: the silences.
    """

    def __init__(
        self, turn1: Pcm, turn2: Pcm, turn1_speech_end_samples: int, barge_in_after_s: float | None, pacing: Pacing
    ) -> None:
        self._turns = (turn1, turn2)
        self._barge_in = None if barge_in_after_s is None else to_samples(barge_in_after_s)
        self._timeout = len(turn1) + to_samples(pacing.onset_timeout_s)
        self._trailing = to_samples(pacing.trailing_s)
        self.onset_counts_from = turn1_speech_end_samples
        self.position = 0
        self.turn2_onset: int | None = None
        self.turn2_by: TurnStart = "not-reached"
        if self._barge_in is None:
            self.turn2_onset = len(turn1) + to_samples(pacing.gap_s)
            self.turn2_by = "take-turn"

    @property
    def awaits_onset(self) -> bool:
        """Whether turn 2 still depends on when the agent begins to speak."""
        return self.turn2_onset is None

    @property
    def ends_at(self) -> int | None:
        """The session's last sample, once turn 2 has a place."""
        if self.turn2_onset is None:
            return None
        return self.turn2_onset + len(self._turns[1]) + self._trailing

    @property
    def done(self) -> bool:
        """Whether everything, the trailing silence included, has been sent."""
        return self.ends_at is not None and self.position >= self.ends_at

    def agent_began(self, onset: int) -> None:
        """Tell the user's side that the agent began to speak at sample ``onset``; the first call counts."""
        if self.turn2_onset is None and self._barge_in is not None:
            # The past cannot be injected into: an onset learnt late moves turn 2 to the next sample at the earliest.
            self.turn2_onset = max(onset + self._barge_in, self.position)
            self.turn2_by = "barge-in"

    def next(self, samples: int) -> Pcm:
        """The next ``samples`` samples of the user's channel, float32 [samples]."""
        if self.turn2_onset is None and self.position >= self._timeout:
            self.turn2_onset = self.position
            self.turn2_by = "onset-timeout"
        out = np.zeros(samples, np.float32)
        self._copy(out, self._turns[0], 0)
        if self.turn2_onset is not None:
            self._copy(out, self._turns[1], self.turn2_onset)
        self.position += samples
        return out

    def _copy(self, out: Pcm, turn: Pcm, onset: int) -> None:
        start = max(self.position, onset)
        stop = min(self.position + len(out), onset + len(turn))
        if start < stop:
            out[start - self.position : stop - self.position] = turn[start - onset : stop - onset]
