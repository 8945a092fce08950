"""Which driver an agent's way of living in time asks for."""

from collections.abc import Callable, Iterable

from dsbif.session.agent import LiveAgent, LockstepAgent, TurnAgent
from dsbif.session.live import LiveDriver
from dsbif.session.lockstep import LockstepDriver
from dsbif.session.running import Episode, Stage, Take
from dsbif.session.turn import TurnDriver

Agent = LockstepAgent | TurnAgent | LiveAgent


def drive(
    agent: Agent, stage: Stage, episodes: Iterable[Episode], on_take: Callable[[Take], None], sessions: int
) -> None:
    """Run every episode.

    Args:
        agent: any of the three kinds.
        stage: pacing, seed and the rest.
        episodes: may load their audio lazily.
        on_take: gets every take as soon as it is whole.
        sessions: live sessions at once; a lockstep agent has rows of its own, a turn agent takes one after the other.
    """
    match agent:
        case LockstepAgent():
            LockstepDriver(agent, stage, on_take).run(episodes)
        case TurnAgent():
            TurnDriver(agent, stage, on_take).run(episodes)
        case LiveAgent():
            LiveDriver(agent, stage, on_take, sessions).run(episodes)
