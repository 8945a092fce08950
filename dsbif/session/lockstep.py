"""The lockstep loop: R user state machines against an agent with R rows.

When a row's case ends, the next case starts in that row at the next frame, so a batch is never held up by its longest
case; agents that can only start all rows at once (``equal_start``) get batches instead. Audio that an agent emits on
hearing a frame arrives at the end of that frame: nobody can answer a sound before having heard it.

A failing agent loses its own case and nothing else: an error that names its row fails that row; one that does not is
tried again with each suspect alone, and the case that then fails is recorded as ``agent_error``. A case whose agent
went away altogether (``AgentLostError``) is tried once more too.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from dsbif.errors import AgentError, AgentLostError
from dsbif.session.agent import LockstepAgent, Privileged
from dsbif.session.clock import LockstepClock
from dsbif.session.pcm import FRAME_SAMPLES
from dsbif.session.running import Episode, RunningCase, Stage, Take, describe


class _Row:
    """A running case and its clock."""

    def __init__(self, episode: Episode, stage: Stage, retried: bool) -> None:
        self.case = RunningCase(episode, stage)
        self.clock = LockstepClock()
        self.retried = retried


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
        self._equal_start = bool(getattr(agent, "equal_start", False))
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
        if self._equal_start and any(self._rows):
            return
        for index in range(len(self._rows)):
            while self._rows[index] is None:
                episode = next(waiting, None)
                if episode is None:
                    return
                self._start(index, episode)

    def _start(self, index: int, episode: Episode, alone: bool = False) -> None:
        row = _Row(episode, self._stage, retried=alone)
        self._rows[index] = row
        try:
            if isinstance(self._agent, Privileged):
                self._agent.reveal(index, episode.case, len(episode.turn1), self._stage.pacing)
            self._agent.start(index, episode.case.system_prompt, row.case.seed)
        except AgentLostError as error:  # it took the other rows along
            self._fail(error, self._running, alone)
        except Exception as error:  # noqa: BLE001 - whatever an agent raises is that case's outcome
            self._fail(error, {index: row}, alone=True)

    @property
    def _running(self) -> dict[int, _Row]:
        return {index: row for index, row in enumerate(self._rows) if row is not None}

    def _step(self, alone: bool = False) -> None:
        samples = self._agent.frame_samples
        running = self._running
        pcm = np.zeros((self._agent.rows, samples), np.float32)
        for index, row in running.items():
            pcm[index] = row.case.hear(samples)
        try:
            emissions = self._agent.step(pcm, [row is not None for row in self._rows])
        except Exception as error:  # noqa: BLE001 - whatever an agent raises is that case's outcome
            self._fail(error, running, alone)
            return
        for index, row in running.items():
            row.clock.advance(samples)
            try:
                for emission in emissions[index]:
                    row.case.place(emission, row.clock.now_samples)
            except AgentError as error:
                self._finish(index, row, describe(error))
                continue
            row.case.look_for_onset(row.clock.now_samples)
            if row.case.user.done:
                self._finish(index, row)

    def _finish(self, index: int, row: _Row, error: str = "") -> None:
        failure = self._stop(index)
        self._on_take(row.case.take(self._agent.facts, error or failure, retried=row.retried))

    def _stop(self, index: int) -> str:
        """Free a row; returns what went wrong in doing so, or an empty string."""
        self._rows[index] = None
        try:
            self._agent.stop(index)
        except Exception as error:  # noqa: BLE001 - whatever an agent raises is that case's outcome
            return describe(error)
        return ""

    def _fail(self, error: Exception, running: dict[int, _Row], alone: bool) -> None:
        named = getattr(error, "row", None)
        guilty = {named: running[named]} if named in running else running
        certain = len(guilty) == 1 and not isinstance(error, AgentLostError)
        for index, row in guilty.items():
            if certain or alone:
                self._finish(index, row, describe(error))
            else:
                self._stop(index)
                self._suspects.append(row.case.episode)
