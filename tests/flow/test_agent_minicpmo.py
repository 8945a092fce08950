"""MiniCPM-o's two adapters against a strict gateway on loopback that misbehaves on demand."""

import json
import sys
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import pytest
import yaml
from peers.certificate import self_signed
from peers.minicpmo import Manners, Peer, minicpmo_peer
from peers.talk import Talk, quiet, talk, tone
from peers.voice import ToneVoice

from dsbif.agents.minicpmo import Minicpmo, MinicpmoSettings, request_of
from dsbif.agents.minicpmo_duplex import MinicpmoDuplex, MinicpmoDuplexSettings, prepare_of
from dsbif.agents.systems import target_of
from dsbif.audio.resample import resample
from dsbif.errors import AgentBusyError, AgentError, AgentLostError, ConfigError
from dsbif.files import CONF_DIR
from dsbif.session.agent import AgentAudio, AgentText, LiveAgent, Note, Reply, TurnAgent, TurnDone

USER = np.concatenate([tone(0.4), quiet(1.0), tone(0.4), quiet(1.0)])
TURN = np.concatenate([tone(0.4), quiet(1.6)])


def config() -> dict[str, Any]:
    own = {f.name for f in fields(MinicpmoSettings)}
    read = yaml.safe_load((CONF_DIR / "model" / "minicpmo.yaml").read_text())
    return {key: value for key, value in read.items() if key in own}


def duplex_config() -> dict[str, Any]:
    own = {f.name for f in fields(MinicpmoDuplexSettings)}
    read = yaml.safe_load((CONF_DIR / "model" / "transport" / "minicpmo-duplex.yaml").read_text())
    return config() | {key: value for key, value in read.items() if key in own}


def turn_agent(peer: Peer, **changes: Any) -> Minicpmo:
    return Minicpmo(MinicpmoSettings(**config() | {"base_url": peer.url} | changes))


def duplex_agent(peer: Peer, **changes: Any) -> MinicpmoDuplex:
    return MinicpmoDuplex(MinicpmoDuplexSettings(**duplex_config() | {"base_url": peer.url} | changes))


def reply(manners: Manners | None = None, seconds: float = 0.4, prompt: str = "Be kind.") -> tuple[Reply, Peer]:
    with minicpmo_peer(partial(ToneVoice, seconds=seconds), manners) as peer:
        got = turn_agent(peer).reply(prompt, USER, 7)
    assert [session.faults for session in peer.sessions] == [[]]
    return got, peer


def converse(manners: Manners | None = None, seconds: float = 0.4, prompt: str = "Be kind.") -> tuple[Talk, Peer]:
    with minicpmo_peer(partial(ToneVoice, seconds=seconds), manners) as peer:
        got = talk(duplex_agent(peer), TURN, done, prompt=prompt)
    assert [session.faults for session in peer.sessions] == [[]]
    return got, peer


def done(talk: Talk) -> bool:
    return bool(talk.of(TurnDone))


def near(one: Any, other: Any) -> bool:
    return len(one) == len(other) and np.allclose(one, other, atol=1e-4)


def answer(seconds: float, number: int = 1) -> np.ndarray[Any, np.dtype[np.float32]]:
    time_s = np.arange(round(seconds * 24_000)) / 24_000
    return (0.4 * np.sin(2 * np.pi * 220 * number * time_s)).astype(np.float32)


def test_a_reply_comes_whole_with_its_words() -> None:
    got, peer = reply()
    assert np.array_equal(got.pcm, np.concatenate([answer(0.4), answer(0.4, 2)]))
    assert got.pcm.dtype == np.float32
    assert got.text == "Answer 1. Answer 2."
    assert got.compute_s > 0
    assert peer.sessions[0].path == "/ws/chat"
    assert peer.sessions[0].closed


def test_the_request_is_as_configured() -> None:
    _, peer = reply(prompt="Äß „x“")
    assert peer.sessions[0].prompt == "Äß „x“"
    wanted = {"max_new_tokens": 512, "length_penalty": 1.1, "temperature": 0.7, "top_p": 0.8}
    assert peer.sessions[0].config == wanted


def test_at_l0_the_system_message_is_there_and_empty() -> None:
    _, peer = reply(prompt="")
    assert peer.sessions[0].prompt == ""
    request = request_of(MinicpmoSettings(**config()), "", USER)
    assert request["messages"][0] == {"role": "system", "content": ""}


def test_the_whole_users_side_arrives_at_16_khz() -> None:
    _, peer = reply()
    assert peer.sessions[0].samples == len(USER)
    assert near(peer.sessions[0].sound, resample(USER, 24_000, 16_000))


def test_a_second_case_knows_nothing_of_the_first() -> None:
    with minicpmo_peer(ToneVoice) as peer:
        agent = turn_agent(peer)
        first, second = (agent.reply("Be kind.", USER, 7) for _ in range(2))
        agent.close()
        agent.close()
    assert first.text == second.text == "Answer 1. Answer 2."
    assert np.array_equal(first.pcm, second.pcm)


@pytest.mark.parametrize(
    ("manners", "seconds"),
    [
        (Manners(chunk_bytes=481), 0.4),
        (Manners(chunk_bytes=None), 20.0),
        (Manners(rest_in_done=True), 3.0),
        (Manners(summary=False), 0.4),
        (Manners(chunk_bytes=3), 0.1),
        (Manners(late_s=0.5), 0.4),
    ],
)
def test_however_a_reply_is_cut_nothing_is_lost_or_shifted(manners: Manners, seconds: float) -> None:
    got, _ = reply(manners, seconds)
    assert np.array_equal(got.pcm, np.concatenate([answer(seconds), answer(seconds, 2)]))
    assert got.text == "Answer 1. Answer 2."


def test_silence_brings_an_empty_reply() -> None:
    with minicpmo_peer(ToneVoice) as peer:
        got = turn_agent(peer).reply("", quiet(1.0), 0)
    assert (len(got.pcm), got.text) == (0, "")
    assert got.notes == [Note("input_tokens", "25")]


BROKEN = [
    (Manners(error={"error": "CUDA out of memory"}), AgentError, "MiniCPM-o reported an error: CUDA out of memory"),
    (Manners(error={"message": "as documented"}), AgentError, "MiniCPM-o reported an error: as documented"),
    (Manners(error={"error": "Worker busy"}), AgentBusyError, "MiniCPM-o has no session free: Worker busy"),
    (Manners(queue_full=True), AgentBusyError, "MiniCPM-o has no session free: Queue full"),
    (Manners(goodbye=(1011, "oops")), AgentLostError, r"during the session \(1011 oops\)"),
    (Manners(goodbye=(1000, "")), AgentLostError, r"closed the connection during the session"),
    (Manners(goodbye=(None, "")), AgentLostError, "closed the connection during the session"),
    (Manners(strange="{"), AgentError, "sent something that is no message of its protocol: {"),
    (Manners(strange='{"text": 1}'), AgentError, "sent something that is no message of its protocol"),
    (Manners(refuse=403), AgentError, r"\(HTTP 403\): its gateway is not ready, or has this mode switched off"),
    (Manners(refuse=503), AgentBusyError, r"has no session free \(HTTP 503\)"),
    (Manners(refuse=500), AgentLostError, r"failed to open a session \(HTTP 500\)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manners", "kind", "message"),
    [
        *BROKEN,
        (Manners(goodbye=(1013, "Worker not ready")), AgentBusyError, "no session free: Worker not ready"),
        (Manners(strange='{"type": "chunk", "audio_data": "?"}'), AgentError, "sent sound that is no base64"),
    ],
)
def test_each_misbehaviour_in_turn_mode_is_told_as_what_it_is(
    manners: Manners, kind: type[AgentError], message: str
) -> None:
    with minicpmo_peer(ToneVoice, manners) as peer, pytest.raises(AgentError, match=message) as raised:
        turn_agent(peer).reply("Be kind.", USER, 0)
    assert type(raised.value) is kind


def test_a_server_that_says_nothing_is_given_up() -> None:
    wanted = r"MiniCPM-o sent nothing for 0\.5 s and was not done"
    with minicpmo_peer(ToneVoice, Manners(mute=True)) as peer, pytest.raises(AgentLostError, match=wanted):
        turn_agent(peer, answer_timeout_s=0.5).reply("", USER, 0)


def test_a_gateway_that_is_not_there_is_lost() -> None:
    with minicpmo_peer(ToneVoice) as peer:
        pass
    with pytest.raises(AgentLostError, match=r"MiniCPM-o cannot be reached at ws://127\.0\.0\.1:\d+: Connection"):
        turn_agent(peer).reply("", USER, 0)
    with pytest.raises(AgentLostError, match=r"MiniCPM-o cannot be reached at ws://127\.0\.0\.1:\d+: "):
        talk(duplex_agent(peer), TURN)


def test_a_self_signed_certificate_is_taken_only_where_the_configuration_says_so() -> None:
    with minicpmo_peer(ToneVoice, tls=self_signed()) as peer:
        assert turn_agent(peer, tls_verify=False).reply("", USER, 0).text == "Answer 1. Answer 2."
        assert done(talk(duplex_agent(peer, tls_verify=False), TURN, done))
        with pytest.raises(AgentLostError, match="SSLCertVerificationError"):
            turn_agent(peer).reply("", USER, 0)
        with pytest.raises(AgentLostError, match="SSLCertVerificationError"):
            talk(duplex_agent(peer), TURN)


def test_duplex_speaks_as_it_hears_and_its_words_are_words() -> None:
    got, peer = converse()
    assert np.array_equal(got.sound, answer(0.4))
    assert " ".join(got.words) == "Answer 1."
    assert got.of(TurnDone) == [TurnDone("end_of_turn")]
    assert got.note("prompt_length") == "8"
    assert peer.sessions[0].path.startswith("/ws/duplex/adx_")
    assert peer.sessions[0].stopped
    assert peer.sessions[0].closed


def test_duplex_is_prepared_as_configured() -> None:
    _, peer = converse(prompt="Äß „x“")
    assert peer.sessions[0].prompt == "Äß „x“"
    assert peer.sessions[0].config["force_listen_count"] == 0
    assert peer.sessions[0].config["temperature"] == 0.7
    assert peer.sessions[0].config["top_k"] == 20


def test_at_l0_duplex_sends_an_empty_prompt() -> None:
    _, peer = converse(prompt="")
    assert peer.sessions[0].prompt == ""
    prepare = prepare_of(MinicpmoDuplexSettings(**duplex_config()), "")
    assert (prepare["system_prompt"], prepare["prefix_system_prompt"]) == ("", "")


def test_duplex_hears_every_whole_second_in_chunks_of_a_second() -> None:
    """The peer refuses chunks of another length; up to a second waits for what would follow."""
    sound = np.concatenate([tone(0.7), quiet(0.6), tone(0.5, 0.1), quiet(1.4)])
    with minicpmo_peer(ToneVoice) as peer:
        talk(duplex_agent(peer), sound, lambda talk: len(peer.sessions[0].pcm) == 3)
    wanted = resample(sound, 24_000, 16_000)
    assert peer.sessions[0].samples == 72_000
    assert near(peer.sessions[0].sound, wanted[:48_000])


def test_a_second_duplex_session_knows_nothing_of_the_first() -> None:
    with minicpmo_peer(ToneVoice) as peer:
        more = (TURN, lambda talk: len(talk.of(TurnDone)) == 2)
        first, second = (talk(duplex_agent(peer), TURN, done, then=[more]) for _ in range(2))
    assert " ".join(first.words) == "Answer 1. Answer 2."
    assert first.words == second.words
    assert np.array_equal(first.sound, second.sound)


@pytest.mark.parametrize(
    ("manners", "seconds"),
    [(Manners(chunk_bytes=481), 0.4), (Manners(chunk_bytes=None), 20.0), (Manners(late_s=1.0), 1)],
)
def test_however_duplex_cuts_an_answer_nothing_is_lost_or_shifted(manners: Manners, seconds: float) -> None:
    got, _ = converse(manners, seconds)
    assert np.array_equal(got.sound, answer(seconds))
    if manners.chunk_bytes is None:
        assert len(got.of(AgentAudio)) == 1


def test_going_over_to_listening_ends_a_turn() -> None:
    got, _ = converse(Manners(eager=True))
    assert got.of(TurnDone) == [TurnDone("listen")]
    assert " ".join(got.words) == "Answer 1."


def test_silence_is_listened_to_without_complaint() -> None:
    with minicpmo_peer(ToneVoice) as peer:
        got = talk(duplex_agent(peer), quiet(2.1), lambda talk: len(peer.sessions[0].pcm) == 2)
    assert got.emissions == [Note("prompt_length", "16")]


def test_duplex_that_does_not_answer_is_a_result() -> None:
    with minicpmo_peer(ToneVoice, Manners(mute=True)) as peer:
        got = talk(duplex_agent(peer), TURN, lambda talk: peer.sessions[0].samples > 20_000)
    assert got.of(AgentAudio) == got.of(AgentText) == []


def test_the_gateways_queue_is_waited_in() -> None:
    got, _ = converse(Manners(queued_s=0.3))
    assert done(got)


@pytest.mark.parametrize(
    ("manners", "kind", "message"),
    [
        *BROKEN,
        (Manners(queued_s=30.0), AgentBusyError, r"MiniCPM-o had no worker free for 0\.5 s"),
        (Manners(prepare_error="no reference audio"), AgentError, "reported an error: no reference audio"),
        (Manners(not_prepared="paused"), AgentError, "MiniCPM-o sent 'paused'; wanted prepared"),
        (Manners(strange='{"type": "timeout"}'), AgentLostError, r"ended the session \(timeout\)"),
        (
            Manners(strange='{"type": "result", "is_listen": false, "audio_data": 5}'),
            AgentError,
            "sent sound that is no base64",
        ),
    ],
)
def test_each_misbehaviour_in_duplex_mode_is_told_as_what_it_is(
    manners: Manners, kind: type[AgentError], message: str
) -> None:
    with minicpmo_peer(ToneVoice, manners) as peer, pytest.raises(AgentError, match=message) as raised:
        talk(duplex_agent(peer, queue_timeout_s=0.5 if manners.queued_s else 60), TURN, done)
    assert type(raised.value) is kind


def test_a_missing_package_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets", None)
    for make in (
        partial(Minicpmo, MinicpmoSettings(**config())),
        partial(MinicpmoDuplex, MinicpmoDuplexSettings(**duplex_config())),
    ):
        with pytest.raises(ConfigError, match=r'pip install "dsbif\[live\]"'):
            make()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": "http://x"}, "base_url is 'http://x'; wanted an address that begins with ws://, wss://"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"top_p": 1.5}, r"top_p is 1\.5; wanted 0 to 1"),
        ({"answer_timeout_s": 0}, r"answer_timeout_s is 0"),
        ({"force_listen_count": -1}, "force_listen_count is -1"),
        ({"max_new_speak_tokens_per_chunk": 0}, "max_new_speak_tokens_per_chunk is 0"),
        ({"queue_timeout_s": 0}, "queue_timeout_s is 0"),
        ({"loud": 1}, "loud"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        target_of("minicpmo", "duplex", duplex_config() | changes, 1)


def test_each_is_an_agent_of_its_kind() -> None:
    turn, duplex = Minicpmo(MinicpmoSettings(**config())), MinicpmoDuplex(MinicpmoDuplexSettings(**duplex_config()))
    assert isinstance(turn, TurnAgent)
    assert isinstance(duplex, LiveAgent)
    for agent in (turn, duplex):
        assert (agent.facts.name, agent.facts.conditioning, agent.facts.transcript) == (
            "minicpm-o-4.5", "full", "native",
        )  # fmt: skip
    assert json.dumps(dict(turn.facts.versions)) != json.dumps(dict(duplex.facts.versions))
