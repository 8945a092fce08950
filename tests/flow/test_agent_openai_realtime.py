"""GPT-Realtime's adapter against a strict server on loopback that misbehaves on demand."""

import json
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import pytest
import yaml
from builders import EnergyWatch, a_case, a_turn
from peers.openai_realtime import KEY, Manners, Peer, openai_peer
from peers.talk import Talk, quiet, talk, tone
from peers.voice import ToneVoice

from dsbif.agents.openai_realtime import OpenaiRealtime, OpenaiRealtimeSettings
from dsbif.agents.systems import target_of
from dsbif.audio.wav import quantised
from dsbif.errors import AgentBusyError, AgentError, AgentLostError, ConfigError
from dsbif.files import CONF_DIR
from dsbif.session.agent import AgentAudio, AgentText, Interrupted, LiveAgent, Note, TurnDone
from dsbif.session.live import LiveDriver
from dsbif.session.pcm import Pcm
from dsbif.session.running import Episode, Stage, Take
from dsbif.session.user import Pacing
from dsbif.spans import Span

TURN = np.concatenate([tone(0.4), quiet(0.6)])


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def settings(name: str = "gpt_realtime", **changes: Any) -> OpenaiRealtimeSettings:
    config = yaml.safe_load((CONF_DIR / "model" / f"{name}.yaml").read_text())
    return OpenaiRealtimeSettings(**{f.name: config[f.name] for f in fields(OpenaiRealtimeSettings)} | changes)


def agent(peer: Peer, **changes: Any) -> OpenaiRealtime:
    return OpenaiRealtime(settings(**{"base_url": peer.url} | changes))


def done(talk: Talk) -> bool:
    return bool(talk.of(TurnDone))


def run(manners: Manners | None = None, seconds: float = 0.4, **options: Any) -> tuple[Talk, Peer]:
    with openai_peer(partial(ToneVoice, seconds=seconds), manners) as peer:
        got = talk(agent(peer, **options), TURN, done)
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
    assert got.of(TurnDone) == [TurnDone("completed")]
    assert got.of(Interrupted) == []
    assert peer.sessions[0].closed


def test_the_session_is_as_the_paper_has_it() -> None:
    got, peer = run()
    asked = peer.sessions[0].session
    assert asked["instructions"] == "You are a nurse."
    assert asked["output_modalities"] == ["audio"]
    assert asked["audio"]["input"]["turn_detection"] == {
        "type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 800,
        "create_response": True, "interrupt_response": True,
    }  # fmt: skip
    assert (
        asked["audio"]["input"]["format"] == asked["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 24000}
    )
    assert peer.sessions[0].query["model"] == ["gpt-realtime"]
    echo = json.loads(got.note("session"))
    assert (echo["instructions"], echo["model"]) == ("You are a nurse.", "gpt-realtime")
    assert echo["audio"]["output"]["voice"] == "marin"


def test_no_prompt_is_sent_as_an_empty_one() -> None:
    with openai_peer(ToneVoice) as peer:
        got = talk(agent(peer), TURN, done, prompt="")
    assert peer.sessions[0].session["instructions"] == ""
    assert json.loads(got.note("session"))["instructions"] == ""


def test_every_sample_of_the_user_arrives_in_frames_of_20_ms() -> None:
    _, peer = run()
    assert np.array_equal(peer.sessions[0].sound, quantised(TURN))
    assert set(peer.sessions[0].appends) == {960}


def test_a_second_session_knows_nothing_of_the_first() -> None:
    with openai_peer(ToneVoice) as peer:
        first, second = (talk(agent(peer), TURN, done) for _ in range(2))
    assert np.array_equal(first.sound, second.sound)
    assert first.words == second.words
    assert len(peer.sessions) == 2


def test_pieces_of_any_size_shift_nothing() -> None:
    got, _ = run(Manners(chunk_bytes=481))
    assert is_answer(got.sound, 0.4)


def test_a_burst_of_20_s_comes_through_whole() -> None:
    got, _ = run(Manners(chunk_bytes=960_000), seconds=20.0)
    assert len(got.of(AgentAudio)) == 1
    assert is_answer(got.sound, 20.0)


def test_a_late_handshake_is_waited_for() -> None:
    got, peer = run(Manners(late_s=1.0))
    assert done(got)
    assert peer.handshakes == [101]


def test_silence_brings_no_answer_and_no_complaint() -> None:
    with openai_peer(ToneVoice) as peer:
        got = talk(agent(peer), quiet(1.0))
    assert [type(e) for e in got.emissions] in ([], [Note])


def test_an_agent_that_does_not_answer_is_a_result() -> None:
    with openai_peer(ToneVoice, Manners(mute=True)) as peer:
        got = talk(agent(peer), TURN, lambda talk: bool(talk.of(Note)))
    assert got.of(AgentAudio) == got.of(AgentText) == []


def test_talking_over_an_answer_cancels_it_and_its_words_are_kept() -> None:
    """An answer of 20 s that comes bit by bit: the user begins to speak when 1.5 s of it have come."""
    with openai_peer(partial(ToneVoice, seconds=20.0), Manners(paced=True)) as peer:
        got = talk(agent(peer), TURN, lambda talk: len(talk.sound) >= 36_000, then=[(tone(0.4), done)])
    stops = got.of(Interrupted)
    assert stops == [Interrupted("speech_started"), Interrupted("turn_detected")]
    assert got.of(TurnDone) == [TurnDone("cancelled")]
    told = [json.loads(e.text) for e in got.emissions if isinstance(e, Note) and e.name == "interrupted"]
    assert [note["why"] for note in told] == ["speech_started", "turn_detected"]
    assert {note["transcript"] for note in told} == {"Answer 1."}
    assert 1500 <= told[0]["delivered_ms"] <= told[1]["delivered_ms"] < 20_000
    assert told[1]["delivered_ms"] == len(got.sound) // 24


def test_talking_over_an_answer_that_was_sent_at_once_says_how_much_was_heard() -> None:
    """3 s of answer arrive in no time; 0.5 s of silence later the user speaks again."""
    with openai_peer(partial(ToneVoice, seconds=3.0)) as peer:
        again = (np.concatenate([quiet(0.5), tone(0.2)]), lambda talk: bool(talk.of(Interrupted)))
        got = talk(agent(peer), np.concatenate([tone(0.4), quiet(0.3)]), done, then=[again])
    assert got.of(Interrupted) == [Interrupted("speech_started")]
    told = json.loads(got.note("interrupted"))
    assert (told["transcript"], told["delivered_ms"]) == ("Answer 1.", 3000)
    assert 400 <= told["played_ms"] <= 900


@pytest.mark.parametrize(
    ("manners", "kind", "message"),
    [
        (Manners(fault_after_s=0.2), AgentError, r"gpt-realtime reported an error: server_error: it broke\."),
        (
            Manners(fault_after_s=0.2, fault={"type": "request", "code": "session_expired", "message": "60 min"}),
            AgentLostError,
            "reported an error: request/session_expired: 60 min",
        ),
        (Manners(close_after_s=0.2), AgentLostError, r"closed the connection during the session \(1011 internal"),
        (Manners(close_after_s=0.2, goodbye=(1000, "")), AgentLostError, r"during the session \(1000\)"),
        (Manners(close_after_s=0.2, goodbye=(None, "")), AgentLostError, r"during the session \(1006 no close frame\)"),
        (
            Manners(last_status="failed", last_details={
                "type": "failed", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow down"},
            }),
            AgentError,
            r"gpt-realtime failed to answer: tokens/rate_limit_exceeded: slow down\.",
        ),
        (Manners(strange="[1]"), AgentError, r"gpt-realtime sent something that is no event: '\[1\]'"),
        (Manners(strange="{"), AgentError, "sent something that is no event"),
        (
            Manners(update_error={"type": "request", "code": "invalid_value", "message": "no voice marin"}),
            AgentError,
            r"gpt-realtime refused the session \(request invalid_value no voice marin\)\.",
        ),
        (
            Manners(update_error={"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "sessions"}),
            AgentBusyError,
            "has no session free",
        ),
        (Manners(refusals=[(401, {}, f"wrong key {KEY}")]), AgentError,
         r"gpt-realtime refused the key \(HTTP 401: wrong key \*\*\*\); check the variable OPENAI_API_KEY"),
        (Manners(refusals=[(404, {}, "")]), AgentError, r"has no such address or model \(HTTP 404\)"),
        (Manners(refusals=[(429, {}, '{"code": "insufficient_quota"}')]), AgentError, "has no credit"),
        (Manners(refusals=[(500, {}, "oops")]), AgentLostError, r"failed to open a session \(HTTP 500: oops\)"),
        (Manners(refusals=[(400, {}, "bad")]), AgentError, r"refused the session \(HTTP 400: bad\)"),
    ],
)  # fmt: skip
def test_each_misbehaviour_is_told_as_what_it_is(manners: Manners, kind: type[AgentError], message: str) -> None:
    with openai_peer(ToneVoice, manners) as peer, pytest.raises(AgentError, match=message) as raised:
        talk(agent(peer), TURN, done)
    assert type(raised.value) is kind
    assert KEY not in str(raised.value)
    assert raised.value.__cause__ is None
    assert len(peer.sessions) <= 1, "a session must not be opened again within a case"
    assert [session.faults for session in peer.sessions if session.faults] == []


def test_an_unfinished_answer_is_noted() -> None:
    details = {"type": "incomplete", "reason": "content_filter"}
    got, _ = run(Manners(last_status="incomplete", last_details=details))
    assert got.of(TurnDone) == [TurnDone("incomplete")]
    assert got.note("response") == "incomplete: content_filter"


@pytest.mark.parametrize(
    ("headers", "retry_after_s"),
    [({"Retry-After": "7"}, 7.0), ({"retry-after-ms": "1500"}, 1.5), ({"Retry-After": "tomorrow"}, None), ({}, None)],
)
def test_too_many_sessions_is_waited_for(headers: dict[str, str], retry_after_s: float | None) -> None:
    with (
        openai_peer(ToneVoice, Manners(refusals=[(429, headers, "slow down")])) as peer,
        pytest.raises(AgentBusyError, match="has no session free") as raised,
    ):
        talk(agent(peer), TURN)
    assert raised.value.retry_after_s == retry_after_s


def test_a_server_that_is_not_there_is_lost() -> None:
    with openai_peer(ToneVoice) as peer:
        gone = peer
    with pytest.raises(AgentLostError, match=r"gpt-realtime cannot be reached at http://127\.0\.0\.1:"):
        talk(agent(gone), TURN)


def test_a_compatible_server_may_want_other_keys_and_no_key() -> None:
    with openai_peer(ToneVoice) as peer:
        mine = settings(
            "openai_realtime", model="tiny", base_url=peer.url.replace("http", "ws"),
            omit=["audio.output.format", "audio.input.turn_detection.create_response", "no.such.key"],
            session_extra={"audio": {"input": {"noise_reduction": {"type": "near_field"}}}, "max_output_tokens": 100},
        )  # fmt: skip
        got = talk(OpenaiRealtime(mine), TURN, done)
    asked = peer.sessions[0].session
    assert done(got)
    assert asked["audio"]["output"] == {}
    assert "create_response" not in asked["audio"]["input"]["turn_detection"]
    assert asked["audio"]["input"]["noise_reduction"] == {"type": "near_field"}
    assert asked["max_output_tokens"] == 100


def test_answers_of_a_server_without_item_ids_stay_apart() -> None:
    with openai_peer(ToneVoice, Manners(without_item_ids=True, chunk_bytes=4799)) as peer:
        more = (TURN, lambda talk: len(talk.of(TurnDone)) == 2)
        got = talk(agent(peer), TURN, done, then=[more])
    assert " ".join(got.words) == "Answer 1. Answer 2."
    assert len(got.sound) == 2 * 9600


def _take(peer: Peer) -> Take:
    """A case of 0.4 s turns through the driver, with the paper's waits made short."""
    episode = Episode(a_case(turn1=a_turn(9600), turn2=a_turn(9600), window=Span(0, 0.3)), tone(0.4), tone(0.4))
    pacing = Pacing(0.6, 0.2, 2.0, answer_timeout_s=5.0, final_timeout_s=5.0, flush_s=0.2)
    takes: list[Take] = []
    LiveDriver(agent(peer), Stage(pacing, EnergyWatch), takes.append, 1).run([episode])
    return takes[0]


def test_the_driver_waits_for_a_free_session_and_for_answers() -> None:
    with openai_peer(ToneVoice, Manners(refusals=[(429, {"Retry-After": "0.1"}, "")])) as peer:
        record = _take(peer).recording
    assert (record.status, record.error, record.flags) == ("ok", "", ())
    assert peer.handshakes == [429, 101]
    assert record.turn2_onset_samples is not None
    # The answer comes 0.2 s after turn 1, and turn 2 another 0.6 s later: long before the wait of 5 s is over.
    assert 1.15 * 24_000 < record.turn2_onset_samples < 5 * 24_000
    assert record.transcript.text == "Answer 1. Answer 2."
    assert [note.name for note in record.notes] == ["session"]
    assert peer.sessions[0].samples == len(peer.sessions[0].sound) >= record.turn2_onset_samples + 9600


def test_a_session_that_breaks_is_tried_again_afresh_and_then_recorded() -> None:
    with openai_peer(ToneVoice, Manners(close_after_s=0.3)) as peer:
        record = _take(peer).recording
    assert (record.status, record.flags) == ("agent_error", ("retried",))
    assert record.error == "gpt-realtime closed the connection during the session (1011 internal error)."
    assert len(peer.sessions) == 2


def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ConfigError, match="the environment variable OPENAI_API_KEY is not set"):
        OpenaiRealtime(settings())


def test_a_missing_package_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(ConfigError, match=r'pip install "dsbif\[realtime\]"'):
        OpenaiRealtime(settings())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vad_threshold": 2.0}, r"vad_threshold is 2\.0; wanted 0 to 1"),
        ({"vad_silence_ms": -1}, "vad_silence_ms is -1"),
        ({"base_url": "ftp://x"}, "base_url is 'ftp://x'; wanted an address that begins with http://, https://, ws://, wss://"),
        ({"base_url": "http://me:secret@x"}, "base_url holds a user or a password"),
        ({"model": ""}, "model is empty"),
        ({"api_key_env": None}, "api_key_env is null"),
        ({"loud": 1}, "loud"),
    ],
)  # fmt: skip
def test_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    config = {f.name: getattr(settings(), f.name) for f in fields(OpenaiRealtimeSettings)}
    with pytest.raises(ConfigError, match=message):
        target_of("openai_realtime", "live", config | changes, 1)


def test_it_is_a_live_agent_and_shows_no_key() -> None:
    made = OpenaiRealtime(settings())
    assert isinstance(made, LiveAgent)
    assert (made.facts.conditioning, made.facts.transcript) == ("full", "native")
    assert KEY not in repr(vars(made)) + repr(made.facts)
