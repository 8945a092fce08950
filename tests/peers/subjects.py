"""Every agent that the contract is asked of, each with what stands on the other side of its wire.

A subject is a configuration as a user would choose it, and what its peer got: a prompt for each session (None where
the wire has no place for one) and how many user samples at 24 kHz.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from peers import gemini_live, openai_realtime
from peers.gemini_live import gemini_peer
from peers.openai_realtime import openai_peer
from peers.voice import MakeVoice


class Session(Protocol):
    """What a peer got of one session."""

    @property
    def prompt(self) -> str | None: ...

    @property
    def samples(self) -> int: ...

    faults: list[str]


@dataclass(frozen=True)
class Subject:
    """An agent under contract.

    ``key``: what the peer takes for one. ``wire``: the peer's sessions, None where there is nothing to look at.
    ``slack_samples``: how much of the user's side a codec or a chunk may hold back at the end of a session.
    """

    words: Sequence[str]
    key: str = "sk-contract-5f1d8a"
    wire: Sequence[Session] | None = None
    slack_samples: int = 0


Open = Callable[[MakeVoice], AbstractContextManager[Subject]]


def _plain(*words: str) -> Open:
    @contextmanager
    def open_it(make_voice: MakeVoice) -> Iterator[Subject]:
        yield Subject(words)

    return open_it


@contextmanager
def _gpt_realtime(make_voice: MakeVoice) -> Iterator[Subject]:
    with openai_peer(make_voice) as peer:
        yield Subject(("model=gpt_realtime", f"model.base_url={peer.url}"), openai_realtime.KEY, peer.sessions)


@contextmanager
def _gemini_live(make_voice: MakeVoice) -> Iterator[Subject]:
    with gemini_peer(make_voice) as peer:
        # A frame of 20 ms at 16 kHz; the resampler holds a little back.
        yield Subject(("model=gemini_live", f"model.base_url={peer.url}"), gemini_live.KEY, peer.sessions, 960)


SUBJECTS: dict[str, Open] = {
    "silent": _plain("model=silent"),
    "babble": _plain("model=babble"),
    "oracle": _plain("model=oracle"),
    "cascade": _plain("model=cascade"),
    "custom lockstep": _plain("model=custom", "model.target=peers.own:Echo", "model.rows=3"),
    "custom turn": _plain("model=custom", "model.target=peers.own:Answer"),
    "gpt_realtime": _gpt_realtime,
    "gemini_live": _gemini_live,
    "moshi": _plain("model=moshi", "model.weights=tiny", "model.device=cpu", "model.dtype=float32", "model.rows=2"),
    "custom live": _plain("model=custom", "model.target=peers.own:LiveEcho", "model.rows=3"),
}
