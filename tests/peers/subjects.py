"""Every agent that the contract is asked of, each with what stands on the other side of its wire.

A subject is a configuration as a user would choose it, and what its peer got: a prompt for each session (None where
the wire has no place for one) and how many user samples at 24 kHz.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from peers.voice import MakeVoice


@dataclass
class Wire:
    """What arrived at the other side, a session an entry."""

    prompts: list[str | None] = field(default_factory=list)
    heard_samples: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Subject:
    """An agent under contract.

    ``wire``: None where there is none to look at. ``slack_samples``: how much of the user's side a codec or a chunk
    may hold back at the end of a session.
    """

    words: Sequence[str]
    wire: Wire | None = None
    slack_samples: int = 0


Open = Callable[[MakeVoice], AbstractContextManager[Subject]]


def _plain(*words: str) -> Open:
    @contextmanager
    def open_it(make_voice: MakeVoice) -> Iterator[Subject]:
        yield Subject(words)

    return open_it


SUBJECTS: dict[str, Open] = {
    "silent": _plain("model=silent"),
    "babble": _plain("model=babble"),
    "oracle": _plain("model=oracle"),
    "cascade": _plain("model=cascade"),
    "custom lockstep": _plain("model=custom", "model.target=peers.own:Echo", "model.rows=3"),
    "custom turn": _plain("model=custom", "model.target=peers.own:Answer"),
    "custom live": _plain("model=custom", "model.target=peers.own:LiveEcho", "model.rows=3"),
}
