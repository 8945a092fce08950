"""The user's side of an episode, as a pure state machine over samples.

The user stream never stops, rewinds or gives way: turn 1, then silence, then turn 2, then silence until the session
ends. What varies is when turn 2 begins and when the session ends:

* *take-turn*: ``gap_s`` after turn 1's last sample; or, where ``answer_timeout_s`` is set, ``gap_s`` after the agent
  reported its answer complete, waiting for that no longer than the time-out;
* *barge-in*: ``barge_in_after_s`` after the agent's onset, silence being sent meanwhile; an agent that does not speak
  within ``onset_timeout_s`` of turn 1's end gets turn 2 all the same, and the recording says so;
* the end: ``trailing_s`` after turn 2; where ``final_timeout_s`` is set, the agent's report of completion is then
  waited for, no longer than that; ``flush_s`` follows in either case.

Source: DSB-IFEval, the orchestrator; the onset time-out is ours, since the paper is silent on agents that never speak.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dsbif.session.clock import to_samples
from dsbif.session.pcm import Pcm

TurnStart = Literal["take-turn", "barge-in", "onset-timeout", "not-reached"]


@dataclass(frozen=True, slots=True)
class Pacing:
    """How long the user's side is silent, in seconds. Data of the model's configuration, never of its code.

    The last three concern agents that report when an answer is complete; 0 means that nothing is waited for.
    """

    gap_s: float = 3.0
    trailing_s: float = 5.0
    onset_timeout_s: float = 8.0
    answer_timeout_s: float = 0.0
    final_timeout_s: float = 0.0
    flush_s: float = 0.0


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
        self._gap = to_samples(pacing.gap_s)
        patience_s = pacing.answer_timeout_s if self._barge_in is None else pacing.onset_timeout_s
        self._timeout = len(turn1) + to_samples(patience_s)
        self._trailing = to_samples(pacing.trailing_s)
        self._final_timeout = to_samples(pacing.final_timeout_s)
        self._flush = to_samples(pacing.flush_s)
        self._settled: int | None = None
        self.onset_counts_from = turn1_speech_end_samples
        self.position = 0
        self.turn2_onset: int | None = None
        self.turn2_by: TurnStart = "not-reached"
        if self._barge_in is None and not pacing.answer_timeout_s:
            self._begin_turn2(len(turn1) + self._gap, "take-turn")

    @property
    def awaits_onset(self) -> bool:
        """Whether turn 2 still depends on when the agent begins to speak."""
        return self.turn2_onset is None and self._barge_in is not None

    @property
    def turn_ends(self) -> tuple[int, ...]:
        """Samples at which a turn's last sample has been sent, as far as they are known."""
        first = len(self._turns[0])
        return (first,) if self.turn2_onset is None else (first, self.turn2_onset + len(self._turns[1]))

    @property
    def ends_at(self) -> int | None:
        """The session's last sample, once it is known."""
        if self.turn2_onset is None:
            return None
        tail = self.turn_ends[-1] + self._trailing
        if self._final_timeout and self._settled is None and self.position < tail + self._final_timeout:
            return None
        return max(tail, self._settled or tail + self._final_timeout) + self._flush

    @property
    def done(self) -> bool:
        """Whether everything, the trailing silence included, has been sent."""
        return self.ends_at is not None and self.position >= self.ends_at

    def agent_began(self, onset: int) -> None:
        """Tell the user's side that the agent began to speak at sample ``onset``; the first call counts."""
        if self.turn2_onset is None and self._barge_in is not None:
            # The past cannot be injected into: an onset learnt late moves turn 2 to the next sample at the earliest.
            self._begin_turn2(max(onset + self._barge_in, self.position), "barge-in")

    def agent_finished(self) -> None:
        """Tell the user's side that the agent reported its answer complete; counts once the turn has been sent."""
        if self.turn2_onset is None:
            if self._barge_in is None and self.position >= len(self._turns[0]):
                self._begin_turn2(self.position + self._gap, "take-turn")
        elif self._settled is None and self.position >= self.turn_ends[-1]:
            self._settled = self.position

    def next(self, samples: int) -> Pcm:
        """The next ``samples`` samples of the user's channel, float32 [samples]."""
        if self.turn2_onset is None and self.position >= self._timeout:
            if self._barge_in is None:
                self._begin_turn2(self.position + self._gap, "take-turn")
            else:
                self._begin_turn2(self.position, "onset-timeout")
        out = np.zeros(samples, np.float32)
        self._copy(out, self._turns[0], 0)
        if self.turn2_onset is not None:
            self._copy(out, self._turns[1], self.turn2_onset)
        self.position += samples
        return out

    def _begin_turn2(self, onset: int, by: TurnStart) -> None:
        self.turn2_onset = onset
        self.turn2_by = by

    def _copy(self, out: Pcm, turn: Pcm, onset: int) -> None:
        start = max(self.position, onset)
        stop = min(self.position + len(out), onset + len(turn))
        if start < stop:
            out[start - self.position : stop - self.position] = turn[start - onset : stop - onset]
