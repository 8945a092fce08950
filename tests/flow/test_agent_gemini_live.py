"""Gemini Live's adapter against a strict server on loopback that misbehaves on demand."""

import json
import os
import sys
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import pytest
import yaml
from peers.gemini_live import KEY, Manners, Peer, gemini_peer
from peers.talk import Talk, quiet, talk, tone
from peers.voice import ToneVoice

from dsbif.agents.gemini_live import GeminiLive, GeminiLiveSettings
from dsbif.agents.systems import target_of
from dsbif.audio.resample import resample
from dsbif.errors import AgentBusyError, AgentError, AgentLostError, ConfigError
from dsbif.files import CONF_DIR
from dsbif.session.agent import AgentAudio, AgentText, Interrupted, LiveAgent, TurnDone
from dsbif.session.pcm import Pcm

TURN = np.concatenate([tone(0.4), quiet(0.6)])


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    # What somebody set for other work must not change ours.
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza-of-something-else")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")


def settings(**changes: Any) -> GeminiLiveSettings:
    config = yaml.safe_load((CONF_DIR / "model" / "gemini_live.yaml").read_text())
    config = {f.name: config[f.name] for f in fields(GeminiLiveSettings)} | {"model": "gemini-live-test"}
    return GeminiLiveSettings(**(config | changes))


def agent(peer: Peer, **changes: Any) -> GeminiLive:
    return GeminiLive(settings(base_url=peer.url, **changes))


def done(talk: Talk) -> bool:
    return bool(talk.of(TurnDone))


def run(manners: Manners | None = None, seconds: float = 0.4, prompt: str = "Be kind.") -> tuple[Talk, Peer]:
    with gemini_peer(partial(ToneVoice, seconds=seconds), manners) as peer:
        got = talk(agent(peer), TURN, done, prompt=prompt)
    assert [session.faults for session in peer.sessions] == [[]] * len(peer.sessions)
    return got, peer


def is_answer(sound: Pcm, seconds: float) -> bool:
    """Whether it is ToneVoice's first answer, within 16 bits."""
    wanted = 0.4 * np.sin(2 * np.pi * 220 * np.arange(round(seconds * 24_000)) / 24_000)
    return len(sound) == len(wanted) and float(np.abs(sound - wanted).max()) < 1e-4


def test_an_answer_comes_whole_and_its_words_are_words() -> None:
    got, peer = run()
    assert is_answer(got.sound, 0.4)
    assert got.words == ["Answer", "1."]
    assert got.of(TurnDone) == [TurnDone("turn_complete")]
    assert got.of(Interrupted) == []
    assert got.note("generation_complete") == ""
    assert peer.sessions[0].closed


def test_the_session_is_as_configured() -> None:
    _, peer = run()
    setup = peer.sessions[0].setup
    assert setup["model"] == "models/gemini-live-test"
    voice = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Zephyr"}}}
    assert setup["generationConfig"] == {"responseModalities": ["AUDIO"], "speechConfig": voice}
    assert setup["outputAudioTranscription"] == {}
    assert peer.sessions[0].prompt == "Be kind."
    assert "realtimeInputConfig" not in setup


def test_turn_detection_and_temperature_are_sent_where_they_are_set() -> None:
    with gemini_peer(ToneVoice) as peer:
        talk(agent(peer, vad_silence_ms=800, vad_prefix_ms=300, temperature=0.5), TURN, done)
    setup = peer.sessions[0].setup
    detection = setup["realtimeInputConfig"]["automaticActivityDetection"]
    assert detection == {"silenceDurationMs": 800, "prefixPaddingMs": 300}
    assert setup["generationConfig"]["temperature"] == 0.5


def test_no_prompt_leaves_the_system_instruction_out() -> None:
    _, peer = run(prompt="")
    assert "systemInstruction" not in peer.sessions[0].setup
    assert peer.sessions[0].prompt is None


def test_every_sample_of_the_user_arrives_at_16_khz() -> None:
    """What the resampler still holds at the end, at most 40 ms, is silence in every session."""
    sound = np.concatenate([tone(0.5), quiet(0.2)])
    with gemini_peer(ToneVoice) as peer:
        talk(agent(peer), sound, lambda talk: peer.sessions[0].samples >= len(sound) - 960)
    wanted = resample(sound, 24_000, 16_000)
    heard = peer.sessions[0].sound
    assert 0 <= len(wanted) - len(heard) <= 640
    assert heard == pytest.approx(wanted[: len(heard)], abs=1e-3)


def test_a_session_goes_on_after_a_turn_and_a_second_session_knows_nothing_of_the_first() -> None:
    with gemini_peer(ToneVoice) as peer:
        more = (TURN, lambda talk: len(talk.of(TurnDone)) == 2)
        first, second = (talk(agent(peer), TURN, done, then=[more]) for _ in range(2))
    assert " ".join(first.words) == "Answer 1. Answer 2."
    assert len(first.sound) == 2 * 9600
    assert first.words == second.words
    assert np.array_equal(first.sound, second.sound)


def test_pieces_of_any_size_shift_nothing() -> None:
    got, _ = run(Manners(chunk_bytes=481))
    assert is_answer(got.sound, 0.4)


def test_a_burst_of_30_s_in_one_message_comes_through_whole() -> None:
    got, _ = run(Manners(chunk_bytes=1_440_000), seconds=30.0)
    assert len(got.of(AgentAudio)) == 1
    assert is_answer(got.sound, 30.0)


def test_a_late_handshake_is_waited_for() -> None:
    got, peer = run(Manners(late_s=1.0))
    assert done(got)
    assert peer.handshakes == [101]


def test_silence_brings_no_answer_and_no_complaint() -> None:
    with gemini_peer(ToneVoice) as peer:
        got = talk(agent(peer), quiet(1.0))
    assert got.emissions == []


def test_an_agent_that_does_not_answer_is_a_result() -> None:
    with gemini_peer(ToneVoice, Manners(mute=True)) as peer:
        got = talk(agent(peer), TURN, lambda talk: peer.sessions[0].samples > 20_000)
    assert got.of(AgentAudio) == got.of(AgentText) == []


def test_talking_over_an_answer_interrupts_it_and_its_words_are_kept() -> None:
    with gemini_peer(partial(ToneVoice, seconds=20.0), Manners(paced=True)) as peer:
        got = talk(agent(peer), TURN, lambda talk: bool(talk.of(AgentAudio)), then=[(tone(0.4), done)])
    assert got.of(Interrupted) == [Interrupted("interrupted")]
    told = json.loads(got.note("interrupted"))
    assert told["transcript"] == "Answer 1."
    assert 0 < told["delivered_ms"] == len(got.sound) // 24 < 20_000
    assert told["played_ms"] <= told["delivered_ms"]


def test_a_goodbye_in_advance_and_the_reason_of_an_end_are_noted() -> None:
    got, _ = run(Manners(go_away_after_s=0.1, turn_reason="GENERATED_AUDIO_SAFETY"))
    assert got.note("go_away") == "the server ends the session in 10s"
    assert got.note("turn_complete_reason") == "GENERATED_AUDIO_SAFETY"


@pytest.mark.parametrize(
    ("manners", "kind", "message"),
    [
        (Manners(close_after_s=0.2), AgentLostError, r"during the session \(1011 Internal error encountered\.\)"),
        (Manners(close_after_s=0.2, goodbye=(1000, "")), AgentLostError, r"during the session \(1000\)"),
        (Manners(close_after_s=0.2, goodbye=(None, "")), AgentLostError, r"closed the connection during the session"),
        (Manners(close_after_s=0.2, goodbye=(1008, f"bad {KEY}")), AgentLostError, r"\(1008 bad \*\*\*\)"),
        (Manners(mime_type="audio/opus"), AgentError, "sent 'audio/opus'; wanted audio/pcm;rate=24000"),
        (Manners(mime_type="audio/pcm;rate=16000"), AgentError, "sent 'audio/pcm;rate=16000'"),
        (Manners(strange="{"), AgentError, "gemini-live-test sent something that is no message: Failed to parse"),
        (Manners(strange='{"serverContent": 5}'), AgentError, "sent something that is no message"),
        (
            Manners(strange='{"code": 500, "message": "oops"}'), AgentError,
            r"gemini-live-test reported an error: 500 None\. \{'code': 500, 'message': 'oops'\}",
        ),
        (Manners(no_setup={"serverContent": {}}), AgentError, "gemini-live-test did not confirm the session"),
        (
            Manners(refuse_setup=(1007, "API key not valid.")), AgentError,
            r"closed the connection before the session was ready \(1007 API key not valid\.\)",
        ),
        (
            Manners(refuse_setup=(1011, "You exceeded your current quota")), AgentBusyError,
            "gemini-live-test has no session free: it closed the connection",
        ),
        (Manners(refusals=[(403, {}, f"no {KEY}")]), AgentError,
         r"refused the key \(HTTP 403: no \*\*\*\); check the variable GEMINI_API_KEY"),
        (Manners(refusals=[(404, {}, "")]), AgentError, r"has no such address or model \(HTTP 404\)"),
        (Manners(refusals=[(429, {"Retry-After": "7"}, "")]), AgentBusyError, "has no session free"),
        (Manners(refusals=[(503, {}, "")]), AgentBusyError, "has no session free"),
        (Manners(refusals=[(500, {}, "")]), AgentLostError, r"failed to open a session \(HTTP 500\)"),
    ],
)  # fmt: skip
def test_each_misbehaviour_is_told_as_what_it_is(manners: Manners, kind: type[AgentError], message: str) -> None:
    retry_after_s = next((float(h["Retry-After"]) for _, h, _ in manners.refusals if "Retry-After" in h), None)
    with gemini_peer(ToneVoice, manners) as peer, pytest.raises(AgentError, match=message) as raised:
        talk(agent(peer), TURN, done)
    assert type(raised.value) is kind
    assert KEY not in str(raised.value)
    assert getattr(raised.value, "retry_after_s", None) == retry_after_s
    assert len(peer.sessions) <= 1, "a session must not be opened again within a case"
    assert [session.faults for session in peer.sessions if session.faults] == []


def test_a_server_that_is_not_there_or_not_trusted_is_lost() -> None:
    with gemini_peer(ToneVoice) as peer:
        del os.environ["SSL_CERT_FILE"]  # the peer puts back what was there before it
        with pytest.raises(AgentLostError, match=r"cannot be reached at https://127\.0\.0\.1:\d+: SSLCertVerif"):
            talk(agent(peer), TURN)
    with pytest.raises(AgentLostError, match="gemini-live-test cannot be reached at https://127"):
        talk(agent(peer), TURN)


def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    with pytest.raises(ConfigError, match="the environment variable GEMINI_API_KEY is not set"):
        GeminiLive(settings())


def test_a_missing_package_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.genai", None)
    with pytest.raises(ConfigError, match=r'pip install "dsbif\[gemini\]"'):
        GeminiLive(settings())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": "http://x"}, "base_url is 'http://x'; wanted an address that begins with https://"),
        ({"vad_silence_ms": -1}, "vad_silence_ms is -1"),
        ({"temperature": 3.0}, r"temperature is 3\.0; wanted 0 to 2"),
        ({"voice": ""}, "voice is empty"),
        ({"loud": 1}, "loud"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    config = {f.name: getattr(settings(), f.name) for f in fields(GeminiLiveSettings)}
    with pytest.raises(ConfigError, match=message):
        target_of("gemini_live", "live", config | changes, 1)


def test_it_is_a_live_agent() -> None:
    made = GeminiLive(settings())
    assert isinstance(made, LiveAgent)
    assert (made.facts.name, made.facts.conditioning, made.facts.transcript) == ("gemini-live-test", "full", "native")
    assert KEY not in repr(made.facts) + repr(vars(made))
