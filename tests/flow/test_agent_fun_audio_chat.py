"""Fun-Audio-Chat's two adapters against a strict server on loopback that misbehaves on demand."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import pytest
import yaml
from peers.fun_audio_chat import PREFIX, Manners, Peer, fun_audio_chat_peer
from peers.talk import WAIT_S, Talk, quiet, tone
from peers.voice import ToneVoice

from dsbif.agents.fun_audio_chat import FunAudioChat, FunAudioChatSettings, prompt_of
from dsbif.agents.fun_audio_chat_live import FunAudioChatLive
from dsbif.agents.systems import target_of
from dsbif.errors import AgentError, AgentLostError, ConfigError
from dsbif.files import CONF_DIR
from dsbif.session.agent import (
    AgentAudio,
    AgentText,
    EndPointed,
    Interrupted,
    LiveAgent,
    LiveSession,
    Note,
    Reply,
    TurnAgent,
    TurnDone,
)
from dsbif.session.pcm import FRAME_SAMPLES, Pcm

USER = np.concatenate([tone(0.4), quiet(1.0), tone(0.4, 0.2), quiet(1.0)])
TURN = tone(0.6)


def config() -> dict[str, Any]:
    own = {f.name for f in fields(FunAudioChatSettings)}
    read = yaml.safe_load((CONF_DIR / "model" / "fun_audio_chat.yaml").read_text())
    return {key: value for key, value in read.items() if key in own}


def settings(**changes: Any) -> FunAudioChatSettings:
    return FunAudioChatSettings(**config() | {"settle_s": 0.05, "content_timeout_s": 1.0} | changes)


def reply(manners: Manners | None = None, seconds: float = 0.4, prompt: str = "Be kind.") -> tuple[Reply, Peer]:
    with fun_audio_chat_peer(partial(ToneVoice, seconds=seconds), manners) as peer:
        got = FunAudioChat(settings(base_url=peer.url)).reply(prompt, USER, 7)
    assert [session.faults for session in peer.sessions] == [[]]
    return got, peer


def turns(agent: FunAudioChatLive, parts: Sequence[tuple[Pcm, bool, Any]], prompt: str = "Be kind.") -> Talk:
    """Send each part as a driver does; at its end say, where it is a turn, that it is over; then wait for something."""
    return asyncio.run(_turns(agent, parts, prompt))


async def _turns(agent: FunAudioChatLive, parts: Sequence[tuple[Pcm, bool, Any]], prompt: str) -> Talk:
    got = Talk()
    session = await agent.open(prompt, 0)
    assert isinstance(session, EndPointed)
    reader = asyncio.create_task(_read(session, got))
    try:
        for sound, is_turn, until in parts:
            for start in range(0, len(sound), FRAME_SAMPLES):
                await session.send(sound[start : start + FRAME_SAMPLES])
            if is_turn:
                await session.user_finished()
            async with asyncio.timeout(WAIT_S):
                while not (until(got) or reader.done()):
                    await session.send(quiet(0.02))
                    await asyncio.sleep(0.002)
    finally:
        await session.close()
        await session.close()
        await asyncio.wait_for(reader, WAIT_S)
        await agent.close()
        await agent.close()
    return got


async def _read(session: LiveSession, got: Talk) -> None:
    async for emission in session.emissions():
        got.emissions.append(emission)


def done(talk: Talk) -> bool:
    return bool(talk.of(TurnDone))


def converse(manners: Manners | None = None, seconds: float = 0.4, prompt: str = "Be kind.") -> tuple[Talk, Peer]:
    with fun_audio_chat_peer(partial(ToneVoice, seconds=seconds), manners) as peer:
        got = turns(FunAudioChatLive(settings(base_url=peer.url)), [(TURN, True, done)], prompt)
    assert [session.faults for session in peer.sessions] == [[]]
    return got, peer


def answer(seconds: float, number: int = 1) -> Pcm:
    time_s = np.arange(round(seconds * 24_000)) / 24_000
    return (0.4 * np.sin(2 * np.pi * 220 * number * time_s)).astype(np.float32)


def alike(heard: Pcm, sent: Pcm) -> bool:
    """The same within the codec: as long up to a packet, and the same wave at the codec's delay of 6.5 ms."""
    at = np.arange(100, 220)
    size = len(sent) - 960
    match = [float(np.dot(heard[lag : lag + size], sent[:size])) for lag in at]
    energy = float(np.dot(sent[:size], sent[:size]))
    return 0 <= len(heard) - len(sent) <= 1200 and max(match) > 0.9 * energy


def test_a_reply_comes_whole_with_its_words() -> None:
    got, peer = reply()
    assert alike(got.pcm, np.concatenate([answer(0.4), answer(0.4, 2)]))
    assert got.pcm.dtype == np.float32
    assert got.text == "Answer 1. Answer 2."
    assert got.compute_s > 0
    assert peer.sessions[0].controls == ["pause"]
    assert peer.sessions[0].closed


def test_the_prompt_follows_the_prefix_and_is_noted() -> None:
    got, peer = reply(prompt="Äß „x“")
    assert peer.sessions[0].rendered == f"{PREFIX} Äß „x“"
    assert got.notes == [Note("prompt", f"{PREFIX} Äß „x“")]


def test_at_l0_the_prefix_stands_alone() -> None:
    got, peer = reply(prompt="")
    assert peer.sessions[0].rendered == PREFIX
    assert peer.sessions[0].prompt == ""
    assert got.notes == [Note("prompt", PREFIX)]
    assert prompt_of(settings(prompt_prefix=""), "") == ""


def test_the_whole_users_side_arrives() -> None:
    _, peer = reply()
    assert alike(peer.sessions[0].turns[0], USER)


def test_a_second_case_knows_nothing_of_the_first() -> None:
    with fun_audio_chat_peer(ToneVoice) as peer:
        agent = FunAudioChat(settings(base_url=peer.url))
        first, second = (agent.reply("Be kind.", USER, 7) for _ in range(2))
        agent.close()
        agent.close()
    assert first.text == second.text == "Answer 1. Answer 2."
    assert np.array_equal(first.pcm, second.pcm)


@pytest.mark.parametrize(
    ("manners", "seconds"),
    [(Manners(chunk_bytes=481), 0.4), (Manners(chunk_bytes=7), 0.4), (Manners(chunk_bytes=None), 20.0),
     (Manners(late_s=0.5), 0.4), (Manners(coloured=True), 0.4)],
)  # fmt: skip
def test_however_a_reply_is_cut_nothing_is_lost_or_shifted(manners: Manners, seconds: float) -> None:
    got, _ = reply(manners, seconds)
    assert alike(got.pcm, np.concatenate([answer(seconds), answer(seconds, 2)]))
    assert got.text == "Answer 1. Answer 2."


def test_the_servers_summing_up_counts_where_there_is_one() -> None:
    got, _ = reply(Manners(final="Answer one."))
    assert got.text == "Answer one."
    assert Note("final_text", "Answer one.") in got.notes


def test_silence_and_a_dumb_model_bring_an_empty_reply() -> None:
    with fun_audio_chat_peer(ToneVoice, Manners(dumb=True)) as peer:
        got = FunAudioChat(settings(base_url=peer.url, answer_timeout_s=2.0)).reply("", quiet(0.5), 0)
    assert (len(got.pcm), got.text) == (0, "")


BROKEN = [
    (Manners(error="Processing failed: CUDA"), AgentError, "Fun-Audio-Chat reported an error: Processing failed: CUDA"),
    (Manners(goodbye=(1011, "oops")), AgentLostError, r"during the session \(1011 oops\)"),
    (Manners(goodbye=(1000, "")), AgentLostError, "closed the connection during the session"),
    (Manners(goodbye=(None, "")), AgentLostError, "closed the connection during the session"),
    (Manners(strange=b"\x09x"), AgentError, "sent something that is no message: 09 78"),
    (Manners(strange=b""), AgentError, "sent something that is no message: an empty message"),
    (Manners(strange="hello"), AgentError, "sent something that is no message: 'hello'"),
    (Manners(strange=b"\x01" + b"garbage" * 20), AgentError, "sent sound that is no Ogg/Opus"),
    (Manners(greeting=b"\x05full"), AgentError, "Fun-Audio-Chat did not greet: wanted 00 00 00, got 05 66 75 6c 6c"),
    (Manners(greeting="hello"), AgentError, "did not greet: wanted 00 00 00, got 'hello'"),
    (Manners(refuse=404), AgentError, r"has no such address or model \(HTTP 404\)"),
    (Manners(refuse=500), AgentLostError, r"failed to open a session \(HTTP 500\)"),
]  # fmt: skip


@pytest.mark.parametrize(("manners", "kind", "message"), BROKEN)
def test_each_misbehaviour_is_told_as_what_it_is(manners: Manners, kind: type[AgentError], message: str) -> None:
    with fun_audio_chat_peer(ToneVoice, manners) as peer:
        with pytest.raises(AgentError, match=message) as turn:
            FunAudioChat(settings(base_url=peer.url)).reply("", USER, 0)
        with pytest.raises(AgentError, match=message) as live:
            turns(FunAudioChatLive(settings(base_url=peer.url)), [(TURN, True, done)])
    assert type(turn.value) is type(live.value) is kind


def test_a_server_that_does_not_greet_or_answer_is_lost() -> None:
    with fun_audio_chat_peer(ToneVoice, Manners(greeting=None)) as peer:
        quick = settings(base_url=peer.url, open_timeout_s=0.5)
        with pytest.raises(AgentLostError, match=r"Fun-Audio-Chat did not greet within 0\.5 s"):
            FunAudioChat(quick).reply("", USER, 0)
        with pytest.raises(AgentLostError, match=r"Fun-Audio-Chat cannot be reached at ws.*Timeout"):
            turns(FunAudioChatLive(quick), [(TURN, True, done)])
    with fun_audio_chat_peer(ToneVoice, Manners(mute=True)) as peer:
        quick = settings(base_url=peer.url, answer_timeout_s=0.5)
        with pytest.raises(AgentLostError, match=r"Fun-Audio-Chat did not begin to answer within 0\.5 s"):
            FunAudioChat(quick).reply("", USER, 0)
        got = turns(FunAudioChatLive(quick), [(TURN, True, done)])
    assert got.of(TurnDone) == [TurnDone("no-answer")]


def test_a_server_that_is_not_there_is_lost() -> None:
    with fun_audio_chat_peer(ToneVoice) as peer:
        pass
    with pytest.raises(AgentLostError, match=r"Fun-Audio-Chat cannot be reached at ws://127\.0\.0\.1:\d+: Connection"):
        FunAudioChat(settings(base_url=peer.url)).reply("", USER, 0)
    with pytest.raises(AgentLostError, match=r"Fun-Audio-Chat cannot be reached at ws://127\.0\.0\.1:\d+: "):
        turns(FunAudioChatLive(settings(base_url=peer.url)), [(TURN, True, done)])


def test_live_answers_when_a_turn_is_over_and_its_words_are_words() -> None:
    got, peer = converse()
    assert alike(got.sound, answer(0.4))
    assert got.words == ["Answer", "1."]
    assert got.of(TurnDone) == [TurnDone("quiet")]
    assert got.of(Interrupted) == []
    assert got.note("prompt") == f"{PREFIX} Be kind."
    assert alike(peer.sessions[0].turns[0], TURN)
    assert peer.sessions[0].controls == ["pause"]
    assert peer.sessions[0].closed


def test_live_begins_a_later_turn_with_its_first_sound() -> None:
    both = lambda talk: len(talk.of(TurnDone)) == 2  # noqa: E731
    second = tone(0.5, 0.2)
    with fun_audio_chat_peer(ToneVoice) as peer:
        parts = [(TURN, True, done), (quiet(1.0), False, done), (second, True, both), (quiet(0.5), False, both)]
        first, again = (turns(FunAudioChatLive(settings(base_url=peer.url)), parts) for _ in range(2))
    for session in peer.sessions:
        assert session.controls == ["pause", "start", "pause"]
        assert alike(session.turns[0], TURN)
        assert alike(session.turns[1], second)
        assert session.faults == []
    assert " ".join(first.words) == "Answer 1. Answer 2."
    assert first.words == again.words
    assert np.array_equal(first.sound, again.sound)


def test_talking_over_an_answer_interrupts_it_and_nothing_of_the_turn_is_lost() -> None:
    """The server looks at "start" after its answer only: what came before would be forgotten."""
    with fun_audio_chat_peer(partial(ToneVoice, seconds=4.0), Manners(piece_s=0.02)) as peer:
        speaking = lambda talk: bool(talk.of(AgentAudio))  # noqa: E731
        both = lambda talk: len(talk.of(TurnDone)) == 2  # noqa: E731
        got = turns(FunAudioChatLive(settings(base_url=peer.url)), [(TURN, True, speaking), (TURN, True, both)])
    assert got.of(Interrupted) == [Interrupted("start")]
    assert [emission for emission in got.emissions if isinstance(emission, Interrupted | TurnDone)] == [
        Interrupted("start"), TurnDone("quiet"), TurnDone("quiet"),
    ]  # fmt: skip
    assert alike(peer.sessions[0].turns[1], TURN)
    assert peer.sessions[0].faults == []


def test_an_answer_that_is_still_playing_is_interrupted_too() -> None:
    """It came in a burst, long before it has been heard."""
    with fun_audio_chat_peer(partial(ToneVoice, seconds=20.0), Manners(chunk_bytes=None)) as peer:
        come = lambda talk: len(talk.sound) >= 480_000  # noqa: E731
        both = lambda talk: len(talk.of(TurnDone)) == 2  # noqa: E731
        got = turns(FunAudioChatLive(settings(base_url=peer.url)), [(TURN, True, come), (TURN, True, both)])
    assert [emission for emission in got.emissions if isinstance(emission, Interrupted | TurnDone)] == [
        Interrupted("start"), TurnDone("quiet"), TurnDone("quiet"),
    ]  # fmt: skip
    assert len(got.sound) >= 2 * 480_000


def test_an_answer_is_complete_when_it_has_been_heard() -> None:
    """A tone of 4 s comes at once, and is over a second later: 4 s of the user's side must have gone by."""
    with fun_audio_chat_peer(partial(ToneVoice, seconds=4.0), Manners(chunk_bytes=None)) as peer:
        agent = FunAudioChatLive(settings(base_url=peer.url))
        quiet_s = asyncio.run(_quiet_until_done(agent))
    assert quiet_s >= 4.0


async def _quiet_until_done(agent: FunAudioChatLive) -> float:
    """Seconds of silence sent from an answer's sound to its end."""
    session = await agent.open("", 0)
    assert isinstance(session, EndPointed)
    got = Talk()
    reader = asyncio.create_task(_read(session, got))
    await session.send(TURN)
    await session.user_finished()
    frames = 0
    async with asyncio.timeout(WAIT_S):
        while not done(got):
            await session.send(quiet(0.02))
            await asyncio.sleep(0.01)
            frames += bool(got.of(AgentAudio))
    await session.close()
    await asyncio.wait_for(reader, WAIT_S)
    return frames * 0.02


def test_live_silence_between_turns_is_nothing_and_a_silent_turn_no_complaint() -> None:
    with fun_audio_chat_peer(ToneVoice) as peer:
        agent = FunAudioChatLive(settings(base_url=peer.url, answer_timeout_s=0.5))
        got = turns(agent, [(quiet(0.5), True, done), (quiet(0.5), True, done)])
    assert got.of(AgentAudio) == got.of(AgentText) == []
    assert peer.sessions[0].controls == ["pause"]
    assert peer.sessions[0].faults == []


def test_a_missing_package_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sphn", None)
    for make in (FunAudioChat, FunAudioChatLive):
        with pytest.raises(ConfigError, match=r'pip install "dsbif\[live\]"'):
            make(settings())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": "http://x"}, "base_url is 'http://x'; wanted an address that begins with ws://, wss://"),
        ({"settle_s": -1}, r"settle_s is -1"),
        ({"content_timeout_s": 0}, "content_timeout_s is 0"),
        ({"loud": 1}, "loud"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    for transport in ("turn", "live"):
        with pytest.raises(ConfigError, match=message):
            target_of("fun_audio_chat", transport, config() | changes, 1)


def test_each_is_an_agent_of_its_kind_and_the_prefix_is_configured() -> None:
    turn, live = FunAudioChat(settings()), FunAudioChatLive(settings())
    assert isinstance(turn, TurnAgent)
    assert isinstance(live, LiveAgent)
    for agent in (turn, live):
        facts = agent.facts
        assert (facts.name, facts.conditioning, facts.transcript) == ("fun-audio-chat-8b", "full", "native")
    assert config()["prompt_prefix"] == PREFIX
