"""24 kHz and 22,050 Hz: exact lengths, the right frame, one unbroken tone."""

import numpy as np
import pytest
from peers.factor import Codes, Floats, ToneCodec

from dsbif.agents.factor_sound import CODEC_FRAME, FRAME_SAMPLES, HELD_SAMPLES, UserEar, Voice, resampled

RATE = 24_000


class Sine:
    """A codec whose speech is one tone, whatever the codes: the place in it is the first code."""

    def decode(self, codes: Codes) -> Floats:
        at = np.concatenate([np.arange(CODEC_FRAME) + CODEC_FRAME * column[0] for column in codes.T])
        return (0.5 * np.sin(2 * np.pi * 440 * at / 22_050)).astype(np.float32)

    encode = decode


@pytest.mark.parametrize("frames", [1, 3, 25, 1000])
def test_whole_frames_stay_whole(frames: int) -> None:
    assert len(resampled(np.zeros(frames * FRAME_SAMPLES, np.float32), RATE, 22_050)) == frames * CODEC_FRAME
    assert len(resampled(np.zeros(frames * CODEC_FRAME, np.float32), 22_050, RATE)) == frames * FRAME_SAMPLES


def test_the_agents_speech_is_unbroken_between_frames() -> None:
    voice = Voice(Sine(), context=4)
    frames = [voice.speak(np.full(4, number, np.int64)) for number in range(50)]
    assert {len(frame) for frame in frames} == {FRAME_SAMPLES}
    said = np.concatenate(frames)
    at = np.arange(len(said)) - HELD_SAMPLES
    inside = slice(HELD_SAMPLES + 200, None)
    wanted = 0.5 * np.sin(2 * np.pi * 440 * at / RATE)
    assert np.abs(said[inside] - wanted[inside]).max() < 1e-3
    assert np.abs(said[: HELD_SAMPLES - 60]).max() < 1e-2


@pytest.mark.parametrize("lookahead", [0, 1, 2, 5])
def test_the_ear_gives_the_frame_that_the_lookahead_names(lookahead: int) -> None:
    ear = UserEar(ToneCodec(), context=10, lookahead=lookahead)
    tone = np.sin(2 * np.pi * 400 * np.arange(FRAME_SAMPLES) / RATE) * 2**0.5
    heard = [ear.hear((tone * 0.02 * number).astype(np.float32)) for number in range(1, 15)]
    assert [codes is None for codes in heard] == [n < lookahead for n in range(14)]
    loudness = [int(codes[0]) for codes in heard if codes is not None]
    # frame n, counted from 1, has an effective value of 0.02 n, and the codec's unit is 1/4000
    assert loudness == pytest.approx([80 * n for n in range(1, 15 - lookahead)], abs=15)


def test_codes_and_samples_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="the codec has no code 4032; wanted 0 to 4031"):
        Voice(Sine(), 4).speak(np.full(4, 4032, np.int64))

    class Broken(Sine):
        def decode(self, codes: Codes) -> Floats:
            return np.full(codes.shape[1] * CODEC_FRAME, np.nan, np.float32)

    with pytest.raises(ValueError, match="samples that are no numbers"):
        Voice(Broken(), 4).speak(np.zeros(4, np.int64))
