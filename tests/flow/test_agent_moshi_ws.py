"""Moshi over its server: against the real one on tiny random weights, and a strict one that misbehaves on demand."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command import dsbif, summary
from peers.moshi_server import Manners, Peer, moshi_peer
from peers.talk import Talk, quiet, talk, tone
from peers.voice import ToneVoice

from dsbif.agents.moshi_tiny import write_checkpoint
from dsbif.agents.moshi_ws import MoshiWs, MoshiWsSettings
from dsbif.agents.systems import target_of
from dsbif.errors import AgentError, AgentLostError, ConfigError
from dsbif.files import CONF_DIR
from dsbif.session.agent import AgentAudio, LiveAgent
from dsbif.session.pcm import Pcm
from dsbif.session.recording import read_recording

USER = np.concatenate([quiet(0.2), tone(0.4), quiet(1.0), tone(0.4, 0.2), quiet(1.4)])
_SERVE = """
import runpy, sys, torch
torch.cuda.synchronize = lambda *device: None  # the server calls it on any device, after warming up
torch.set_num_threads(1)
sys.argv = ["moshi.server", *sys.argv[1:]]
runpy.run_module("moshi.server", run_name="__main__")
"""


def config(name: str = "moshi") -> dict[str, Any]:
    """The agent's keys, as composed for ``transport=ws``."""
    files = (CONF_DIR / "model" / f"{name}.yaml", CONF_DIR / "model" / "transport" / f"{name}-ws.yaml")
    read = {key: value for path in files for key, value in yaml.safe_load(path.read_text()).items()}
    return {key: value for key, value in read.items() if key in {f.name for f in fields(MoshiWsSettings)}}


def settings(**changes: Any) -> MoshiWsSettings:
    return MoshiWsSettings(**config() | changes)


def enough(talk: Talk) -> bool:
    return len(talk.sound) >= len(USER) - 2 * 1920


def converse(manners: Manners | None = None, seconds: float = 0.4, sound: Pcm = USER) -> tuple[Talk, Peer]:
    with moshi_peer(partial(ToneVoice, seconds=seconds), manners) as peer:
        got = talk(MoshiWs(settings(base_url=peer.url)), sound, enough)
    assert [session.faults for session in peer.sessions] == [[]]
    return got, peer


def loud_s(pcm: Pcm) -> float:
    """How much of it is sound, in seconds, counted in steps of 20 ms."""
    frames = np.abs(pcm[: len(pcm) // 480 * 480]).reshape(-1, 480).max(axis=1)
    return 0.02 * int(np.count_nonzero(frames > 0.1))


def test_a_frame_comes_back_for_every_frame_sent_with_its_words() -> None:
    got, peer = converse()
    assert abs(len(got.sound) - len(USER)) <= 2 * 1920
    assert loud_s(got.sound) == pytest.approx(0.8, abs=0.1)
    assert got.words == ["Answer", "1.", "Answer", "2."]
    assert peer.sessions[0].path == "/api/chat"
    assert peer.sessions[0].closed


def test_nothing_of_the_user_is_lost_though_the_server_loses_its_first_frame() -> None:
    """What the model hears begins with the user's first sample, later by the codec's delay alone (6.5 ms)."""
    _, peer = converse(sound=np.concatenate([tone(0.4), quiet(3.0)]))
    heard = peer.sessions[0].sound
    onset = int(np.flatnonzero(np.abs(heard) > 0.05)[0])
    assert 100 <= onset <= 250


def test_bursts_lose_nothing() -> None:
    got, _ = converse(Manners(burst=7), sound=np.concatenate([USER, quiet(0.5)]))
    assert loud_s(got.sound) == pytest.approx(0.8, abs=0.1)
    assert got.words == ["Answer", "1.", "Answer", "2."]


def test_a_second_session_knows_nothing_of_the_first_and_waits_for_its_turn() -> None:
    with moshi_peer(ToneVoice, Manners(late_s=0.3)) as peer:
        agent = MoshiWs(settings(base_url=peer.url))
        first, second = talk(agent, USER, enough), talk(agent, USER, enough)
    assert first.words == second.words
    assert [session.faults for session in peer.sessions] == [[], []]


BROKEN = [
    (Manners(goodbye=(1011, "oops")), AgentLostError, r"during the session \(1011 oops\)"),
    (Manners(goodbye=(1000, "")), AgentLostError, "Moshi's server closed the connection during the session"),
    (Manners(goodbye=(None, "")), AgentLostError, "closed the connection during the session"),
    (Manners(strange=b"\x09x"), AgentError, "sent something that is no message: 09 78"),
    (Manners(strange=b""), AgentError, "sent something that is no message: an empty message"),
    (Manners(strange="hello"), AgentError, "sent something that is no message: 'hello'"),
    (Manners(strange=b"\x05full\x20house"), AgentError, r"Moshi's server reported an error: full house\."),
    (Manners(strange=b"\x01" + b"garbage" * 20), AgentError, "sent sound that is no Ogg/Opus"),
    (Manners(ready=b"\x01x"), AgentError, "did not say that it is ready: wanted 00, got 01 78"),
    (Manners(ready="hello"), AgentError, "did not say that it is ready: wanted 00, got 'hello'"),
    (Manners(refuse=404), AgentError, r"has no such address or model \(HTTP 404\)"),
    (Manners(refuse=500), AgentLostError, r"failed to open a session \(HTTP 500\)"),
]  # fmt: skip


@pytest.mark.parametrize(("manners", "kind", "message"), BROKEN)
def test_each_misbehaviour_is_told_as_what_it_is(manners: Manners, kind: type[AgentError], message: str) -> None:
    with moshi_peer(ToneVoice, manners) as peer, pytest.raises(AgentError, match=message) as told:
        talk(MoshiWs(settings(base_url=peer.url)), USER, lambda talk: False)
    assert type(told.value) is kind


def test_words_that_the_server_in_rust_sends_besides_are_no_complaint() -> None:
    got, _ = converse(Manners(strange=b"\x04{}"))
    assert got.words == ["Answer", "1.", "Answer", "2."]


def test_a_server_that_is_busy_or_not_there_is_lost() -> None:
    with moshi_peer(ToneVoice, Manners(ready=None)) as peer:
        message = r"Moshi's server was not ready within 0\.3 s of connecting; it serves one session at a time"
        with pytest.raises(AgentLostError, match=message):
            talk(MoshiWs(settings(base_url=peer.url, open_timeout_s=0.3)), USER)
    with pytest.raises(AgentLostError, match=r"Moshi's server cannot be reached at ws://127\.0\.0\.1:\d+: "):
        talk(MoshiWs(settings(base_url=peer.url)), USER)


def test_a_mute_server_is_silence() -> None:
    with moshi_peer(ToneVoice, Manners(mute=True)) as peer:
        got = talk(MoshiWs(settings(base_url=peer.url)), USER)
    assert got.of(AgentAudio) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": "http://x"}, "base_url is 'http://x'; wanted an address that begins with ws://, wss://"),
        ({"open_timeout_s": 0}, "open_timeout_s is 0"),
        ({"temperature": 0.5}, r"temperature is 0\.5; over transport=ws the server decides it: leave it null"),
        ({"weights": "tiny"}, "weights is tiny; over transport=ws"),
        ({"loud": 1}, r"model\.loud"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        target_of("moshi", "ws", config() | changes, 1)


def test_it_is_a_live_agent_that_takes_no_prompt() -> None:
    agent = MoshiWs(settings())
    assert isinstance(agent, LiveAgent)
    assert (agent.facts.name, agent.facts.conditioning, agent.facts.transcript) == ("moshi", "none", "native")


def test_a_missing_package_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sphn", None)
    with pytest.raises(ConfigError, match=r'pip install "dsbif\[live\]"'):
        MoshiWs(settings())


@pytest.fixture(scope="module")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Kyutai's own server on tiny random weights, on loopback."""
    home = tmp_path_factory.mktemp("moshi")
    files = write_checkpoint(home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-c", _SERVE, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--static", "none",
        "--moshi-weight", str(files["moshi"]), "--mimi-weight", str(files["mimi"]),
        "--tokenizer", str(files["tokenizer"]), "--config-path", str(files["config"]),
    ]  # fmt: skip
    log = home / "log"
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, "NO_TORCH_COMPILE": "1"})
    try:
        _wait_for(process, port, log)
        yield f"ws://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(log.read_text(errors="replace")[-2000:])


def test_a_run_goes_through_the_real_server(real_server: str, tmp_path: Path) -> None:
    words = ("model=moshi", "transport=ws", f"model.base_url={real_server}", "role=R4", "probe=C1", "level=L0",
             "model.pacing.trailing_s=2")  # fmt: skip
    done = dsbif(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "prompt NOT applied" in done.stdout
    assert summary(tmp_path, "moshi-L0-*")["n_scored"] == 1
    (path,) = tmp_path.glob("runs/moshi-L0-*/recordings/*.rec.json")
    record = read_recording(path)
    assert (record.status, record.conditioning, record.versions["transport"]) == ("ok", "none", "ws")
    assert record.transcript.source == "native"
    assert record.transcript.text
    # Sound for sound: what came is as long as what went, and the first frame was there when 80 ms had been heard.
    came = sum(placed.samples for placed in record.emissions)
    assert record.samples - 24_000 < came <= record.samples
    assert record.emissions[0].arrival_samples < 24_000
