"""The corpus heard by machines: ``python -m dsbif.listen [corpus=data/corpus] [sample=40|all] [asr=whisper-tiny-en]``.

Every turn is heard by the detector: designed pauses must be silent, segments audible, and the onset and offset that it
finds next to a pause or a turn's end must lie within 0.15 s of construction. A sample of segments is transcribed and
compared with its text; the worst twenty are listed. Leaves ``ear.json`` in the corpus folder. The figures describe the
detector and the recogniser as much as the audio: scoring takes none of them for the truth.
"""

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dsbif.agents.ears import Ears
from dsbif.audio.silero import speech_spans
from dsbif.audio.wav import Samples, read_wav
from dsbif.bench.case import UserTurn
from dsbif.bench.manifest import read_manifest
from dsbif.bench.tokens import tokens
from dsbif.build.assets import locate
from dsbif.build.voices import RATE_HZ
from dsbif.door import nearest
from dsbif.errors import ConfigError, DsbifError
from dsbif.files import write_json
from dsbif.progress import progress
from dsbif.spans import Span, merge

TOLERANCE_S = 0.15
WORST = 20
JOINT_S = 0.1
"""Segments closer than this are one stretch to a detector."""
DEFAULTS: Mapping[str, str] = {
    "corpus": "data/corpus", "assets": "data/assets", "sample": "40", "asr": "whisper-tiny-en",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Edge:
    """One boundary next to silence: how much later the detector puts it than construction, in seconds."""

    audio: str
    kind: str
    error_s: float


@dataclass(frozen=True, slots=True)
class HeardTurn:
    """What the detector makes of one turn."""

    edges: tuple[Edge, ...]
    faults: tuple[str, ...]


def hear_turn(turn: UserTurn, samples: Samples) -> HeardTurn:
    """Compare detected speech with construction; a second of silence is put on both sides so that edges exist."""
    pad = np.zeros(RATE_HZ, np.float32)
    found = [span.shifted(-1.0) for span in speech_spans(np.concatenate([pad, samples, pad]), RATE_HZ)]
    edges: list[Edge] = []
    faults: list[str] = []
    for built in merge(turn.speech, JOINT_S):
        inside = [span for span in found if span.intersects(built)]
        if not inside:
            faults.append(f"{turn.audio}: nothing is heard at {built}")
            continue
        edges.append(Edge(turn.audio, "onset", inside[0].start_s - built.start_s))
        edges.append(Edge(turn.audio, "offset", inside[-1].end_s - built.end_s))
    for segment in turn.segments:
        core = _core(segment.span)
        if segment.kind == "silence" and any(span.intersects(core) for span in found):
            faults.append(f"{turn.audio}: speech is heard in the pause {segment.name} {segment.span}")
    return HeardTurn(tuple(edges), tuple(faults))


def _core(pause: Span) -> Span:
    """A pause without the detector's tolerance on both sides."""
    return Span(pause.start_s + TOLERANCE_S, max(pause.start_s + TOLERANCE_S, pause.end_s - TOLERANCE_S))


def word_errors(wanted: Sequence[str], heard: Sequence[str]) -> int:
    """Edit distance of two token sequences: substitutions, insertions and deletions.

    >>> word_errors(("my", "back", "hurts"), ("my", "bag", "hurts", "now"))
    2
    """
    row = list(range(len(heard) + 1))
    for i, token in enumerate(wanted, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (token != other))
    return row[-1]


def transcribed(corpus: Path, turns: Sequence[UserTurn], sample: int | None, ears: Ears) -> Iterator[dict[str, Any]]:
    """Segments as the recogniser hears them; a sample is drawn with a fixed seed."""
    segments = [(turn, segment) for turn in turns for segment in turn.segments if segment.kind == "speech"]
    chosen = segments if sample is None else random.Random(0).sample(segments, min(sample, len(segments)))
    for turn, segment in chosen:
        samples = read_wav(corpus / turn.audio)[0][:, 0]
        start, stop = round(segment.span.start_s * RATE_HZ), round(segment.span.end_s * RATE_HZ)
        heard = ears.transcribe(samples[start:stop])
        wanted = tokens(segment.text)
        errors = word_errors(wanted, tokens(heard))
        yield {"audio": turn.audio, "segment": segment.name, "text": segment.text, "heard": heard,
               "errors": errors, "words": len(wanted)}  # fmt: skip


def _spread(edges: Sequence[Edge], kind: str) -> dict[str, float]:
    errors = np.array([edge.error_s for edge in edges if edge.kind == kind])
    return {
        "n": len(errors),
        "mean_s": round(float(errors.mean()), 3),
        "sd_s": round(float(errors.std()), 3),
        "worst_s": round(float(errors[np.abs(errors).argmax()]), 3),
        "within_tolerance": round(float(np.mean(np.abs(errors) <= TOLERANCE_S)), 4),
    }


def listen(values: Mapping[str, str]) -> dict[str, Any]:
    """Hear a corpus folder that ``python -m dsbif.build`` made.

    Raises:
        CaseError: the folder has no manifest.
        ConfigError: the recogniser or the detector is missing.
    """
    corpus = Path(values["corpus"])
    turns = list(
        {t.audio: t for case in read_manifest(corpus / "manifest.jsonl") for t in (case.turn1, case.turn2)}.values()
    )
    ears = Ears(locate(values["asr"], Path(values["assets"])))
    heard: list[HeardTurn] = []
    with progress("detector") as told:
        for done, turn in enumerate(turns, 1):
            heard.append(hear_turn(turn, read_wav(corpus / turn.audio)[0][:, 0]))
            told(done, len(turns), turn.audio)
    sample = None if values["sample"] == "all" else int(values["sample"])
    lines: list[dict[str, Any]] = []
    with progress("recogniser") as told:
        for line in transcribed(corpus, turns, sample, ears):
            lines.append(line)
            told(len(lines), sample or len(lines), line["audio"])
    edges = [edge for turn in heard for edge in turn.edges]
    return {
        "turns": len(turns),
        "tolerance_s": TOLERANCE_S,
        "onsets": _spread(edges, "onset"),
        "offsets": _spread(edges, "offset"),
        "late_edges": [f"{e.audio}: {e.kind} {e.error_s:+.3f} s" for e in edges if abs(e.error_s) > TOLERANCE_S],
        "faults": [fault for turn in heard for fault in turn.faults],
        "asr": values["asr"],
        "transcribed": len(lines),
        "word_error_rate": round(sum(x["errors"] for x in lines) / max(1, sum(x["words"] for x in lines)), 4),
        "worst": sorted(lines, key=lambda x: (-x["errors"] / max(1, x["words"]), x["audio"]))[:WORST],
    }


def _parse(words: Sequence[str]) -> dict[str, str]:
    values = dict(DEFAULTS)
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in values:
            raise ConfigError(f"'{word}' is no setting of python -m dsbif.listen.{nearest(key, values)}")
        values[key] = value
    if values["sample"] != "all" and not (values["sample"].isdigit() and int(values["sample"]) > 0):
        raise ConfigError(f"sample={values['sample']}: wanted all, or a number from 1.")
    return values


def main(arguments: Sequence[str] | None = None) -> int:
    """Hear a corpus; 1 if a pause is not silent or a segment not heard, 2 where it cannot be heard."""
    try:
        values = _parse(sys.argv[1:] if arguments is None else arguments)
        found = listen(values)
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    write_json(Path(values["corpus"]) / "ear.json", found)
    _show(found, Console())
    return 1 if found["faults"] else 0


def _show(found: Mapping[str, Any], console: Console) -> None:
    for kind in ("onsets", "offsets"):
        edge = found[kind]
        console.print(
            f"{kind}: {edge['mean_s']:+.3f} s on average, sd {edge['sd_s']:.3f}, worst {edge['worst_s']:+.3f}, "
            f"{100 * edge['within_tolerance']:.1f} % of {edge['n']} within {found['tolerance_s']} s",
            highlight=False,
        )
    console.print(
        f"faults: {len(found['faults'])}", *found["faults"][:WORST], sep="\n  ", highlight=False, markup=False
    )
    rate = 100 * found["word_error_rate"]
    title = f"{found['asr']}: {rate:.1f} % of words wrong over {found['transcribed']} segments; the worst:"
    table = Table("wrong", "segment", "written", "heard", title=title, title_justify="left", show_edge=False)
    for line in found["worst"]:
        table.add_row(f"{line['errors']}/{line['words']}", line["segment"], line["text"], line["heard"])
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
