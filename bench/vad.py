"""Hearing and measuring a run's recordings, against the Silero library's default call on the same recordings.

``python -m bench.vad RUN_DIR`` (default: the newest under runs/) prints both real-time factors and their ratio. Both
sides hear both channels at 16 kHz on one thread; ours resamples, checks and measures as well.
"""

import sys
import time
from pathlib import Path

import torch
from silero_vad import get_speech_timestamps, load_silero_vad

from dsbif.audio.resample import resample
from dsbif.audio.wav import read_wav
from dsbif.bench.manifest import read_manifest
from dsbif.rundir import RunDir
from dsbif.scoring import measure_case

LIMIT = 24


def main() -> int:
    torch.set_num_threads(1)
    runs = sorted(Path("runs").glob("*/summary.json"), key=lambda path: path.stat().st_mtime)
    if len(sys.argv) < 2 and not runs:
        print("no run to measure: make run first, or name a run directory", file=sys.stderr)
        return 2
    run_dir = RunDir(Path(sys.argv[1]) if len(sys.argv) > 1 else runs[-1].parent)
    cases = [case for case in read_manifest(run_dir.manifest) if run_dir.wav(case.test_case_id).is_file()][:LIMIT]
    corpus = Path("data/corpus")
    measure_case(run_dir, corpus, cases[0])  # loads the model
    started = time.perf_counter()
    for case in cases:
        measure_case(run_dir, corpus, case)
    ours_s = time.perf_counter() - started

    audio_s, library_s = 0.0, 0.0
    model = load_silero_vad()
    for case in cases:
        samples, rate_hz = read_wav(run_dir.wav(case.test_case_id))
        audio_s += len(samples) / rate_hz
        for channel in (0, 1):
            mono = torch.from_numpy(resample(samples[:, channel], rate_hz, 16_000))
            started = time.perf_counter()
            get_speech_timestamps(mono, model, min_speech_duration_ms=90, min_silence_duration_ms=90)
            library_s += time.perf_counter() - started
    print(f"{len(cases)} recordings, {audio_s:.0f} s of two channels")
    for what, wall_s in (
        ("dsbif: read, check, resample, hear, measure", ours_s),
        ("library: its call alone", library_s),
    ):
        print(f"{what:<45} {wall_s:6.2f} s   real-time factor {wall_s / audio_s:.5f}")
    print(f"ratio library / dsbif {library_s / ours_s:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
