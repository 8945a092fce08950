import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dsbif.audio.resample import StreamResampler, resample
from dsbif.audio.wav import WAV_HEADER_BYTES, quantised, read_wav, to_pcm16, write_pcm16
from dsbif.errors import CaseError

STEP = 1 / 32_768
TONE = (0.5 * np.sin(2 * np.pi * 440 * np.arange(24_000) / 24_000)).astype(np.float32)


def test_samples_come_back_as_they_were_quantised(tmp_path: Path) -> None:
    stereo = np.stack([TONE, -TONE], axis=1)
    write_pcm16(tmp_path / "a.wav", stereo, 24_000)
    samples, rate_hz = read_wav(tmp_path / "a.wav")
    assert (rate_hz, samples.dtype, samples.shape) == (24_000, np.float32, (24_000, 2))
    assert np.array_equal(samples, quantised(stereo))
    assert np.abs(samples - stereo).max() <= STEP / 2


def test_mono_comes_back_as_one_column(tmp_path: Path) -> None:
    write_pcm16(tmp_path / "a.wav", TONE, 16_000)
    assert read_wav(tmp_path / "a.wav")[0].shape == (24_000, 1)


def test_the_file_is_a_plain_44_byte_header_and_its_samples(tmp_path: Path) -> None:
    write_pcm16(tmp_path / "a.wav", np.array([[0.0, 1.0], [-1.0, 0.25]], np.float32), 24_000)
    wanted = b"RIFF" + struct.pack("<I", 44) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 2, 24_000, 96_000, 4, 16)
    wanted += b"data" + struct.pack("<I", 8) + struct.pack("<4h", 0, 32_767, -32_768, 8_192)
    assert (tmp_path / "a.wav").read_bytes() == wanted
    assert len(wanted) == WAV_HEADER_BYTES + 8


def test_the_same_samples_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        write_pcm16(tmp_path / name, TONE, 24_000)
    one, other = (hashlib.sha256((tmp_path / name).read_bytes()).digest() for name in ("a.wav", "b.wav"))
    assert one == other


@pytest.mark.parametrize(
    ("sample", "pcm"),
    [(0.4 * STEP, 0), (0.6 * STEP, 1), (-0.6 * STEP, -1), (1.6 * STEP, 2), (1.0, 32_767), (9.0, 32_767), (-9, -32_768)],
)  # fmt: skip
def test_samples_are_rounded_and_clipped(sample: float, pcm: int) -> None:
    assert to_pcm16(np.array([sample], np.float32)).tolist() == [pcm]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_not_written(tmp_path: Path, bad: float) -> None:
    (tmp_path / "a.wav").write_bytes(b"as it was")
    with pytest.raises(ValueError, match="NaN or infinite"):
        write_pcm16(tmp_path / "a.wav", np.array([0.0, bad], np.float32), 24_000)
    assert (tmp_path / "a.wav").read_bytes() == b"as it was"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.wav"]


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT", "DOUBLE"])
@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 48_000])
def test_any_rate_and_width_is_read(tmp_path: Path, subtype: str, rate_hz: int) -> None:
    soundfile.write(tmp_path / "a.wav", TONE, rate_hz, subtype=subtype)
    samples, found_hz = read_wav(tmp_path / "a.wav")
    assert found_hz == rate_hz
    assert np.abs(samples[:, 0] - TONE).max() <= 2 * STEP


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"no\.wav does not exist; record or build it again"):
        read_wav(tmp_path / "no.wav")


@pytest.mark.parametrize("content", [b"", b"RIFF", b"<html>not audio</html>" * 10])
def test_a_file_that_is_no_audio_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.wav").write_bytes(content)
    with pytest.raises(CaseError, match=r"bad\.wav cannot be read .*; remove it to have it made again"):
        read_wav(tmp_path / "bad.wav")


def test_a_file_of_no_samples_is_an_empty_array(tmp_path: Path) -> None:
    write_pcm16(tmp_path / "a.wav", np.zeros((0, 2), np.float32), 24_000)
    assert read_wav(tmp_path / "a.wav")[0].shape == (0, 2)


def test_equal_rates_give_the_same_array_and_nothing_stays_nothing() -> None:
    assert resample(TONE, 24_000, 24_000) is TONE
    assert len(resample(TONE[:0], 24_000, 16_000)) == 0


def test_a_tone_keeps_its_pitch_and_its_place() -> None:
    low = resample(TONE, 24_000, 16_000)
    wanted = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    assert (len(low), low.dtype) == (16_000, np.float32)
    assert np.abs(low - wanted)[200:-200].max() < 1e-4


def test_what_the_lower_rate_cannot_hold_is_gone() -> None:
    high = np.sin(2 * np.pi * 9_000 * np.arange(24_000) / 24_000).astype(np.float32)
    assert np.abs(resample(high, 24_000, 16_000))[200:-200].max() < 1e-5


@pytest.mark.parametrize("piece", [1, 37, 480, 24_000])
def test_pieces_of_any_size_give_the_stream_of_the_whole(piece: int) -> None:
    stream = StreamResampler(24_000, 16_000)
    joined = np.concatenate([stream.push(TONE[start : start + piece]) for start in range(0, len(TONE), piece)])
    assert 16_000 - 640 <= len(joined) <= 16_000
    assert np.abs(joined - resample(TONE, 24_000, 16_000)[: len(joined)]).max() < 1e-6
