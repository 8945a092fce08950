"""Every agent that the contract is asked of, each with what stands on the other side of its wire.

A subject is a configuration as a user would choose it, and what its peer got: a prompt for each session (None where
the wire has no place for one) and how many user samples at 24 kHz.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from peers import freeze_omni, gemini_live, openai_realtime
from peers.freeze_omni import freeze_omni_peer
from peers.fun_audio_chat import fun_audio_chat_peer
from peers.gemini_live import gemini_peer
from peers.minicpmo import minicpmo_peer
from peers.moshi_server import Manners, moshi_peer, personaplex_peer
from peers.openai_realtime import openai_peer
from peers.voice import MakeVoice
from peers.websocket import websocket_peer


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


@contextmanager
def _websocket(make_voice: MakeVoice) -> Iterator[Subject]:
    with websocket_peer(make_voice) as peer:
        yield Subject(("model=websocket", f"model.url={peer.url}"), wire=peer.sessions)


def _minicpmo(*words: str, slack_samples: int = 0) -> Open:
    @contextmanager
    def open_it(make_voice: MakeVoice) -> Iterator[Subject]:
        with minicpmo_peer(make_voice) as peer:
            chosen = ("model=minicpmo", *words, f"model.base_url={peer.url}")
            yield Subject(chosen, wire=peer.sessions, slack_samples=slack_samples)

    return open_it


def _fun_audio_chat(*words: str, slack_samples: int = 0) -> Open:
    @contextmanager
    def open_it(make_voice: MakeVoice) -> Iterator[Subject]:
        with fun_audio_chat_peer(make_voice) as peer:
            chosen = ("model=fun_audio_chat", *words, f"model.base_url={peer.url}", "model.content_timeout_s=0.5")
            yield Subject(chosen, wire=peer.sessions, slack_samples=slack_samples)

    return open_it


@contextmanager
def _freeze_omni(make_voice: MakeVoice) -> Iterator[Subject]:
    with freeze_omni_peer(make_voice, freeze_omni.Manners(max_users=2)) as peer:
        # A piece of 160 ms.
        yield Subject(("model=freeze_omni", f"model.base_url={peer.url}"), wire=peer.sessions, slack_samples=4_800)


@contextmanager
def _moshi_ws(make_voice: MakeVoice) -> Iterator[Subject]:
    with moshi_peer(make_voice) as peer:
        # A frame of 80 ms, and a packet of 40.
        chosen = ("model=moshi", "transport=ws", f"model.base_url={peer.url}")
        yield Subject(chosen, wire=peer.sessions, slack_samples=2_880)


@contextmanager
def _personaplex_ws(make_voice: MakeVoice) -> Iterator[Subject]:
    with personaplex_peer(make_voice, Manners(patched=True)) as peer:
        chosen = ("model=personaplex", "transport=ws", f"model.base_url={peer.url}")
        yield Subject(chosen, wire=peer.sessions, slack_samples=2_880)


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
    # A chunk of a second, and what resampling holds back.
    "minicpmo": _minicpmo(),
    "minicpmo duplex": _minicpmo("transport=duplex", slack_samples=24_960),
    # To silence it gives no answer, which is waited for.
    "fun_audio_chat": _fun_audio_chat("model.answer_timeout_s=3"),
    # Silence between turns is not sent: 0.64 of 4 s at least twice.
    "fun_audio_chat live": _fun_audio_chat("transport=live", slack_samples=100_000),
    "freeze_omni": _freeze_omni,
    "websocket": _websocket,
    "moshi ws": _moshi_ws,
    "personaplex": _plain("model=custom", "model.target=peers.personaplex:StandIn", "model.rows=2"),
    "personaplex ws": _personaplex_ws,
    "factor": _plain("model=custom", "model.target=peers.factor:StandIn", "model.rows=2"),
    "custom live": _plain("model=custom", "model.target=peers.own:LiveEcho", "model.rows=3"),
}

BLOCKING = ("minicpmo", "fun_audio_chat")
"""Those whose client waits for whole answers without an event loop, so that no time may stand still for their peers."""
