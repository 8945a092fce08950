"""What a built corpus is like: lengths, voices, silences, levels, and every segment that misses its target.

Lengths are of the user's side alone, turn 1 and turn 2 end to end. The paper's mean conversation is 27.2 s; it does not
say what it counts.

Everything is measured on the audio files, and a file is first held against its manifest line: rate, channels, length,
hash. A turn that several conversations share is looked at once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dsbif.audio.wav import Samples, read_wav
from dsbif.bench.case import Case, UserTurn
from dsbif.bench.levels import Level
from dsbif.bench.probes import PROBES, TURN1_TARGET_S, Silence, Speech
from dsbif.build.lint import misses_target
from dsbif.build.render import pause_samples
from dsbif.build.spoken import check_audio
from dsbif.build.voices import RATE_HZ
from dsbif.files import sha256_of

Progress = Callable[[int, int, str], None]
PAPER_MEAN_S = 27.2
_SHOWN = 20
_FULL_SCALE = 32_767 / 32_768


@dataclass(frozen=True, slots=True)
class TurnAudio:
    """One rendered turn: RMS of its speech and peak, in dBFS; samples at full scale; what is wrong with it."""

    audio: str
    duration_s: float
    rms_dbfs: float
    peak_dbfs: float
    clipped: int
    wrong: tuple[str, ...]
    wrong_pauses: tuple[str, ...]


def look(corpus: Path, case: Case, turn: UserTurn) -> TurnAudio:
    """Measure one turn of a case.

    Raises:
        CaseError: the file is missing or cannot be read.
    """
    audio, rate_hz = read_wav(corpus / turn.audio)
    samples = audio[:, 0]
    speech = np.concatenate([_cut(samples, s.start_s, s.end_s) for s in turn.speech])
    return TurnAudio(
        audio=turn.audio,
        duration_s=len(samples) / RATE_HZ,
        rms_dbfs=_dbfs(float(np.sqrt(np.mean(np.square(speech, dtype=np.float64)))) if len(speech) else 0.0),
        peak_dbfs=_dbfs(float(np.abs(samples).max(initial=0.0))),
        clipped=int(np.count_nonzero(np.abs(samples) >= _FULL_SCALE)),
        wrong=tuple(_wrong(corpus, turn, audio, rate_hz)),
        wrong_pauses=tuple(_wrong_pauses(samples, case, turn)),
    )


def _cut(samples: Samples, start_s: float, end_s: float) -> Samples:
    return samples[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)]


def _dbfs(amplitude: float) -> float:
    return 20 * float(np.log10(max(amplitude, 1e-9)))


def _wrong(corpus: Path, turn: UserTurn, audio: Samples, rate_hz: int) -> Iterator[str]:
    """Where the file is not the one that the manifest names."""
    if (rate_hz, audio.shape[1]) != (RATE_HZ, 1):
        yield f"has {audio.shape[1]} channels at {rate_hz} Hz, wanted 1 at {RATE_HZ}"
    elif len(audio) != turn.samples:
        yield f"has {len(audio)} samples, wanted {turn.samples}"
    elif sha256_of(corpus / turn.audio) != turn.sha256:
        yield "has another sha256 than its manifest line; remove it to have it spoken again"


def _wrong_pauses(samples: Samples, case: Case, turn: UserTurn) -> Iterator[str]:
    designed = _pauses(case) if turn is case.turn2 else {}
    for name in designed.keys() - {part.name for part in turn.segments if part.kind == "silence"}:
        yield f"{name} is missing"
    for segment in turn.segments:
        if segment.kind != "silence":
            continue
        length = round(segment.span.end_s * RATE_HZ) - round(segment.span.start_s * RATE_HZ)
        if segment.name not in designed:
            yield f"{segment.name} is no designed pause"
        elif length != designed[segment.name]:
            yield f"{segment.name} has {length} samples, wanted {designed[segment.name]}"
        if _cut(samples, segment.span.start_s, segment.span.end_s).any():
            yield f"{segment.name} is not silent"


def _pauses(case: Case) -> Mapping[str, int]:
    """Designed pauses of turn 2 by name, in samples."""
    layout = PROBES[case.probe].layout(safety=case.level is Level.L4B)
    return {part.name: pause_samples(part.duration_s) for part in layout if isinstance(part, Silence)}


def report(
    corpus: Path, cases: Sequence[Case], flagged: Sequence[str] = (), progress: Progress = lambda *_: None
) -> dict[str, Any]:
    """The figures of a corpus, as JSON.

    Args:
        corpus: the folder that the cases' audio paths are relative to.
        cases: every case, at least one.
        flagged: what an earlier step could not do, by turn.
        progress: told of every turn.

    Raises:
        CaseError: an audio file is missing or cannot be read.
    """
    owners = {turn.audio: (case, turn) for case in cases for turn in (case.turn1, case.turn2)}
    looked: dict[str, TurnAudio] = {}
    for audio, (case, turn) in sorted(owners.items()):
        looked[audio] = look(corpus, case, turn)
        progress(len(looked), len(owners), audio)
    streams = {case.turn2.audio: case for case in cases}
    lengths = [looked[case.turn1.audio].duration_s + looked[case.turn2.audio].duration_s for case in streams.values()]
    return {
        "cases": len(cases),
        "conversations": len({case.conversation_id for case in cases}),
        "streams": len(streams),
        "turns": len(looked),
        "conversation_s": _spread(lengths),
        "paper_mean_s": PAPER_MEAN_S,
        "voices": dict(sorted(Counter(case.voice for case in streams.values()).items())),
        "segments": _segments(list(owners.values())),
        "missed_targets": [str(fault) for fault in check_audio(cases)],
        "pauses": sum(part.kind == "silence" for case in streams.values() for part in case.turn2.segments),
        "wrong_turns": [f"{turn.audio} {fault}" for turn in looked.values() for fault in turn.wrong],
        "wrong_pauses": [f"{turn.audio}: {fault}" for turn in looked.values() for fault in turn.wrong_pauses],
        "speech_rms_dbfs": _spread([turn.rms_dbfs for turn in looked.values()]),
        "peak_dbfs": _spread([turn.peak_dbfs for turn in looked.values()]),
        "clipped": {turn.audio: turn.clipped for turn in looked.values() if turn.clipped},
        "flagged": list(flagged),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    # Plus zero, for a peak of -0.0002 dBFS is 0.0 and not -0.0.
    return {
        "mean": round(float(np.mean(values)), 3) + 0.0,
        "min": round(min(values), 3) + 0.0,
        "max": round(max(values), 3) + 0.0,
    }


def _segments(turns: Sequence[tuple[Case, UserTurn]]) -> dict[str, dict[str, float]]:
    """Spoken seconds by the name of the segment, over every distinct turn, against the targets.

    ``target``: the mean target in seconds (one name has several: s1 aims at 3 to 6 s, by probe); ``of_target``: the
    mean of spoken over target; ``outside``: the share that ``lint.misses_target`` rejects.
    """
    spoken: dict[str, list[tuple[float, float]]] = {}
    for case, turn in turns:
        targets = _targets(case)
        for segment in turn.segments:
            if segment.kind == "speech":
                pair = (segment.span.duration_s, targets[segment.name])
                spoken.setdefault(segment.name, []).append(pair)
    return {name: _against_targets(name, pairs) for name, pairs in sorted(spoken.items())}


def _targets(case: Case) -> Mapping[str, float]:
    layout = PROBES[case.probe].layout(safety=case.level is Level.L4B)
    return {"turn1": TURN1_TARGET_S, **{part.name: part.target_s for part in layout if isinstance(part, Speech)}}


def _against_targets(name: str, pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    return {
        "n": len(pairs),
        **_spread([spoken_s for spoken_s, _ in pairs]),
        "target": round(float(np.mean([target_s for _, target_s in pairs])), 3),
        "of_target": round(float(np.mean([spoken_s / target_s for spoken_s, target_s in pairs])), 3),
        "outside": round(float(np.mean([misses_target(name, *pair) for pair in pairs])), 4),
    }


def report_table(found: Mapping[str, Any]) -> RenderableType:
    """The report for a person."""
    length, rms, peak = found["conversation_s"], found["speech_rms_dbfs"], found["peak_dbfs"]
    lines = [
        f"{found['conversations']} conversations, {found['streams']} distinct streams, {found['cases']} cases",
        f"user's side {length['mean']:.1f} s on average ({length['min']:.1f} to {length['max']:.1f}); the paper's "
        f"conversations: {found['paper_mean_s']} s",
        f"{len(found['voices'])} voices: " + ", ".join(f"{voice} {count}" for voice, count in found["voices"].items()),
        f"{found['pauses']} designed pauses, {len(found['wrong_pauses'])} faults in them",
        f"speech {rms['mean']:.1f} dBFS RMS ({rms['min']:.1f} to {rms['max']:.1f}); peaks {peak['mean']:.1f} dBFS "
        f"({peak['min']:.1f} to {peak['max']:.1f}); {sum(found['clipped'].values())} samples at full scale "
        f"in {len(found['clipped'])} turns",
    ]
    parts: list[RenderableType] = [*(Text(line) for line in lines), _segment_table(found["segments"])]
    for key in ("missed_targets", "wrong_turns", "wrong_pauses", "flagged"):
        faults = found[key]
        parts += [Text(f"{key.replace('_', ' ')}: {len(faults)}"), *(Text(f"  {line}") for line in faults[:_SHOWN])]
        if len(faults) > _SHOWN:
            parts.append(Text(f"  … and {len(faults) - _SHOWN} more, which report.json lists"))
    return Group(*parts)


def _segment_table(segments: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(show_edge=False, pad_edge=False, title="spoken seconds by segment", title_justify="left")
    for name in ("segment", "n", "mean", "min", "max", "target", "of target", "outside"):
        table.add_column(name, justify="left" if name == "segment" else "right")
    for name, row in segments.items():
        seconds = (f"{row[key]:.1f}" for key in ("mean", "min", "max", "target"))
        table.add_row(name, str(row["n"]), *seconds, f"{row['of_target']:.0%}", f"{row['outside']:.1%}")
    return table
