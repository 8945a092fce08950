"""What adapters of live systems share: pieces of audio, rates, words, and how much of an answer has been heard."""

import json

import numpy as np
import pytest

from dsbif.agents.sockets import Peer, check_url
from dsbif.agents.wire import Answer, Pcm16Reader, Rate, Words, to_pcm16
from dsbif.audio.wav import quantised
from dsbif.errors import AgentBusyError, AgentError, AgentLostError
from dsbif.session.agent import AgentAudio, AgentText, Emission

NOISE = np.random.default_rng(1).uniform(-1, 1, 4800).astype(np.float32)


def test_sixteen_bits_there_and_back() -> None:
    assert np.array_equal(Pcm16Reader().push(to_pcm16(NOISE)), quantised(NOISE))
    edges = np.array([-2.0, -1.0, 0.0, 1.0, 2.0], np.float32)
    assert np.frombuffer(to_pcm16(edges), "<i2").tolist() == [-32768, -32768, 0, 32767, 32767]


@pytest.mark.parametrize("size", [1, 2, 3, 481, 10_000])
def test_pieces_of_any_size_lose_no_byte(size: int) -> None:
    reader, data = Pcm16Reader(), to_pcm16(NOISE)
    got = np.concatenate([reader.push(data[at : at + size]) for at in range(0, len(data), size)])
    assert np.array_equal(got, quantised(NOISE))


def test_half_a_sample_is_forgotten_where_a_new_stream_begins() -> None:
    reader = Pcm16Reader()
    reader.push(b"\x01")
    reader.clear()
    assert reader.push(b"\x00\x40").tolist() == [0.5]


@pytest.mark.parametrize(("from_hz", "to_hz"), [(24_000, 16_000), (8_000, 24_000), (44_100, 24_000), (24_000, 24_000)])
def test_a_stream_keeps_its_length_at_another_rate(from_hz: int, to_hz: int) -> None:
    rate = Rate(from_hz, to_hz)
    sound = np.resize(NOISE, from_hz)  # one second
    for _ in range(2):  # the second stream is as the first
        pieces = [rate.push(sound[at : at + 480]) for at in range(0, from_hz, 480)]
        rest = rate.flush()
        assert sum(map(len, pieces)) + len(rest) == to_hz
        assert len(rest) <= to_hz // 20
        assert len(rate.flush()) == 0


def test_words_are_whole() -> None:
    words = Words()
    pieces = ["I", "'m fi", "ne.", " And", " ", "you", "?\n"]
    assert [words.push(piece) for piece in pieces] == ["", "I'm ", "", "fine. ", "And ", "", "you?\n"]
    assert words.flush() == ""


def _kinds(emissions: list[Emission]) -> list[object]:
    return [e.text if isinstance(e, AgentText) else type(e) for e in emissions]


def test_an_answer_knows_how_much_of_it_has_been_heard() -> None:
    answer = Answer()
    answer.sent_samples = 24_000
    assert answer.begin() == []
    assert _kinds(answer.text("Good day")) == ["Good "]
    assert _kinds(answer.audio(b"\0" * 48_000)) == [AgentAudio]  # 1 s, played from 1 s to 2 s
    answer.sent_samples = 36_000
    answer.audio(b"\0" * 48_000)  # another, behind it: to 3 s
    assert answer.playing
    told = json.loads(answer.interrupted("x").text)
    assert told == {"why": "x", "transcript": "Good day", "delivered_ms": 2000, "played_ms": 500}
    answer.sent_samples = 72_000
    assert not answer.playing
    assert json.loads(answer.interrupted("x").text)["played_ms"] == 2000
    assert _kinds(answer.begin()) == ["day"]
    assert json.loads(answer.interrupted("x").text)["delivered_ms"] == 0


def test_an_address_with_a_secret_is_refused_without_repeating_it() -> None:
    with pytest.raises(ValueError, match="url holds a user or a password") as raised:
        check_url("url", "ws://me:hush@host", ("ws",))
    assert "hush" not in str(raised.value)


def test_a_key_is_cut_out_before_text_is_shortened() -> None:
    peer = Peer("x", "ws://x", "sk-1234567890", "KEY")
    assert "sk-1" not in peer.clean("a" * 295 + "sk-1234567890")
    assert "sk-1" not in repr(peer)
    assert len(peer.clean("b" * 1000)) == 300


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        ("said insufficient_quota", 0, AgentError),
        ("said rate_limit_exceeded", 0, AgentBusyError),
        ("closed", 1013, AgentBusyError),
        ("closed", 1008, AgentError),
    ],
)
def test_refusals_by_words(words: str, code: int, kind: type[AgentError]) -> None:
    assert type(Peer("x", "ws://x").refused_by_words(words, code)) is kind


def test_what_nobody_foresaw_while_opening_is_a_lost_connection() -> None:
    error = Peer("x", "ws://x").unopened(OSError("no route"))
    assert type(error) is AgentLostError
    assert str(error).startswith("x cannot be reached at ws://x: OSError: no route.")
