"""Hearing a recording: checks, levels and speech spans of both channels. The only module here that touches audio.

Conventions
-----------
* Channel 0 is the user, channel 1 the agent. Any rate and sample format is read and brought to 16 kHz.
* Audio that cannot be trusted is ``BadAudio`` and never becomes a score: one NaN makes the detector return no speech
  at all, and LISTEN would pass.
* Channel 0 must hold the case's own user audio. Where channel 1 holds it, the channels were swapped.
* Crosstalk (a copy of the user on the agent's channel, at most half a second late) and a quiet agent are reported as
  flags; they do not change the spans.
"""

from pathlib import Path

import numpy as np

from dsbif.audio.resample import resample
from dsbif.audio.silero import VAD_HZ, VadSettings, speech_spans
from dsbif.audio.wav import Samples, read_wav
from dsbif.bench.case import Case
from dsbif.errors import CaseError
from dsbif.score.heard import BadAudio, Heard
from dsbif.session.recording import FRAME_SAMPLES, SAMPLE_RATE_HZ, Recording

SAME_AUDIO = 0.9
"""Correlation from which a channel counts as the known user audio; re-encoding keeps it above 0.99."""
LEAKAGE_DB = -36.0
"""Crosstalk from this gain on is reported."""
LEAKAGE_PEAK = 8.0
"""Height of the peak over the correlation's root mean square: at most 7.7 between voices, at least 9.1 with a copy at
-30 dB under an agent that talks throughout (measured over 60 recordings)."""
QUIET_DBFS = -30.0
"""A channel whose peak is below this is detected late: 186 ms at -36 dBFS, 762 ms at -48 (measured)."""
_LEAK_HZ = 8_000
_LEAK_LAG_S = 0.5


def hear(
    wav: Path, case: Case, recording: Recording, corpus: Path, settings: VadSettings | None = None
) -> Heard | BadAudio:
    """Listen to one recording.

    Args:
        wav: the two-channel recording.
        case: whose user audio channel 0 must hold.
        recording: its record, for turn 2's place and the expected length.
        corpus: the folder that the case's audio paths are relative to.
        settings: of the detector.

    Raises:
        CaseError: the case's own user audio is missing.
    """
    try:
        stereo, rate_hz = read_wav(wav)
    except CaseError as error:
        return BadAudio(str(error))
    fault = _fault(stereo, rate_hz, recording)
    if fault:
        return BadAudio(fault)
    user, agent = (resample(np.ascontiguousarray(stereo[:, channel]), rate_hz, VAD_HZ) for channel in (0, 1))
    expected = _expected_user(case, recording, corpus)
    if _correlation(user, expected) < SAME_AUDIO:
        swapped = _correlation(agent, expected) >= SAME_AUDIO
        what = "the channels are swapped" if swapped else "channel 0 does not hold this case's user audio"
        return BadAudio(f"{what} (channel 0 must be the user, channel 1 the agent)")
    leakage_db = _leakage_db(user, agent)
    agent_peak = _peak_dbfs(stereo[:, 1])
    return Heard(
        duration_s=len(stereo) / rate_hz,
        user_spans=speech_spans(user, VAD_HZ, settings),
        agent_spans=speech_spans(agent, VAD_HZ, settings),
        user_peak_dbfs=_peak_dbfs(stereo[:, 0]),
        agent_peak_dbfs=agent_peak,
        leakage_db=leakage_db,
        flags=_flags(agent_peak, leakage_db),
    )


def _fault(stereo: Samples, rate_hz: int, recording: Recording) -> str:
    """Why the samples cannot be trusted; an empty string where they can."""
    if stereo.shape[1] != 2:
        return f"the recording has {stereo.shape[1]} channel(s); wanted 2, user and agent"
    if not len(stereo):
        return "the recording is empty"
    if not np.isfinite(stereo).all():
        return f"the recording holds {np.count_nonzero(~np.isfinite(stereo))} NaN or infinite samples"
    off_s = len(stereo) / rate_hz - recording.duration_s
    if abs(off_s) > FRAME_SAMPLES / SAMPLE_RATE_HZ:
        return f"the recording lasts {len(stereo) / rate_hz:.3f} s and its record says {recording.duration_s:.3f} s"
    return ""


def _expected_user(case: Case, recording: Recording, corpus: Path) -> Samples:
    """The user's channel as it must be, at 16 kHz."""
    track = np.zeros(recording.samples, np.float32)
    for turn, onset in ((case.turn1, 0), (case.turn2, recording.turn2_onset_samples)):
        if onset is not None:
            mono = read_wav(corpus / turn.audio)[0][:, 0]
            part = track[onset : onset + len(mono)]
            part[:] = mono[: len(part)]
    return resample(track, SAMPLE_RATE_HZ, VAD_HZ)


def _correlation(one: Samples, other: Samples) -> float:
    n = min(len(one), len(other))
    a, b = one[:n].astype(np.float64), other[:n].astype(np.float64)
    norm = float(np.sqrt(np.dot(a, a) * np.dot(b, b)))
    return float(np.dot(a, b)) / norm if norm > 0 else 0.0


def _leakage_db(user: Samples, agent: Samples) -> float | None:
    """Gain of the user's copy on the agent's channel, in dB; None where there is none.

    A copy shows as one sharp peak in the phase correlation (GCC-PHAT), which two voices at similar pitches do not have.
    """
    a, b = resample(user, VAD_HZ, _LEAK_HZ), resample(agent, VAD_HZ, _LEAK_HZ)
    if not a.any() or not b.any():
        return None
    lags = int(_LEAK_LAG_S * _LEAK_HZ)
    size = 1 << (len(a) + lags).bit_length()
    cross = np.fft.rfft(b, size) * np.conj(np.fft.rfft(a, size))
    magnitude = np.abs(cross)
    phase = np.fft.irfft(cross / np.maximum(magnitude, 1e-3 * magnitude.mean()), size)
    lag = int(np.argmax(np.abs(phase[:lags])))
    if abs(phase[lag]) < LEAKAGE_PEAK * np.sqrt(np.mean(np.square(phase))):
        return None
    gain = abs(float(np.dot(a[: len(a) - lag], b[lag:]))) / float(np.dot(a, a))
    return 20 * float(np.log10(gain)) if gain > 0 else None


def _peak_dbfs(mono: Samples) -> float | None:
    peak = float(np.abs(mono).max())
    return 20 * float(np.log10(peak)) if peak > 0 else None


def _flags(agent_peak_dbfs: float | None, leakage_db: float | None) -> tuple[str, ...]:
    flags = []
    if leakage_db is not None and leakage_db >= LEAKAGE_DB:
        flags.append("leakage")
    if agent_peak_dbfs is not None and agent_peak_dbfs < QUIET_DBFS:
        flags.append("quiet_agent")
    return tuple(flags)
