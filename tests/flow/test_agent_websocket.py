"""The generic websocket agent: against a strict peer that misbehaves on demand; and the example of its page."""

import asyncio
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command import dsbif, summary
from conftest import REPOSITORY
from peers.serving import in_thread, listening
from peers.talk import Talk, quiet, talk, tone
from peers.voice import ToneVoice
from peers.websocket import KEY, Manners, Peer, websocket_peer

from dsbif.agents.systems import target_of
from dsbif.agents.websocket import Websocket, WebsocketSettings
from dsbif.audio.resample import resample
from dsbif.audio.wav import quantised
from dsbif.errors import AgentBusyError, AgentError, AgentLostError, ConfigError
from dsbif.files import CONF_DIR
from dsbif.session.agent import AgentAudio, AgentText, EndPointed, Interrupted, LiveAgent, Note, TurnDone
from dsbif.session.pcm import Pcm

TURN = np.concatenate([tone(0.4), quiet(0.6)])
EXAMPLE = REPOSITORY / "docs" / "examples" / "websocket_server.py"


def agent(url: str, api_key_env: str | None = None) -> Websocket:
    config = yaml.safe_load((CONF_DIR / "model" / "websocket.yaml").read_text())
    return Websocket(WebsocketSettings(**{"url": url, "api_key_env": config["api_key_env"] or api_key_env}))


def done(talk: Talk) -> bool:
    return bool(talk.of(TurnDone))


def run(manners: Manners | None = None, seconds: float = 0.4, **options: Any) -> tuple[Talk, Peer]:
    with websocket_peer(partial(ToneVoice, seconds=seconds), manners) as peer:
        got = talk(agent(peer.url), TURN, done, **options)
    assert [session.faults for session in peer.sessions] == [[]]
    return got, peer


def is_answer(sound: Pcm, seconds: float, within: float = 1e-4) -> bool:
    """Whether it is ToneVoice's first answer."""
    wanted = 0.4 * np.sin(2 * np.pi * 220 * np.arange(round(seconds * 24_000)) / 24_000)
    return len(sound) == len(wanted) and float(np.abs(sound - wanted)[480:-480].max()) < within


def test_an_answer_comes_whole() -> None:
    got, peer = run(seed=7)
    assert is_answer(got.sound, 0.4)
    assert got.words == ["Answer 1."]
    assert got.of(TurnDone) == [TurnDone("completed")]
    assert peer.sessions[0].start == {
        "type": "start", "version": 1, "prompt": "You are a nurse.", "seed": 7, "sample_rate_hz": 24_000,
    }  # fmt: skip
    assert [kind for kind, _ in peer.sessions[0].told] == ["stop"]
    assert peer.sessions[0].closed


def test_no_prompt_is_sent_as_an_empty_one() -> None:
    _, peer = run(prompt="")
    assert peer.sessions[0].prompt == ""


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 24_000, 44_100, 48_000])
def test_both_sides_are_whole_at_any_rate(rate_hz: int) -> None:
    got, peer = run(Manners(rate_hz=rate_hz))
    assert is_answer(got.sound, 0.4, within=5e-3)
    wanted = quantised(resample(TURN, 24_000, rate_hz))
    heard = peer.sessions[0].sound
    assert 0 <= len(wanted) - len(heard) <= (0 if rate_hz == 24_000 else 0.05 * rate_hz)
    assert float(np.abs(heard - wanted[: len(heard)]).max()) <= 1 / 32_768


def test_a_second_session_knows_nothing_of_the_first() -> None:
    with websocket_peer(ToneVoice, Manners(rate_hz=16_000)) as peer:
        more = (TURN, lambda talk: len(talk.of(TurnDone)) == 2)
        first, second = (talk(agent(peer.url), TURN, done, then=[more]) for _ in range(2))
    assert first.words == second.words == ["Answer 1.", "Answer 2."]
    assert np.array_equal(first.sound, second.sound)


def test_pieces_of_any_size_shift_nothing() -> None:
    got, _ = run(Manners(chunk_bytes=481))
    assert is_answer(got.sound, 0.4)


def test_a_burst_of_20_s_in_one_frame_comes_through_whole() -> None:
    got, _ = run(Manners(chunk_bytes=960_000), seconds=20.0)
    assert len(got.of(AgentAudio)) == 1
    assert is_answer(got.sound, 20.0)


def test_a_late_handshake_is_waited_for() -> None:
    assert done(run(Manners(late_s=1.0))[0])


def test_silence_brings_no_answer_and_no_complaint() -> None:
    with websocket_peer(ToneVoice) as peer:
        got = talk(agent(peer.url), quiet(1.0))
    assert got.emissions == []


def test_an_agent_that_does_not_answer_is_a_result() -> None:
    with websocket_peer(ToneVoice, Manners(mute=True)) as peer:
        got = talk(agent(peer.url), TURN, lambda talk: peer.sessions[0].samples == len(TURN))
    assert got.emissions == []
    assert np.array_equal(peer.sessions[0].sound, quantised(TURN))


def test_what_the_server_says_of_itself_counts() -> None:
    about = {"name": "mine", "conditioning": "partial", "transcript": "none"}
    with websocket_peer(ToneVoice, Manners(ready=about, mute=True)) as peer:
        mine = agent(peer.url)
        assert (mine.facts.name, mine.facts.conditioning) == ("websocket", "none")
        talk(mine, quiet(0.1))
    assert (mine.facts.name, mine.facts.conditioning, mine.facts.transcript) == ("mine", "partial", "none")
    assert mine.facts.versions["protocol"] == "1"


@pytest.mark.parametrize("rate_hz", [24_000, 16_000])
def test_a_server_that_asks_for_it_is_told_when_the_turn_is_over(rate_hz: int) -> None:
    async def converse(mine: Websocket) -> None:
        session = await mine.open("", 0)
        assert isinstance(session, EndPointed)
        await session.send(tone(0.5))
        await session.user_finished()
        await session.send(quiet(0.1))
        await session.close()

    with websocket_peer(ToneVoice, Manners(rate_hz=rate_hz, ready={"user_finished": True})) as peer:
        asyncio.run(converse(agent(peer.url)))
    told = peer.sessions[0].told
    assert told[0] == ("user_finished", 12_000)
    assert told[-1][0] == "stop"


def test_a_server_that_does_not_ask_is_not_told() -> None:
    async def opened(mine: Websocket) -> bool:
        session = await mine.open("", 0)
        await session.close()
        return isinstance(session, EndPointed)

    with websocket_peer(ToneVoice) as peer:
        assert not asyncio.run(opened(agent(peer.url)))


@pytest.mark.parametrize(
    ("strange", "emission"),
    [
        ('{"type": "interrupted"}', Interrupted("interrupted")),
        ('{"type": "interrupted", "kind": "barge-in"}', Interrupted("barge-in")),
        ('{"type": "note", "name": "n", "text": "ä"}', Note("n", "ä")),
        ('{"type": "turn_done"}', TurnDone("completed")),
        ('{"type": "text", "text": "Yes."}', AgentText("Yes.")),
    ],
)
def test_messages_are_emissions(strange: str, emission: Any) -> None:
    with websocket_peer(ToneVoice, Manners(strange=strange, mute=True)) as peer:
        got = talk(agent(peer.url), TURN, lambda talk: bool(talk.emissions))
    assert got.emissions == [emission]


def _ready(**values: Any) -> str:
    return json.dumps({"type": "ready", "conditioning": "full", "transcript": "native", **values})


@pytest.mark.parametrize(
    ("manners", "kind", "message"),
    [
        (Manners(strange='{"type": "error", "message": "it broke."}'), AgentError,
         r"the websocket agent reported an error: it broke\.$"),
        (Manners(strange='{"type": "txet"}'), AgentError,
         "sent a message of type 'txet'; version 1 of the protocol knows text, turn_done, interrupted, note and error"),
        (Manners(strange='{"text": "x"}'), AgentError, "sent a message of type nothing"),
        (Manners(strange='{"type": "text"}'), AgentError, "sent text with text nothing; wanted some text"),
        (Manners(strange='{"type": "turn_done", "kind": 5}'), AgentError, "sent turn_done with kind 5"),
        (Manners(strange="[]"), AgentError, r"sent a text frame that is no JSON object: '\[\]'"),
        (Manners(strange="hello"), AgentError, "no JSON object: 'hello'"),
        (Manners(strange='{"type": "text", "text": "x"}', ready={"transcript": "none"}), AgentError,
         "sent text, though its ready says that its transcript is none"),
        (Manners(close=(1011, "internal error")), AgentLostError, r"during the session \(1011 internal error\)"),
        (Manners(close=(1000, "")), AgentLostError, r"closed the connection during the session \(1000\)"),
        (Manners(close=(None, "")), AgentLostError, r"\(1006 no close frame\)"),
        (Manners(first=['{"type": "error", "message": "no"}']), AgentError, "refused the session: no"),
        (Manners(first=['{"type": "busy"}']), AgentBusyError, "the websocket agent has no session free"),
        (Manners(first=['{"type": "text"}']), AgentError, "began with a message of type 'text'; wanted ready, busy"),
        (Manners(first=[b"\0\0"]), AgentError, "began with a binary frame"),
        (Manners(first=['{"type": "ready"}']), AgentError,
         "sent ready with conditioning nothing; wanted full, partial or none: whether the prompt"),
        (Manners(first=[_ready(transcript="asr")]), AgentError, "with transcript 'asr'; wanted native or none"),
        (Manners(first=[_ready(sample_rate_hz=96_000)]), AgentError, "sample_rate_hz 96000; wanted a whole number"),
        (Manners(first=[_ready(sample_rate_hz=16e3)]), AgentError, r"sample_rate_hz 16000\.0; wanted a whole"),
        (Manners(first=[_ready(user_finished=1)]), AgentError, "user_finished 1; wanted true or false"),
        (Manners(first=[_ready(name="")]), AgentError, "name ''; wanted some text"),
        (Manners(statuses=[503]), AgentBusyError, r"has no session free \(HTTP 503: no\)"),
        (Manners(statuses=[500]), AgentLostError, r"failed to open a session \(HTTP 500: no\)"),
        (Manners(statuses=[404]), AgentError, r"has no such address or model \(HTTP 404: no\); check ws://127"),
        (Manners(wants_key=True), AgentError, r"refused the key \(HTTP 401: not None\); model\.api_key_env names no"),
    ],
)  # fmt: skip
def test_each_misbehaviour_is_told_as_what_it_is(manners: Manners, kind: type[AgentError], message: str) -> None:
    with websocket_peer(ToneVoice, manners) as peer, pytest.raises(AgentError, match=message) as raised:
        talk(agent(peer.url), TURN, done)
    assert type(raised.value) is kind
    assert len(peer.sessions) <= 1, "a session must not be opened again within a case"
    assert [session.faults for session in peer.sessions if session.faults] == []


@pytest.mark.parametrize(
    ("told", "seconds"), [("7", 7.0), ("0.5", 0.5), ("-1", None), ('"soon"', None), ("true", None)]
)
def test_a_busy_server_may_say_for_how_long(told: str, seconds: float | None) -> None:
    manners = Manners(first=[f'{{"type": "busy", "retry_after_s": {told}}}'])
    with websocket_peer(ToneVoice, manners) as peer, pytest.raises(AgentBusyError, match="no session free") as raised:
        talk(agent(peer.url), TURN)
    assert raised.value.retry_after_s == seconds


def test_a_server_that_is_not_there_is_lost() -> None:
    with websocket_peer(ToneVoice) as peer:
        gone = peer.url
    with pytest.raises(AgentLostError, match="the websocket agent cannot be reached at ws://127"):
        talk(agent(gone), TURN)


def test_a_key_is_sent_and_shown_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with websocket_peer(ToneVoice, Manners(wants_key=True)) as peer:
        assert done(talk(agent(peer.url, "MY_KEY"), TURN, done))
        monkeypatch.setenv("MY_KEY", "wrong-key")
        with pytest.raises(AgentError, match=r"not Bearer \*\*\*\); check the variable MY_KEY") as raised:
            talk(agent(peer.url, "MY_KEY"), TURN)
    assert "wrong-key" not in str(raised.value)
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(ConfigError, match="the environment variable MY_KEY is not set"):
        agent(peer.url, "MY_KEY")


def test_a_missing_package_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets", None)
    with pytest.raises(ConfigError, match=r'pip install "dsbif\[live\]"'):
        agent("ws://127.0.0.1:1")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://x", "url is 'http://x'; wanted an address that begins with ws://, wss://"),
        ("ws://", "url is 'ws://'"),
        ("ws://me@x", "url holds a user or a password"),
    ],
)
def test_settings_are_checked(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        target_of("websocket", "live", {"url": url, "api_key_env": None}, 1)


def test_it_is_a_live_agent() -> None:
    assert isinstance(agent("ws://127.0.0.1:1"), LiveAgent)


@contextmanager
def example() -> Iterator[str]:
    """The page's server, in this process."""
    session = runpy.run_path(str(EXAMPLE))["session"]

    with in_thread(partial(listening, session, max_size=None)) as port:
        yield f"ws://127.0.0.1:{port}"


def test_the_example_says_what_it_heard() -> None:
    turn = np.concatenate([tone(0.4), quiet(0.8)])
    with example() as url:
        mine = agent(url)
        got = talk(mine, turn, done)
    assert (mine.facts.name, mine.facts.conditioning, mine.facts.transcript) == ("echo", "none", "none")
    assert len(got.sound) == pytest.approx(0.4 * 24_000, abs=1200)
    assert np.abs(got.sound).max() == pytest.approx(0.3, abs=0.02)


def test_the_example_is_about_forty_lines() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 45


def test_the_example_is_started_and_scored_as_the_page_says(tmp_path: Path) -> None:
    started = subprocess.Popen([sys.executable, EXAMPLE, "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert started.stdout is not None
        found = re.search(r"ws://127\.0\.0\.1:\d+", started.stdout.readline())
        assert found
        words = ("model=websocket", f"model.url={found[0]}", "model.name=echo", "role=R4", "probe=C2", "level=L2")
        done = dsbif(tmp_path, *words, "model.pacing.gap_s=1", "model.pacing.trailing_s=2")
    finally:
        started.kill()
        started.wait()
    assert done.returncode == 0, done.stderr
    assert "prompt NOT applied" in done.stdout
    totals = summary(tmp_path, "echo-L2-*")
    assert totals["n_scored"] == 1
