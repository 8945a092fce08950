"""Hearing a recording: its file, its checks, both channels' speech spans. Only this module here opens audio files.

Conventions
-----------
* Channel 0 is the user, channel 1 the agent. Any rate and sample format is read and brought to 16 kHz by soxr.
* Spans are the detector's own, unmerged, on its grid of 32 ms; merging belongs to measuring.
* The agent's level is its peak *while it speaks*, so that a click does not hide a quiet voice; where no speech was
  found, the peak of the whole channel.

Divergences from the paper: none known. The detector's settings are the paper's (90 ms, 90 ms, the library's defaults).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dsbif.audio.resample import resample
from dsbif.audio.silero import VAD_HZ, VadSettings, speech_spans
from dsbif.audio.wav import Samples, read_wav
from dsbif.bench.case import Case
from dsbif.errors import CaseError
from dsbif.score.audio_check import LEAK_HZ, KnownTurn, channel_fault, fault, flags_of, leakage_db, peak_dbfs
from dsbif.score.heard import BadAudio, Heard
from dsbif.session.pcm import SAMPLE_RATE_HZ
from dsbif.session.recording import Recording
from dsbif.spans import Span


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
    reason = fault(stereo, rate_hz, recording.duration_s)
    if reason:
        return BadAudio(reason)
    user, agent = (resample(np.ascontiguousarray(stereo[:, channel]), rate_hz, VAD_HZ) for channel in (0, 1))
    reason = channel_fault(user, agent, _known(case, recording, corpus), VAD_HZ)
    if reason:
        return BadAudio(reason)
    agent_spans = speech_spans(agent, VAD_HZ, settings)
    agent_peak = _speech_peak_dbfs(stereo[:, 1], rate_hz, agent_spans)
    leaks = leakage_db(*(resample(mono, VAD_HZ, LEAK_HZ) for mono in (user, agent)))
    return Heard(
        duration_s=len(stereo) / rate_hz,
        user_spans=speech_spans(user, VAD_HZ, settings),
        agent_spans=agent_spans,
        user_peak_dbfs=peak_dbfs(stereo[:, 0]),
        agent_peak_dbfs=agent_peak,
        leakage_db=leaks,
        flags=flags_of(agent_peak, leaks),
    )


def _known(case: Case, recording: Recording, corpus: Path) -> list[KnownTurn]:
    """The user's turns at 16 kHz, where they must stand."""
    places = (("turn 1", case.turn1, 0), ("turn 2", case.turn2, recording.turn2_onset_samples))
    known = []
    for name, turn, onset_samples in places:
        if onset_samples is not None:
            samples, rate_hz = read_wav(corpus / turn.audio)
            mono = resample(np.ascontiguousarray(samples[:, 0]), rate_hz, VAD_HZ)
            known.append(KnownTurn(name, round(onset_samples * VAD_HZ / SAMPLE_RATE_HZ), mono))
    return known


def _speech_peak_dbfs(mono: Samples, rate_hz: int, spans: Sequence[Span]) -> float | None:
    pieces = [mono[int(span.start_s * rate_hz) : int(span.end_s * rate_hz)] for span in spans]
    return peak_dbfs(np.concatenate(pieces) if pieces else mono)
