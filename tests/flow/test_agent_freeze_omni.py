"""Freeze-Omni's adapter against a strict server on loopback that misbehaves on demand."""

import json
import sys
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import pytest
import yaml
from peers.freeze_omni import Manners, Peer, freeze_omni_peer
from peers.talk import Talk, Until, quiet, talk, tone
from peers.voice import ToneVoice

from dsbif.agents.freeze_omni import FreezeOmni, FreezeOmniSettings
from dsbif.agents.freeze_omni_player import Player
from dsbif.agents.systems import target_of
from dsbif.audio.resample import resample
from dsbif.errors import AgentBusyError, AgentError, AgentLostError, ConfigError
from dsbif.files import CONF_DIR
from dsbif.session.agent import AgentAudio, AgentText, Interrupted, LiveAgent
from dsbif.session.pcm import Pcm

TURN = np.concatenate([tone(0.4), quiet(2.0)])


def config() -> dict[str, Any]:
    own = {f.name for f in fields(FreezeOmniSettings)}
    read = yaml.safe_load((CONF_DIR / "model" / "freeze_omni.yaml").read_text())
    return {key: value for key, value in read.items() if key in own}


def agent(peer: Peer, **changes: Any) -> FreezeOmni:
    return FreezeOmni(FreezeOmniSettings(**config() | {"base_url": peer.url} | changes))


def whole(samples: int) -> Until:
    return lambda talk: len(talk.sound) >= samples


def run(
    manners: Manners | None = None, seconds: float = 0.4, prompt: str = "Be kind.", sound: Pcm = TURN
) -> tuple[Talk, Peer]:
    with freeze_omni_peer(partial(ToneVoice, seconds=seconds), manners) as peer:
        got = talk(agent(peer), sound, whole(round(seconds * 24_000)), prompt=prompt)
    assert [session.faults for session in peer.sessions] == [[]]
    return got, peer


def same(heard: Pcm, seconds: float) -> bool:
    sent = 0.4 * np.sin(2 * np.pi * 220 * np.arange(round(seconds * 24_000)) / 24_000)
    return len(heard) == len(sent) and np.allclose(heard, sent, atol=1e-4)


def test_an_answer_comes_whole_piece_by_piece() -> None:
    got, peer = run()
    assert same(got.sound, 0.4)
    assert len(got.of(AgentAudio)) == 4
    assert got.of(AgentText) == []
    assert got.of(Interrupted) == []  # of the three stop_tts that came, none cut anything
    assert peer.sessions[0].started
    assert peer.sessions[0].closed


def test_the_prompt_is_set_before_the_recording_starts() -> None:
    _, peer = run(prompt="Äß „x“")
    assert peer.sessions[0].prompt == "Äß „x“"


def test_at_l0_the_prompt_is_set_and_empty() -> None:
    _, peer = run(prompt="")
    assert peer.sessions[0].prompt == ""


def test_every_sample_of_the_user_arrives_in_pieces_of_160_ms() -> None:
    """The peer refuses pieces of another length; less than one waits for what would follow."""
    sound = np.concatenate([tone(0.5), quiet(0.6)])
    with freeze_omni_peer(ToneVoice, Manners(mute=True)) as peer:
        talk(agent(peer), sound, lambda talk: len(peer.sessions[0].pcm) == 6)
    heard = peer.sessions[0].sound
    wanted = resample(sound, 24_000, 16_000)
    assert len(heard) == 6 * 2560
    assert np.allclose(heard, wanted[: len(heard)], atol=1e-3)


def test_a_second_session_knows_nothing_of_the_first() -> None:
    with freeze_omni_peer(ToneVoice, Manners(max_users=2)) as peer:
        first, second = (talk(agent(peer), TURN, whole(9600), then=[(TURN, whole(19_200))]) for _ in range(2))
    assert len(first.sound) == 19_200
    assert np.array_equal(first.sound, second.sound)


@pytest.mark.parametrize(
    ("manners", "seconds"),
    [
        (Manners(chunk_bytes=481, burst=True), 0.4),
        (Manners(chunk_bytes=None), 20.0),
        (Manners(burst=True), 20.0),
        (Manners(late_s=0.3), 0.4),
    ],
)
def test_however_an_answer_is_cut_nothing_is_lost_or_shifted(manners: Manners, seconds: float) -> None:
    got, _ = run(manners, seconds)
    assert same(got.sound, seconds)


def test_plain_http_is_spoken_too() -> None:
    with freeze_omni_peer(ToneVoice, secure=False) as peer:
        assert same(talk(agent(peer), TURN, whole(9600)).sound, 0.4)


def test_a_certificate_that_nobody_knows_is_refused_unless_the_configuration_says_so() -> None:
    assert config()["tls_verify"] is False
    with (
        freeze_omni_peer(ToneVoice) as peer,
        pytest.raises(AgentLostError, match=r"cannot be reached at https://127\.0\.0\.1:\d+: .*certificate|SSL"),
    ):
        talk(agent(peer, tls_verify=True), TURN, whole(9600))


def test_stopping_an_answer_that_plays_is_an_interruption() -> None:
    """The answer of 6 s came in one piece at the fifth event; at the seventh the server stops it."""
    with freeze_omni_peer(partial(ToneVoice, seconds=6.0), Manners(chunk_bytes=None, stop_after=7)) as peer:
        got = talk(agent(peer), TURN, lambda talk: bool(talk.of(Interrupted)))
    assert got.of(Interrupted) == [Interrupted("stop_tts")]
    told = json.loads(got.note("interrupted"))
    assert told["delivered_ms"] == 6000
    assert 0 <= told["played_ms"] < 3000


def test_a_player_counts_what_was_heard() -> None:
    player = Player()
    player.sent(24_000)
    player.audio(bytes(2 * 48_000 + 1))
    player.sent(12_000)
    note = player.stop()
    assert note is not None
    assert json.loads(note.text) == {"why": "stop_tts", "delivered_ms": 2000, "played_ms": 500}
    assert player.stop() is None
    assert player.audio(b"\x00\x40")[0] == 0.5  # the half sample of before is forgotten


def test_silence_and_a_mute_agent_bring_nothing_and_no_complaint() -> None:
    with freeze_omni_peer(ToneVoice) as peer:
        got = talk(agent(peer), quiet(1.0), lambda talk: len(peer.sessions[0].pcm) == 6)
    assert got.emissions == []
    with freeze_omni_peer(ToneVoice, Manners(mute=True)) as peer:
        got = talk(agent(peer), TURN, lambda talk: len(peer.sessions[0].pcm) == 14)
    assert got.emissions == []


@pytest.mark.parametrize(
    ("manners", "kind", "message"),
    [
        (Manners(max_users=0), AgentBusyError, "no session free: as many are connected as it takes"),
        (Manners(out_time_after=3), AgentLostError, r"ended the session: its time was over \(--timeout\)"),
        (Manners(hang_up_after=3), AgentLostError, "Freeze-Omni closed the connection during the session"),
        (Manners(strange_after=3), AgentError, "Freeze-Omni sent sound as str; wanted bytes"),
        (Manners(early=True), AgentError, "Freeze-Omni spoke too early"),
        (Manners(no_prompt_success=True), AgentLostError, r"was not ready within 1 s of connecting"),
        (Manners(deaf_to_start=True), AgentLostError, r"was not ready within 1 s of connecting"),
        (Manners(refuse=404), AgentLostError, r"cannot be reached at https://127\.0\.0\.1:\d+: ConnectionError"),
        (Manners(refuse=503), AgentLostError, r"cannot be reached at https://127\.0\.0\.1:\d+: ConnectionError"),
    ],
)
def test_each_misbehaviour_is_told_as_what_it_is(manners: Manners, kind: type[AgentError], message: str) -> None:
    patience = {"open_timeout_s": 1.0} if manners.no_prompt_success or manners.deaf_to_start else {}
    with freeze_omni_peer(ToneVoice, manners) as peer, pytest.raises(AgentError, match=message) as raised:
        talk(agent(peer, **patience), TURN, whole(9600))
    assert type(raised.value) is kind


def test_a_place_that_is_taken_is_free_again_after_a_while() -> None:
    import asyncio

    async def visit(peer: Peer) -> list[str]:
        one, two = agent(peer), agent(peer)
        session = await one.open("", 0)
        told = []
        try:
            await two.open("", 0)
        except AgentBusyError as error:
            told.append(str(error))
        await session.close()
        async with asyncio.timeout(60):
            while len(told) < 2:
                try:
                    again = await two.open("", 0)
                    await again.close()
                    told.append("in")
                except AgentBusyError:
                    await asyncio.sleep(0.05)
        return told

    with freeze_omni_peer(ToneVoice) as peer:
        assert asyncio.run(visit(peer)) == [
            "Freeze-Omni has no session free: as many are connected as it takes (--max_users).", "in",
        ]  # fmt: skip


def test_a_server_that_is_not_there_is_lost() -> None:
    with freeze_omni_peer(ToneVoice) as peer:
        pass
    with pytest.raises(AgentLostError, match=r"Freeze-Omni cannot be reached at https://127\.0\.0\.1:\d+: "):
        talk(agent(peer), TURN)


@pytest.mark.parametrize("name", ["socketio", "aiohttp"])
def test_a_missing_package_names_its_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r'pip install "dsbif\[freeze\]"'):
        FreezeOmni(FreezeOmniSettings(**config()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": "ws://x"}, "base_url is 'ws://x'; wanted an address that begins with http://, https://"),
        ({"open_timeout_s": 0}, "open_timeout_s is 0"),
        ({"loud": 1}, "loud"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        target_of("freeze_omni", "live", config() | changes, 1)


def test_it_is_a_live_agent_that_tells_no_words() -> None:
    made = FreezeOmni(FreezeOmniSettings(**config()))
    assert isinstance(made, LiveAgent)
    assert (made.facts.name, made.facts.conditioning, made.facts.transcript) == ("freeze-omni", "full", "none")
