"""Whether a recording can be trusted: checks on arrays, without files and without a detector.

Conventions
-----------
* Audio that cannot be trusted becomes ``BadAudio`` and never a score: one NaN makes the detector return no speech at
  all, and LISTEN would pass.
* Channel 0 must hold the case's own user audio, each turn within one frame (20 ms) of where the record says: records
  keep milliseconds, and an eighth of one already undoes a comparison sample by sample. Where channel 1 holds it, the
  channels were swapped. Loudness, polarity and a constant offset do not matter.
* Crosstalk (a copy of the user on the agent's channel, at most half a second late) and a quiet agent are flags; they do
  not change the spans.

Divergences from the paper
--------------------------
1. The paper names no such checks. What fails them leaves the denominator and is listed: LISTEN, NO_BACKCHANNEL and
   CONTINUE are not passed by broken files, so these shares are lower or equal here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

FRAME_S = 0.020
SAME_AUDIO = 0.9
"""Correlation from which audio counts as the known one: 1.00 on 36 recordings of our own, at most 0.04 against another
conversation's audio or the agent's channel (measured)."""
LEAKAGE_DB = -36.0
"""Crosstalk from this gain on is reported."""
LEAKAGE_PEAK = 8.0
"""Height of the peak over the correlation's root mean square: at most 7.7 between voices, at least 9.1 with a copy at
-30 dB under an agent that talks throughout (measured over 60 recordings)."""
QUIET_DBFS = -30.0
"""A channel whose peak is below this is detected late: 186 ms at -36 dBFS, 762 ms at -48 (measured)."""
LEAK_HZ = 8_000
_LEAK_LAG_S = 0.5


@dataclass(frozen=True, slots=True)
class KnownTurn:
    """User audio as it was built: float32 [n], and the sample of the channel at which it must begin."""

    name: str
    onset_samples: int
    mono: Samples


def fault(stereo: Samples, rate_hz: int, wanted_s: float) -> str:
    """Why float32 [samples, channels] cannot be scored; an empty string where it can.

    Args:
        stereo: the whole recording.
        rate_hz: its rate.
        wanted_s: the length that its record says.
    """
    if stereo.shape[1] != 2:
        return f"the recording has {stereo.shape[1]} channel(s); wanted 2, user and agent"
    if not len(stereo):
        return "the recording is empty"
    if not np.isfinite(stereo).all():
        return f"the recording holds {np.count_nonzero(~np.isfinite(stereo))} NaN or infinite samples"
    found_s = len(stereo) / rate_hz
    if abs(found_s - wanted_s) > FRAME_S:
        return f"the recording lasts {found_s:.3f} s and its record says {wanted_s:.3f} s"
    return ""


def channel_fault(user: Samples, agent: Samples, known: Sequence[KnownTurn], rate_hz: int) -> str:
    """Why the channels are not the user's and the agent's; an empty string where they are."""
    lost = _not_held(user, known, rate_hz)
    if not lost:
        return ""
    order = "(channel 0 must be the user, channel 1 the agent)"
    if not _not_held(agent, known, rate_hz):
        return f"the channels are swapped {order}"
    if len(lost) == len(known):
        return f"channel 0 does not hold this case's user audio {order}"
    turn = lost[0]
    return (
        f"channel 0 holds this case's user audio, but no clean {turn.name} at {turn.onset_samples / rate_hz:.3f} s: "
        "the record's onset is wrong, or another voice is mixed in"
    )


def _not_held(channel: Samples, known: Sequence[KnownTurn], rate_hz: int) -> list[KnownTurn]:
    """The turns that the channel does not hold in their places; all of them where it holds much else besides."""
    level = channel.astype(np.float64) - channel.mean(dtype=np.float64)
    lost, shared, energy = [], 0.0, 0.0
    for turn in known:
        part = turn.mono[: max(0, len(level) - turn.onset_samples)].astype(np.float64)
        found, here = _best(level, turn.onset_samples, part, round(FRAME_S * rate_hz))
        own = float(np.dot(part, part))
        shared, energy = shared + found, energy + own
        if own > 0 and found < SAME_AUDIO * np.sqrt(own * here):
            lost.append(turn)
    whole = np.sqrt(energy * float(np.dot(level, level)))
    return lost if whole > 0 and (lost or shared >= SAME_AUDIO * whole) else list(known)


def _best(channel: NDArray[np.float64], onset: int, part: NDArray[np.float64], lag: int) -> tuple[float, float]:
    """The largest product of ``part`` with the channel within ``lag`` of ``onset``, and the energy it meets there."""
    around = np.zeros(len(part) + 2 * lag)
    first = onset - lag
    inside = channel[max(0, first) : onset + len(part) + lag]
    around[max(0, -first) : max(0, -first) + len(inside)] = inside
    size = 1 << len(around).bit_length()
    product = np.fft.irfft(np.fft.rfft(around, size) * np.conj(np.fft.rfft(part, size)), size)[: 2 * lag + 1]
    at = int(np.argmax(np.abs(product)))
    met = around[at : at + len(part)]
    return abs(float(product[at])), float(np.dot(met, met))


def leakage_db(user: Samples, agent: Samples) -> float | None:
    """Gain of the user's copy on the agent's channel, in dB; None where there is none. Float32 [n] at 8 kHz each.

    A copy shows as one sharp peak in the phase correlation (GCC-PHAT), which two voices at similar pitches do not have.
    """
    if not user.any() or not agent.any():
        return None
    lags = int(_LEAK_LAG_S * LEAK_HZ)
    size = 1 << (len(user) + lags).bit_length()
    cross = np.fft.rfft(agent, size) * np.conj(np.fft.rfft(user, size))
    magnitude = np.abs(cross)
    phase = np.fft.irfft(cross / np.maximum(magnitude, 1e-3 * magnitude.mean()), size)
    lag = int(np.argmax(np.abs(phase[:lags])))
    if abs(phase[lag]) < LEAKAGE_PEAK * np.sqrt(np.mean(np.square(phase))):
        return None
    gain = abs(float(np.dot(user[: len(user) - lag], agent[lag:]))) / float(np.dot(user, user))
    return 20 * float(np.log10(gain)) if gain > 0 else None


def peak_dbfs(mono: Samples) -> float | None:
    """Peak of float32 [n] in dBFS; None for digital silence."""
    peak = float(np.abs(mono).max()) if len(mono) else 0.0
    return 20 * float(np.log10(peak)) if peak > 0 else None


def flags_of(agent_peak_dbfs: float | None, leakage: float | None) -> tuple[str, ...]:
    """The warnings that a recording deserves."""
    flags = []
    if leakage is not None and leakage >= LEAKAGE_DB:
        flags.append("leakage")
    if agent_peak_dbfs is not None and agent_peak_dbfs < QUIET_DBFS:
        flags.append("quiet_agent")
    return tuple(flags)
