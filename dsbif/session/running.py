"""One running case: the user's side, the tape, the watch for the agent's onset, and what becomes of them.

Drivers differ in where time comes from and how the agent is reached; what happens to a case does not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dsbif import __version__
from dsbif.bench.case import Case
from dsbif.bench.roles import stable_pick
from dsbif.errors import AgentError
from dsbif.session.agent import AgentAudio, AgentFacts, AgentText, Emission, Interrupted, Note, OnsetWatch, TurnDone
from dsbif.session.clock import to_samples
from dsbif.session.pcm import SAMPLE_RATE_HZ, Pcm
from dsbif.session.recording import Interruption, NoteTaken, Recording, TextPiece, Transcript
from dsbif.session.tape import Tape
from dsbif.session.user import Pacing, UserSide

BUSY_WAITS_S = (2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""The waits between attempts at an agent that has no session free, unless it names its own."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One case with its user audio: float32 mono at 24 kHz."""

    case: Case
    turn1: Pcm
    turn2: Pcm


@dataclass(frozen=True, slots=True)
class Take:
    """What came of an episode: the record and both channels, float32 [samples, 2]."""

    recording: Recording
    stereo: Pcm


@dataclass(frozen=True, slots=True)
class Stage:
    """What a driver needs beside agent and cases.

    ``watch`` makes the detector that finds the agent's onset at or after a sample; ``seed`` is the run's;
    ``on_interrupt``: whether audio that is still queued when the agent reports an interruption is kept, as the paper
    does, or forgotten, as a player would.
    """

    pacing: Pacing
    watch: Callable[[int], OnsetWatch]
    seed: int = 0
    on_interrupt: Literal["keep", "truncate"] = "keep"


class RunningCase:
    """A case from its first frame to its record. ``now`` is always the session's time in samples."""

    def __init__(self, episode: Episode, stage: Stage) -> None:
        case = episode.case
        self.episode = episode
        self.tape = Tape()
        self.seed = case_seed(case, stage.seed)
        self.user = UserSide(
            episode.turn1, episode.turn2, to_samples(case.turn1.end_s), case.barge_in_after_s, stage.pacing
        )
        self._truncate = stage.on_interrupt == "truncate"
        self._watch = stage.watch(self.user.onset_counts_from) if self.user.awaits_onset else None
        self._watched = 0
        self._detector: dict[str, float | str] = {}
        self._agent_onset: int | None = None
        self._text: list[TextPiece] = []
        self._interruptions: list[Interruption] = []
        self._notes: list[NoteTaken] = []

    def hear(self, samples: int) -> Pcm:
        """The user's next samples, taped."""
        pcm = self.user.next(samples)
        self.tape.user(pcm)
        return pcm

    def place(self, emission: Emission, now: int) -> None:
        """Keep what the agent emitted, which arrived at ``now``.

        Raises:
            AgentError: audio that is no mono track of finite numbers.
        """
        match emission:
            case AgentAudio(pcm):
                self.tape.agent(now, _sound(pcm))
            case AgentText(text):
                self._text.append(TextPiece(now, text))
            case Interrupted(kind):
                dropped = self.tape.drop_queued(now) if self._truncate else 0
                self._interruptions.append(Interruption(now, kind, dropped))
            case Note(name, text):
                self._notes.append(NoteTaken(now, name, text))
            case TurnDone():
                self.user.agent_finished()

    def look_for_onset(self, now: int) -> None:
        """Hear the agent's channel up to ``now``, where a barge-in waits for its onset."""
        if self._watch is None or not self.user.awaits_onset or now <= self._watched:
            return
        found = self._watch.push(self.tape.played(self._watched, now))
        self._watched = now
        if found is not None:
            onset, noticed = found
            self._agent_onset = onset
            delay_s = round((noticed - onset) / SAMPLE_RATE_HZ, 3)
            self._detector = {"name": self._watch.name, **self._watch.settings, "delay_s": delay_s}
            self.user.agent_began(onset)

    def take(
        self, facts: AgentFacts, error: str = "", lateness_ms: Mapping[str, float] | None = None, retried: bool = False
    ) -> Take:
        """Close the case."""
        case, stereo = self.episode.case, self.tape.stereo()
        recording = Recording(
            test_case_id=case.test_case_id,
            conversation_id=case.conversation_id,
            model=facts.name,
            status="agent_error" if error else "ok",
            error=error,
            samples=len(stereo),
            turn2_onset_samples=self.user.turn2_onset,
            turn2_by=self.user.turn2_by,
            window_turn2=case.window,
            agent_onset_samples=self._agent_onset,
            detector=self._detector,
            transcript=Transcript(facts.transcript, tuple(self._text)),
            emissions=self.tape.placed,
            interruptions=tuple(self._interruptions),
            lateness_ms=lateness_ms or {},
            notes=tuple(self._notes),
            seed=self.seed,
            conditioning=facts.conditioning,
            versions={"dsbif": __version__, **facts.versions},
            flags=tuple(self._flags(retried)),
        )
        return Take(recording, stereo)

    def _flags(self, retried: bool) -> list[str]:
        late = ["onset-timeout"] if self.user.turn2_by == "onset-timeout" else []
        return late + (["retried"] if retried else [])


def _sound(pcm: Pcm) -> Pcm:
    if pcm.ndim != 1 or not np.isfinite(pcm).all():
        what = f"an array of shape {pcm.shape}" if pcm.ndim != 1 else "NaN or infinite samples"
        raise AgentError(f"the agent emitted {what} as audio; wanted float32 [n] between -1 and 1.")
    return pcm


def case_seed(case: Case, run_seed: int) -> int:
    """The seed of a case: the run's and the case's id, so that neither order nor row matters."""
    return stable_pick(f"{run_seed}:{case.test_case_id}", 2**31)


def describe(error: BaseException) -> str:
    """An agent's error in words: its own where it is an ``AgentError``, else the type and message."""
    return str(error) if isinstance(error, AgentError) else f"{type(error).__name__}: {error}"
