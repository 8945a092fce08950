"""The lockstep loop: R user state machines against an agent with R rows.

When a row's case ends, the next case starts in that row at the next frame, so a batch is never held up by its longest
case. Audio that an agent emits on hearing a frame arrives at the end of that frame: nobody can answer a sound before
having heard it.

A failing agent loses its own case and nothing else: an error that names its row fails that row; one that does not is
tried again with each suspect alone, and the case that then fails is recorded as ``agent_error``.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dsbif import __version__
from dsbif.bench.case import Case
from dsbif.bench.roles import stable_pick
from dsbif.errors import AgentError
from dsbif.session.agent import AgentAudio, AgentText, Emission, Interrupted, LockstepAgent, OnsetWatch, Privileged
from dsbif.session.clock import LockstepClock, to_samples
from dsbif.session.pcm import FRAME_SAMPLES, Pcm
from dsbif.session.recording import Interruption, Recording, TextPiece, Transcript
from dsbif.session.tape import Tape
from dsbif.session.user import Pacing, UserSide


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

    ``watch`` makes the detector that finds the agent's onset at or after a sample; ``seed`` is the run's.
    """

    pacing: Pacing
    watch: Callable[[int], OnsetWatch]
    seed: int = 0


class _Row:
    """One running case."""

    def __init__(self, episode: Episode, stage: Stage) -> None:
        case = episode.case
        self.episode = episode
        self.clock = LockstepClock()
        self.tape = Tape()
        self.seed = case_seed(case, stage.seed)
        self.user = UserSide(
            episode.turn1, episode.turn2, to_samples(case.turn1.end_s), case.barge_in_after_s, stage.pacing
        )
        self._watch = stage.watch(self.user.onset_counts_from) if self.user.awaits_onset else None
        self._detector: dict[str, float | str] = {}
        self._agent_onset: int | None = None
        self._text: list[TextPiece] = []
        self._interruptions: list[Interruption] = []

    def hear(self, samples: int) -> Pcm:
        """The user's next samples, taped."""
        pcm = self.user.next(samples)
        self.tape.user(pcm)
        return pcm

    def take_in(self, emissions: Iterable[Emission], samples: int) -> None:
        """Advance by a frame; place what the agent emitted on hearing it; look for the agent's onset."""
        start = self.clock.now_samples
        self.clock.advance(samples)
        for emission in emissions:
            self._place(emission)
        if self._watch is not None and self.user.awaits_onset:
            self._look_for_onset(self._watch, self.tape.played(start, self.clock.now_samples))

    def _place(self, emission: Emission) -> None:
        now = self.clock.now_samples
        match emission:
            case AgentAudio(pcm):
                self.tape.agent(now, pcm)
            case AgentText(text):
                self._text.append(TextPiece(now, text))
            case Interrupted(kind):
                self._interruptions.append(Interruption(now, kind))

    def _look_for_onset(self, watch: OnsetWatch, pcm: Pcm) -> None:
        found = watch.push(pcm)
        if found is None:
            return
        onset, noticed = found
        self._agent_onset = onset
        self._detector = {"name": watch.name, **watch.settings, "delay_s": round((noticed - onset) / 24_000, 3)}
        self.user.agent_began(onset)

    def take(self, agent: LockstepAgent, error: str = "") -> Take:
        """Close the case."""
        case, stereo = self.episode.case, self.tape.stereo()
        flags = ["onset-timeout"] if self.user.turn2_by == "onset-timeout" else []
        recording = Recording(
            test_case_id=case.test_case_id,
            conversation_id=case.conversation_id,
            model=agent.facts.name,
            status="agent_error" if error else "ok",
            error=error,
            samples=len(stereo),
            turn2_onset_samples=self.user.turn2_onset,
            turn2_by=self.user.turn2_by,
            window_turn2=case.window,
            agent_onset_samples=self._agent_onset,
            detector=self._detector,
            transcript=Transcript(agent.facts.transcript, tuple(self._text)),
            emissions=self.tape.placed,
            interruptions=tuple(self._interruptions),
            seed=self.seed,
            conditioning=agent.facts.conditioning,
            versions={"dsbif": __version__, **agent.facts.versions},
            flags=tuple(flags),
        )
        return Take(recording, stereo)


def case_seed(case: Case, run_seed: int) -> int:
    """The seed of a case: the run's and the case's id, so that neither order nor row matters."""
    return stable_pick(f"{run_seed}:{case.test_case_id}", 2**31)


class LockstepDriver:
    """Runs episodes through a lockstep agent; hands every finished take to ``on_take`` as soon as it is whole."""

    def __init__(self, agent: LockstepAgent, stage: Stage, on_take: Callable[[Take], None]) -> None:
        if agent.frame_samples <= 0 or agent.frame_samples % FRAME_SAMPLES:
            raise AgentError(
                f"agent {agent.facts.name} asks for frames of {agent.frame_samples} samples; the session needs a "
                f"multiple of {FRAME_SAMPLES} (20 ms at 24 kHz)."
            )
        self._agent = agent
        self._stage = stage
        self._on_take = on_take
        self._rows: list[_Row | None] = [None] * agent.rows
        self._suspects: deque[Episode] = deque()

    def run(self, episodes: Iterable[Episode]) -> None:
        """Run every episode; ``episodes`` may load its audio lazily."""
        waiting = iter(episodes)
        self._fill(waiting)
        while any(self._rows):
            self._step()
            self._fill(waiting)
        while self._suspects:
            self._start(0, self._suspects.popleft(), alone=True)
            while any(self._rows):
                self._step(alone=True)

    def _fill(self, waiting: Iterator[Episode]) -> None:
        for index in range(len(self._rows)):
            while self._rows[index] is None:
                episode = next(waiting, None)
                if episode is None:
                    return
                self._start(index, episode)

    def _start(self, index: int, episode: Episode, alone: bool = False) -> None:
        row = _Row(episode, self._stage)
        self._rows[index] = row
        try:
            if isinstance(self._agent, Privileged):
                self._agent.reveal(index, episode.case, len(episode.turn1), self._stage.pacing)
            self._agent.start(index, episode.case.system_prompt, row.seed)
        except Exception as error:  # noqa: BLE001 - whatever an agent raises is that case's outcome
            self._fail(error, {index: row}, alone=True)

    def _step(self, alone: bool = False) -> None:
        samples = self._agent.frame_samples
        running = {index: row for index, row in enumerate(self._rows) if row is not None}
        pcm = np.zeros((self._agent.rows, samples), np.float32)
        for index, row in running.items():
            pcm[index] = row.hear(samples)
        try:
            emissions = self._agent.step(pcm, [row is not None for row in self._rows])
        except Exception as error:  # noqa: BLE001 - whatever an agent raises is that case's outcome
            self._fail(error, running, alone)
            return
        for index, row in running.items():
            row.take_in(emissions[index], samples)
            if row.user.done:
                self._finish(index, row)

    def _finish(self, index: int, row: _Row, error: str = "") -> None:
        failure = self._stop(index)
        self._on_take(row.take(self._agent, error or failure))

    def _stop(self, index: int) -> str:
        """Free a row; returns what went wrong in doing so, or an empty string."""
        self._rows[index] = None
        try:
            self._agent.stop(index)
        except Exception as error:  # noqa: BLE001 - whatever an agent raises is that case's outcome
            return _describe(error)
        return ""

    def _fail(self, error: Exception, running: dict[int, _Row], alone: bool) -> None:
        named = getattr(error, "row", None)
        guilty = {named: running[named]} if named in running else running
        if len(guilty) == 1 or alone:
            for index, row in guilty.items():
                self._finish(index, row, _describe(error))
            return
        for index, row in guilty.items():
            self._stop(index)
            self._suspects.append(row.episode)


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, AgentError) else f"{type(error).__name__}: {error}"
