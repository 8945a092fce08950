"""The corpus heard by machines: ``python -m dsbif.listen [corpus=data/corpus] [sample=40|all] [asr=whisper-tiny-en]``.

Every turn is heard by the detector: designed pauses must be silent, every segment audible (half of it at least), and
the onset and offset that it finds next to a pause or a turn's end must lie within 0.15 s of construction. Its bias and
spread are told per voice engine. A sample of segments is transcribed and compared with its text; the worst twenty are
listed. ``assets=FOLDER`` says where the recogniser is. Leaves ``ear.json`` in the corpus folder. Exit status: 0; 1 if
any of this fails; 2 where the corpus cannot be heard. Wrong words fail nothing: the figures describe the detector and
the recogniser as much as the audio, and scoring takes none of them for the truth.
"""

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dsbif.agents.ears import Ears
from dsbif.audio.silero import speech_spans
from dsbif.audio.wav import Samples, read_wav
from dsbif.bench.case import Case, UserTurn
from dsbif.bench.manifest import read_manifest
from dsbif.bench.tokens import tokens
from dsbif.build.assets import known_assets, locate
from dsbif.build.voices import RATE_HZ
from dsbif.door import nearest
from dsbif.errors import CaseError, ConfigError, DsbifError
from dsbif.files import CONF_DIR, write_json
from dsbif.progress import Report, progress
from dsbif.spans import Span, merge, overlap_s

TOLERANCE_S = 0.15
WORST = 20
JOINT_S = 0.1
"""Segments closer than this are one stretch to a detector."""
AUDIBLE_SHARE = 0.5
"""How much of a segment the detector must hear. The hangover of a neighbour must not count for a silent one."""
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


@dataclass(frozen=True, slots=True)
class _Heard:
    """A turn, who spoke it and how it was heard."""

    turn: UserTurn
    engine: str
    heard: HeardTurn


def hear_turn(turn: UserTurn, samples: Samples) -> HeardTurn:
    """Compare detected speech with construction; a second of silence is put on both sides so that edges exist."""
    pad = np.zeros(RATE_HZ, np.float32)
    found = [span.shifted(-1.0) for span in speech_spans(np.concatenate([pad, samples, pad]), RATE_HZ)]
    edges: list[Edge] = []
    for built in merge(turn.speech, JOINT_S):
        if inside := [span for span in found if span.intersects(built)]:
            edges.append(Edge(turn.audio, "onset", inside[0].start_s - built.start_s))
            edges.append(Edge(turn.audio, "offset", inside[-1].end_s - built.end_s))
    return HeardTurn(tuple(edges), tuple(_faults(turn, found)))


def _faults(turn: UserTurn, found: Sequence[Span]) -> Iterator[str]:
    for segment in turn.segments:
        span, core = segment.span, _core(segment.span)
        if segment.kind == "silence" and any(heard.intersects(core) for heard in found):
            yield f"{turn.audio}: speech is heard in the pause {segment.name} {span}"
        heard_s = overlap_s(found, [span])
        if segment.kind == "speech" and heard_s < AUDIBLE_SHARE * span.duration_s:
            how_much = f"{heard_s:.2f} of {span.duration_s:.2f} s" if heard_s else "nothing"
            yield f"{turn.audio}: {how_much} is heard at {segment.name} {span}"


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


def transcripts(
    corpus: Path, turns: Sequence[UserTurn], sample: int | None, ears: Ears, told: Report
) -> list[dict[str, Any]]:
    """Segments as the recogniser hears them; a sample is drawn with a fixed seed."""
    segments = [(turn, segment) for turn in turns for segment in turn.segments if segment.kind == "speech"]
    chosen = segments if sample is None else random.Random(0).sample(segments, min(sample, len(segments)))
    lines: list[dict[str, Any]] = []
    for turn, segment in chosen:
        samples = read_wav(corpus / turn.audio)[0][:, 0]
        start, stop = round(segment.span.start_s * RATE_HZ), round(segment.span.end_s * RATE_HZ)
        heard = ears.transcribe(samples[start:stop])
        wanted = tokens(segment.text)
        errors = word_errors(wanted, tokens(heard))
        lines.append({"audio": turn.audio, "segment": segment.name, "text": segment.text, "heard": heard,
                      "errors": errors, "words": len(wanted)})  # fmt: skip
        told(len(lines), len(chosen), turn.audio)
    return lines


def _spread(edges: Sequence[Edge], kind: str) -> dict[str, float]:
    errors = np.array([edge.error_s for edge in edges if edge.kind == kind])
    if not len(errors):
        return {"n": 0}
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
        CaseError: the folder has no manifest or no cases, or audio is missing.
        ConfigError: the recogniser or the detector is missing.
    """
    corpus = Path(values["corpus"])
    cases = read_manifest(corpus / "manifest.jsonl")
    if not cases:
        raise CaseError(f"{corpus / 'manifest.jsonl'} holds no case; build the corpus with python -m dsbif.build.")
    ears = Ears(locate(values["asr"], Path(values["assets"])))
    heard = _heard(corpus, cases)
    with progress("recogniser") as told:
        sample = None if values["sample"] == "all" else int(values["sample"])
        lines = transcripts(corpus, [one.turn for one in heard], sample, ears, told)
    edges = [edge for one in heard for edge in one.heard.edges]
    return {
        "turns": len(heard),
        "tolerance_s": TOLERANCE_S,
        "onsets": _spread(edges, "onset"),
        "offsets": _spread(edges, "offset"),
        "engines": {name: _of_engine(name, heard, lines) for name in sorted({one.engine for one in heard})},
        "late_edges": [f"{e.audio}: {e.kind} {e.error_s:+.3f} s" for e in edges if abs(e.error_s) > TOLERANCE_S],
        "faults": [fault for one in heard for fault in one.heard.faults],
        "asr": values["asr"],
        "transcribed": len(lines),
        "word_error_rate": _word_error_rate(lines),
        "worst": sorted(lines, key=lambda x: (-x["errors"] / max(1, x["words"]), x["audio"], x["segment"]))[:WORST],
    }


def _heard(corpus: Path, cases: Sequence[Case]) -> list[_Heard]:
    """Every distinct turn as the detector hears it."""
    engines = _engines()
    turns = {turn.audio: (turn, case.voice) for case in cases for turn in (case.turn1, case.turn2)}
    heard: list[_Heard] = []
    with progress("detector") as told:
        for audio, (turn, voice) in turns.items():
            found = hear_turn(turn, read_wav(corpus / audio)[0][:, 0])
            heard.append(_Heard(turn, engines.get(voice, "other"), found))
            told(len(heard), len(turns), audio)
    return heard


def _engines() -> dict[str, str]:
    """Engine by voice, from the voice group of the configuration; an official release's voices are in none."""
    settings = [
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((CONF_DIR / "voice").glob("*.yaml"))
    ]
    return {voice: group["engine"] for group in settings for voice in group["voices"]}


def _of_engine(name: str, heard: Sequence[_Heard], lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    own = {one.turn.audio: one for one in heard if one.engine == name}
    edges = [edge for one in own.values() for edge in one.heard.edges]
    said = [line for line in lines if line["audio"] in own]
    return {
        "turns": len(own),
        "onsets": _spread(edges, "onset"),
        "offsets": _spread(edges, "offset"),
        "transcribed": len(said),
        "word_error_rate": _word_error_rate(said),
    }


def _word_error_rate(lines: Sequence[Mapping[str, Any]]) -> float | None:
    """Wrong words of written words; None where none were written."""
    words = sum(line["words"] for line in lines)
    return round(sum(line["errors"] for line in lines) / words, 4) if words else None


def _parse(words: Sequence[str]) -> dict[str, str]:
    values = dict(DEFAULTS)
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in values:
            raise ConfigError(f"'{word}' is no setting of python -m dsbif.listen.{nearest(key, values)}")
        values[key] = value
    recognisers = [name for name in known_assets() if name.startswith("whisper")]
    if values["asr"] not in recognisers:
        raise ConfigError(f"asr={values['asr']}: there is no such recogniser.{nearest(values['asr'], recognisers)}")
    if values["sample"] != "all" and not (values["sample"].isdecimal() and int(values["sample"]) > 0):
        raise ConfigError(f"sample={values['sample']}: wanted all, or a number from 1.")
    return values


def main(arguments: Sequence[str] | None = None) -> int:
    """Hear a corpus; 1 if a pause, a segment or an edge is not as it was built, 2 where it cannot be heard."""
    words = sys.argv[1:] if arguments is None else arguments
    if any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return 0
    try:
        values = _parse(words)
        found = listen(values)
        write_json(Path(values["corpus"]) / "ear.json", found)
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ndsbif: stopped. Nothing of it is kept; sample=N hears fewer segments.", file=sys.stderr)
        return 130
    _show(found, Console())
    return 1 if found["faults"] or found["late_edges"] else 0


def _show(found: Mapping[str, Any], console: Console) -> None:
    for name, engine in found["engines"].items():
        for kind in ("onsets", "offsets"):
            line = _edge_line(f"{name}, {engine['turns']} turns, {kind}", engine[kind])
            console.print(line, highlight=False, soft_wrap=True)
    for title, key in (("faults", "faults"), (f"edges more than {found['tolerance_s']} s off", "late_edges")):
        shown = found[key][:WORST]
        console.print(f"{title}: {len(found[key])}", *shown, sep="\n  ", highlight=False, markup=False)
    rate = "no word" if found["word_error_rate"] is None else f"{found['word_error_rate']:.1%} of words"
    title = f"{found['asr']}: {rate} wrong over {found['transcribed']} segments; the worst:"
    table = Table("wrong", "segment", "written", "heard", title=title, title_justify="left", show_edge=False)
    for line in found["worst"]:
        segment = f"{Path(line['audio']).name.partition('.')[0]} {line['segment']}"
        table.add_row(f"{line['errors']}/{line['words']}", segment, escape(line["text"]), escape(line["heard"]))
    console.print(table)


def _edge_line(title: str, edge: Mapping[str, float]) -> str:
    if not edge["n"]:
        return f"{title}: none heard"
    return (
        f"{title}: {edge['mean_s']:+.3f} s on average, sd {edge['sd_s']:.3f}, worst {edge['worst_s']:+.3f}, "
        f"{edge['within_tolerance']:.1%} of {edge['n']} within {TOLERANCE_S} s"
    )


if __name__ == "__main__":
    sys.exit(main())
