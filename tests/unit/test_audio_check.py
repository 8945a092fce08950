"""Checks of arrays on noise, which resembles nothing but itself. 16 kHz; turn 1 at 0 s, turn 2 at 2 s."""

import numpy as np
import pytest
from numpy.typing import NDArray

from dsbif.score.audio_check import KnownTurn, channel_fault, fault, flags_of, leakage_db, peak_dbfs

RATE = 16_000
Pcm = NDArray[np.float32]


def noise(seed: int, seconds: float, level: float = 0.1) -> Pcm:
    return np.random.default_rng(seed).normal(0, level, round(seconds * RATE)).astype(np.float32)


KNOWN = (KnownTurn("turn 1", 0, noise(1, 1.0)), KnownTurn("turn 2", 2 * RATE, noise(2, 1.5)))
AGENT = np.concatenate([np.zeros(RATE, np.float32), noise(3, 3.0), np.zeros(RATE, np.float32)])


def user(shift_samples: int = 0) -> Pcm:
    track = np.zeros(5 * RATE, np.float32)
    track[:RATE] = KNOWN[0].mono
    at = 2 * RATE + shift_samples
    track[at : at + len(KNOWN[1].mono)] = KNOWN[1].mono
    return track


def test_channels_as_they_must_be_have_no_fault() -> None:
    assert channel_fault(user(), AGENT, KNOWN, RATE) == ""


def test_loudness_polarity_and_offset_do_not_matter() -> None:
    assert channel_fault(-0.3 * user() + np.float32(0.2), AGENT, KNOWN, RATE) == ""


@pytest.mark.parametrize("shift_samples", [-320, -8, 0, 1, 8, 320])
def test_a_turn_may_stand_a_frame_from_where_the_record_says(shift_samples: int) -> None:
    assert channel_fault(user(shift_samples), AGENT, KNOWN, RATE) == ""


@pytest.mark.parametrize("shift_samples", [-480, 480, 8_000])
def test_a_turn_that_stands_elsewhere_is_named(shift_samples: int) -> None:
    assert channel_fault(user(shift_samples), AGENT, KNOWN, RATE) == (
        "channel 0 holds this case's user audio, but no clean turn 2 at 2.000 s: "
        "the record's onset is wrong, or another voice is mixed in"
    )


def test_swapped_channels_are_said_to_be() -> None:
    assert "the channels are swapped" in channel_fault(AGENT, user(), KNOWN, RATE)


def test_a_mix_of_both_on_the_users_channel_is_said_to_be() -> None:
    assert "no clean turn 2 at 2.000 s" in channel_fault(user() + AGENT, AGENT, KNOWN, RATE)


def test_much_else_between_the_turns_is_no_user_either() -> None:
    busy = user()
    busy[4 * RATE :] = noise(4, 1.0, 0.5)
    assert "does not hold this case's user audio" in channel_fault(busy, AGENT, KNOWN, RATE)


@pytest.mark.parametrize("channel", [AGENT, np.zeros(5 * RATE, np.float32)], ids=["another voice", "silence"])
def test_a_channel_that_is_not_the_users_is_no_user(channel: Pcm) -> None:
    told = channel_fault(channel, np.zeros_like(channel), KNOWN, RATE)
    assert "does not hold this case's user audio" in told


def test_a_recording_cut_within_turn_two_still_holds_the_user() -> None:
    assert channel_fault(user()[: 3 * RATE], AGENT[: 3 * RATE], KNOWN, RATE) == ""


@pytest.mark.parametrize(
    ("stereo", "told"),
    [
        (np.zeros((RATE, 2), np.float32), ""),
        (np.zeros((RATE + 319, 2), np.float32), ""),
        (np.zeros((RATE + 340, 2), np.float32), "the recording lasts 1.021 s and its record says 1.000 s"),
        (np.zeros((0, 2), np.float32), "the recording is empty"),
        (np.zeros((RATE, 1), np.float32), "the recording has 1 channel(s); wanted 2, user and agent"),
        (np.full((RATE, 2), np.nan, np.float32), "the recording holds 32000 NaN or infinite samples"),
        (np.full((RATE, 2), -np.inf, np.float32), "the recording holds 32000 NaN or infinite samples"),
    ],
)
def test_what_is_wrong_with_samples_is_said(stereo: Pcm, told: str) -> None:
    assert fault(stereo, RATE, 1.0) == told


@pytest.mark.parametrize(("gain_db", "lag"), [(-10, 0), (-20, 800), (-30, 3_999)])
def test_a_copy_is_found_with_its_gain(gain_db: float, lag: int) -> None:
    voice = noise(5, 10.0)
    agent = np.zeros_like(voice)
    agent[lag:] = voice[: len(voice) - lag] * np.float32(10 ** (gain_db / 20))
    assert leakage_db(voice, agent) == pytest.approx(gain_db, abs=0.5)


def test_two_voices_and_silence_leak_nothing() -> None:
    assert leakage_db(noise(5, 10.0), noise(6, 10.0)) is None
    assert leakage_db(noise(5, 10.0), np.zeros(10 * RATE, np.float32)) is None


def test_peaks_are_in_dbfs() -> None:
    assert peak_dbfs(np.array([0.0, -0.5, 0.25], np.float32)) == pytest.approx(-6.0206, abs=1e-3)
    assert peak_dbfs(np.zeros(3, np.float32)) is None


@pytest.mark.parametrize(
    ("peak", "leak", "flags"),
    [
        (None, None, ()),
        (-30.0, -36.1, ()),
        (-30.1, -36.0, ("leakage", "quiet_agent")),
        (-3.0, -20.0, ("leakage",)),
        (-48.0, None, ("quiet_agent",)),
    ],
)
def test_flags(peak: float | None, leak: float | None, flags: tuple[str, ...]) -> None:
    assert flags_of(peak, leak) == flags
