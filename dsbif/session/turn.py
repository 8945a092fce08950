"""Turn agents: the whole user's side first, then one reply, placed after it.

Such an agent never speaks while the user does, so a barge-in is never reached by its voice: turn 2 comes when the onset
times out, and the recording says so. The reply begins where the user's side ends, whatever it took to make: the paper
scores what a turn-based system says, and keeps how long it thought as a fact of the record.

Source: DSB-IFEval, the orchestrator for turn-based systems.
"""

import time
from collections.abc import Callable, Iterable

import numpy as np

from dsbif.errors import AgentBusyError, AgentLostError
from dsbif.session.agent import AgentAudio, AgentText, Note, Reply, TurnAgent
from dsbif.session.pcm import FRAME_SAMPLES, Pcm
from dsbif.session.running import BUSY_WAITS_S, Episode, RunningCase, Stage, Take, describe


class TurnDriver:
    """Runs episodes through a turn agent, one after the other.

    An agent that is busy is asked again after a while, as a live one is; ``sleep`` waits for a number of seconds.
    """

    def __init__(
        self,
        agent: TurnAgent,
        stage: Stage,
        on_take: Callable[[Take], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._agent = agent
        self._stage = stage
        self._on_take = on_take
        self._sleep = sleep

    def run(self, episodes: Iterable[Episode]) -> None:
        """Run every episode; ``episodes`` may load its audio lazily."""
        for episode in episodes:
            try:
                take = self._run(episode, retried=False)
            except AgentLostError:
                take = self._again(episode)
            self._on_take(take)

    def _again(self, episode: Episode) -> Take:
        try:
            return self._run(episode, retried=True)
        except AgentLostError as error:
            return self._failed(episode, error, retried=True)

    def _run(self, episode: Episode, retried: bool) -> Take:
        case = RunningCase(episode, self._stage)
        user = _whole(case)
        turns_end = case.user.turn_ends[-1]
        try:
            reply = self._reply(episode.case.system_prompt, user, case.seed)
            _place(case, reply, turns_end)
        except AgentLostError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever an agent raises is that case's outcome
            return self._failed(episode, error, retried)
        # The reply is followed by as much silence as the user's side was: it has ended, and was not cut off.
        case.hear(max(0, case.tape.agent_end - turns_end))
        return case.take(self._agent.facts, retried=retried)

    def _reply(self, prompt: str, user: Pcm, seed: int) -> Reply:
        for wait_s in BUSY_WAITS_S:
            try:
                return self._agent.reply(prompt, user, seed)
            except AgentBusyError as busy:
                self._sleep(wait_s if busy.retry_after_s is None else busy.retry_after_s)
        return self._agent.reply(prompt, user, seed)

    def _failed(self, episode: Episode, error: Exception, retried: bool) -> Take:
        case = RunningCase(episode, self._stage)
        _whole(case)
        return case.take(self._agent.facts, describe(error), retried=retried)


def _whole(case: RunningCase) -> Pcm:
    """All of the user's side, its trailing silence included."""
    frames = []
    while not case.user.done:
        frames.append(case.hear(FRAME_SAMPLES))
    return np.concatenate(frames)


def _place(case: RunningCase, reply: Reply, at: int) -> None:
    case.place(Note("compute_s", f"{reply.compute_s:.3f}"), at)
    for note in reply.notes:
        case.place(note, at)
    if reply.text:
        case.place(AgentText(reply.text), at)
    if len(reply.pcm):
        case.place(AgentAudio(reply.pcm), at)
