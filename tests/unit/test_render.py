from pathlib import Path

import numpy as np
import pytest

from dsbif.audio.wav import Samples, read_wav, write_pcm16
from dsbif.build.render import JOINT_SAMPLES, pause_samples, render_turn, trim
from dsbif.build.script import Line
from dsbif.errors import CaseError
from dsbif.spans import Span

MS = 24
"""Samples of a millisecond."""


class Buzzer:
    """Says a word as 100 ms of a 200 Hz tone at half scale, with 300 ms of near-silence before and 500 ms after."""

    identity = "buzzer"
    voices = ("low", "mute")

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def speak(self, text: str, voice: str) -> Samples:
        self.said.append((text, voice))
        n = 100 * MS * len(text.split()) if voice == "low" else 0
        tone = np.where(np.arange(n) // 60 % 2 == 0, 0.5, -0.5)
        hum = 0.5 * 10 ** (-45 / 20)
        return np.concatenate([np.full(300 * MS, hum), tone, np.full(500 * MS, -hum)]).astype(np.float32)


def word_samples(words: int) -> int:
    """The tone, and ten milliseconds kept on both sides."""
    return (100 * words + 20) * MS


LINES = (
    Line("s1", text="one two three,"),
    Line("check", text="you know?"),
    Line("pause", pause_s=1.5),
    Line("s4", text="four."),
)


def test_segments_lie_end_to_end_with_a_joint_between_speech_and_speech() -> None:
    turn = render_turn(LINES, Buzzer(), "low")
    edges = [(round(s.span.start_s * 24_000), round(s.span.end_s * 24_000)) for s in turn.segments]
    check = word_samples(3) + JOINT_SAMPLES
    pause = check + word_samples(2)
    last = pause + 36_000
    assert edges == [(0, word_samples(3)), (check, pause), (pause, last), (last, last + word_samples(1))]
    assert len(turn.samples) == edges[-1][1]
    assert [(s.name, s.kind, s.text) for s in turn.segments][1:3] == [
        ("check", "speech", "you know?"),
        ("pause", "silence", ""),
    ]
    assert JOINT_SAMPLES <= 80 * MS


def test_pauses_and_joints_are_exact_zeros_and_speech_is_not() -> None:
    turn = render_turn(LINES, Buzzer(), "low")
    first, check, pause, last = (turn.samples[round(s.span.start_s * 24_000) : round(s.span.end_s * 24_000)]
                                 for s in turn.segments)  # fmt: skip
    joint = turn.samples[word_samples(3) : word_samples(3) + JOINT_SAMPLES]
    assert not joint.any()
    assert not pause.any()
    for piece in (first, check, last):
        assert np.abs(piece[10 * MS : -10 * MS]).min() == pytest.approx(0.5, abs=1e-4)


def test_every_segment_is_spoken_alone_with_the_one_voice() -> None:
    engine = Buzzer()
    render_turn(LINES, engine, "low")
    assert engine.said == [("one two three,", "low"), ("you know?", "low"), ("four.", "low")]


def test_loudness_is_left_alone() -> None:
    assert np.abs(render_turn(LINES, Buzzer(), "low").samples).max() == pytest.approx(0.5, abs=1e-4)


def test_the_array_is_what_its_file_holds(tmp_path: Path) -> None:
    turn = render_turn(LINES, Buzzer(), "low")
    write_pcm16(tmp_path / "t.wav", turn.samples, 24_000)
    assert np.array_equal(read_wav(tmp_path / "t.wav")[0][:, 0], turn.samples)


def test_a_cut_begins_and_ends_at_zero_and_rises_over_five_milliseconds() -> None:
    edge = trim(np.full(24_000, 0.25, np.float32))
    assert edge[0] == edge[-1] == 0
    assert edge[5 * MS] == edge[-5 * MS - 1] == 0.25
    assert np.abs(np.diff(edge)).max() < 0.0025


@pytest.mark.parametrize(("below_db", "kept_ms"), [(24, 480), (26, 400), (39, 400), (41, 250)])
@pytest.mark.parametrize("before", [True, False])
def test_a_fade_within_forty_decibels_is_kept_for_150_ms_and_speech_within_25_for_good(
    below_db: float, kept_ms: int, before: bool
) -> None:
    """Some voices breathe half a second on at -30 dB; that is no part of what they said."""
    quiet, loud = np.full(240 * MS, 10 ** (-below_db / 20)), np.full(240 * MS, 1.0)
    out = trim(np.concatenate([quiet, loud] if before else [loud, quiet]).astype(np.float32))
    assert len(out) == kept_ms * MS


def test_a_hiss_that_crackles_is_no_speech() -> None:
    """A 5 ms crackle within 25 dB every 50 ms, in a hiss 30 dB down: what is cut is what a hiss alone would be."""
    hiss = np.full(400 * MS, 10 ** (-30 / 20))
    for at in range(10, 400, 50):
        hiss[at * MS : (at + 5) * MS] = 10 ** (-24 / 20)
    out = trim(np.concatenate([np.full(240 * MS, 1.0), hiss]).astype(np.float32))
    assert len(out) == (240 + 150 + 10) * MS


def test_a_line_without_sound_names_voice_and_text() -> None:
    with pytest.raises(CaseError, match=r"voice mute says nothing audible for 'one\.'"):
        render_turn([Line("s1", text="one.")], Silent(), "mute")


class Silent(Buzzer):
    """Says nothing at all."""

    def speak(self, text: str, voice: str) -> Samples:
        return np.zeros(12_000, np.float32)


@pytest.mark.parametrize(
    ("duration_s", "samples"), [(1.2, 28_800), (2.5, 60_000), (7.0, 168_000), (11.0, 264_000), (1.00003, 24_000)]
)
def test_a_pause_is_the_floor_of_its_samples(duration_s: float, samples: int) -> None:
    assert pause_samples(duration_s) == samples
    turn = render_turn([Line("a", text="one,"), Line("p", pause_s=duration_s), Line("b", text="two.")], Buzzer(), "low")
    pause = turn.segments[1].span
    assert pause == Span(word_samples(1) / 24_000, (word_samples(1) + samples) / 24_000)
