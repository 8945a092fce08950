"""What a built corpus is like: lengths, voices, silences, levels, and every segment that misses its target.

Lengths are of the user's side alone, turn 1 and turn 2 end to end; the paper's mean conversation of 27.2 s also holds
what lies between them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dsbif.audio.wav import Samples, read_wav
from dsbif.bench.case import Case, UserTurn
from dsbif.bench.probes import PROBES, Silence
from dsbif.build.render import pause_samples
from dsbif.build.spoken import check_audio
from dsbif.build.voices import RATE_HZ

PAPER_MEAN_S = 27.2
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class TurnAudio:
    """One rendered turn: RMS of its speech and peak, in dBFS; clipped samples; pauses that are wrong."""

    audio: str
    duration_s: float
    rms_dbfs: float
    peak_dbfs: float
    clipped: int
    wrong_pauses: tuple[str, ...]


def look(corpus: Path, case: Case, turn: UserTurn) -> TurnAudio:
    """Measure one turn.

    Raises:
        CaseError: the file is missing or cannot be read.
    """
    samples = read_wav(corpus / turn.audio)[0][:, 0]
    speech = np.concatenate([samples[round(s.start_s * RATE_HZ) : round(s.end_s * RATE_HZ)] for s in turn.speech])
    return TurnAudio(
        audio=turn.audio,
        duration_s=len(samples) / RATE_HZ,
        rms_dbfs=_dbfs(float(np.sqrt(np.mean(np.square(speech, dtype=np.float64))))),
        peak_dbfs=_dbfs(float(np.abs(samples).max())),
        clipped=int(np.count_nonzero(np.abs(samples) >= 32_767 / 32_768)),
        wrong_pauses=tuple(_wrong_pauses(samples, case, turn)),
    )


def _dbfs(amplitude: float) -> float:
    return 20 * float(np.log10(max(amplitude, 1e-9)))


def _wrong_pauses(samples: Samples, case: Case, turn: UserTurn) -> Iterable[str]:
    designed = {
        part.name: pause_samples(part.duration_s)
        for part in PROBES[case.probe].layout(safety=True)
        if isinstance(part, Silence)
    }
    for segment in turn.segments:
        if segment.kind != "silence":
            continue
        start, stop = round(segment.span.start_s * RATE_HZ), round(segment.span.end_s * RATE_HZ)
        if stop - start != designed.get(segment.name, stop - start):
            yield f"{segment.name} has {stop - start} samples, wanted {designed[segment.name]}"
        if samples[start:stop].any():
            yield f"{segment.name} is not silent"


def report(corpus: Path, cases: Sequence[Case], flagged: Sequence[str] = ()) -> dict[str, Any]:
    """The figures of a corpus, as JSON.

    Args:
        corpus: the folder that the cases' audio paths are relative to.
        cases: every case; turns that several share are looked at once.
        flagged: what an earlier step could not do, by turn.
    """
    owners = {turn.audio: (case, turn) for case in cases for turn in (case.turn1, case.turn2)}
    looked = {audio: look(corpus, case, turn) for audio, (case, turn) in sorted(owners.items())}
    streams = {case.turn2.audio: case for case in cases}
    lengths = [looked[case.turn1.audio].duration_s + looked[case.turn2.audio].duration_s for case in streams.values()]
    missed = check_audio(cases)
    return {
        "cases": len(cases),
        "conversations": len({case.conversation_id for case in cases}),
        "streams": len(streams),
        "turns": len(looked),
        "conversation_s": _spread(lengths),
        "paper_mean_s": PAPER_MEAN_S,
        "voices": dict(sorted(Counter(case.voice for case in streams.values()).items())),
        "segments": _segments(streams.values()),
        "missed_targets": [str(fault) for fault in missed],
        "pauses": sum(part.kind == "silence" for case in streams.values() for part in case.turn2.segments),
        "wrong_pauses": [f"{turn.audio}: {fault}" for turn in looked.values() for fault in turn.wrong_pauses],
        "speech_rms_dbfs": _spread([turn.rms_dbfs for turn in looked.values()]),
        "peak_dbfs": _spread([turn.peak_dbfs for turn in looked.values()]),
        "clipped": {turn.audio: turn.clipped for turn in looked.values() if turn.clipped},
        "flagged": list(flagged),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "mean": round(float(np.mean(values)), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def _segments(cases: Iterable[Case]) -> dict[str, dict[str, float]]:
    """Spoken seconds by the name of the segment, over every distinct stream."""
    spoken: dict[str, list[float]] = {}
    for case in cases:
        for turn in (case.turn1, case.turn2):
            for segment in turn.segments:
                if segment.kind == "speech":
                    spoken.setdefault(segment.name, []).append(segment.span.duration_s)
    return {name: {"n": len(values), **_spread(values)} for name, values in sorted(spoken.items())}


def report_table(found: Mapping[str, Any]) -> RenderableType:
    """The report for a person."""
    length, rms, peak = found["conversation_s"], found["speech_rms_dbfs"], found["peak_dbfs"]
    shares = found["voices"].values()
    lines = [
        f"{found['conversations']} conversations, {found['streams']} distinct streams, {found['cases']} cases",
        f"user's side {length['mean']:.1f} s on average ({length['min']:.1f} to {length['max']:.1f}); the paper's "
        f"conversations: {found['paper_mean_s']} s",
        f"{len(found['voices'])} voices, each in {min(shares)} to {max(shares)} streams",
        f"{found['pauses']} designed pauses, {len(found['wrong_pauses'])} of them wrong",
        f"speech {rms['mean']:.1f} dBFS RMS ({rms['min']:.1f} to {rms['max']:.1f}), peaks to {peak['max']:.1f} dBFS, "
        f"{len(found['clipped'])} turns with samples at full scale",
    ]
    table = Table(show_edge=False, pad_edge=False, title="spoken seconds by segment", title_justify="left")
    for name in ("segment", "n", "mean", "min", "max"):
        table.add_column(name, justify="left" if name == "segment" else "right")
    for name, row in found["segments"].items():
        table.add_row(name, str(row["n"]), *(f"{row[key]:.1f}" for key in ("mean", "min", "max")))
    parts: list[RenderableType] = [*(Text(line) for line in lines), table]
    for title in ("missed_targets", "wrong_pauses", "flagged"):
        faults = found[title]
        parts += [Text(f"{title.replace('_', ' ')}: {len(faults)}"), *(Text(f"  {line}") for line in faults[:_SHOWN])]
    return Group(*parts)
