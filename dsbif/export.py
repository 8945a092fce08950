"""``python -m dsbif.export official RUN OUT``: a run in the layout of the paper's release.

OUT gets ``manifest.jsonl``, ``scripts.jsonl``, ``audio/{conversation}/turn1.wav`` and ``turn2.wav``, and a folder
named after the model with ``{tid}.stereo.wav``, ``{tid}.rec.json``, ``_scores.jsonl`` and ``_pas.jsonl``. An unscored
case has no line in ``_scores.jsonl``, and a case that no judge has seen has none in ``_pas.jsonl``: neither is a 0.
``data=official data.path=OUT`` reads it back.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsbif.bench.case import Case, TimedSegment
from dsbif.bench.manifest import case_line, read_manifest
from dsbif.effects import read_summary
from dsbif.errors import CaseError, DsbifError
from dsbif.files import whole_file, write_jsonl
from dsbif.report.language import Language
from dsbif.rundir import RunDir
from dsbif.score.rows import ResultRow, read_rows

USAGE = "usage: python -m dsbif.export official RUN OUT"


def export_official(run_dir: RunDir, out: Path) -> int:
    """Write a run in the official layout; returns the number of cases.

    Raises:
        CaseError: the run has no manifest or no verdicts, or its user audio is gone.
        ConfigError: the run does not say where its user audio lies, or is not scored.
        JudgeError: its judgements cannot be read.
    """
    cases = read_manifest(run_dir.manifest)
    rows = {row.test_case_id: row for row in read_rows(run_dir.verdicts)}
    corpus = run_dir.corpus()
    write_jsonl(out / "manifest.jsonl", (_manifest_line(case) for case in cases))
    write_jsonl(out / "scripts.jsonl", (_script_line(case) for case in _conversations(cases)))
    for case in _conversations(cases):
        for number, turn in ((1, case.turn1), (2, case.turn2)):
            _copy(corpus / turn.audio, out / "audio" / _conversation(case) / f"turn{number}.wav")
    home = out / next((row.model for row in rows.values()), "model")
    for case in cases:
        for path in (run_dir.wav(case.test_case_id), run_dir.rec(case.test_case_id)):
            if path.is_file():
                _copy(path, home / path.name)
    scored = [rows[case.test_case_id] for case in cases if case.test_case_id in rows]
    write_jsonl(home / "_scores.jsonl", (_score_line(row) for row in scored if row.verdict is not None))
    write_jsonl(home / "_pas.jsonl", _pas_lines(read_summary(run_dir.path).language))
    return len(cases)


def _conversation(case: Case) -> str:
    """L4b may have audio of its own under the same conversation id."""
    return case.conversation_id if not _has_own_audio(case) else f"{case.conversation_id}-{case.level}"


def _has_own_audio(case: Case) -> bool:
    return any(segment.name == "trigger" for segment in case.turn2.segments) and case.probe == "R2_B_are_you_there"


def _conversations(cases: Sequence[Case]) -> list[Case]:
    """One case a conversation."""
    return list({_conversation(case): case for case in cases}.values())


def _manifest_line(case: Case) -> dict[str, Any]:
    """The official keys of a case; READBACK's target travels in its verifier."""
    line = case_line(case)
    keys = (
        "test_case_id", "conversation_id", "role_name", "level", "expected_action", "l4_expected", "trigger_window",
        "ground_truth_timestamps", "verifier", "barge_in_after_s", "system_prompt",
    )  # fmt: skip
    official = {key: line[key] for key in keys}
    if case.readback:
        official["verifier"] = {
            **line["verifier"],
            "params": {**line["verifier"]["params"], "target": line["readback"]},
        }
    return official


def _script_line(case: Case) -> dict[str, Any]:
    return {
        "conversation_id": _conversation(case),
        "turn1": case.turn1.text,
        "segments": list(_gapless(case.turn2.segments)),
    }


def _gapless(segments: Sequence[TimedSegment]) -> list[dict[str, Any]]:
    """Segments as durations end to end; the beat that joins two speech segments becomes a silence of its own."""
    out: list[dict[str, Any]] = []
    at = 0.0
    for segment in segments:
        if segment.span.start_s > at + 1e-6:
            out.append(
                {"type": "silence", "text": "", "duration_s": round(segment.span.start_s - at, 6), "words": None}
            )
        duration_s = round(segment.span.duration_s, 6)
        out.append({"type": segment.kind, "text": segment.text, "duration_s": duration_s, "words": None})
        at = segment.span.end_s
    return out


def _score_line(row: ResultRow) -> dict[str, Any]:
    return {"test_case_id": row.test_case_id, "verdict": bool(row.passed)}


def _pas_lines(language: Language | None) -> list[dict[str, Any]]:
    judged = [] if language is None else language.judgements
    return [
        {"test_case_id": one.test_case_id, "pas": one.fields.pas, "l4_category": one.fields.l4_category}
        for one in judged
        if one.fields is not None
    ]


def _copy(source: Path, target: Path) -> None:
    if not source.is_file():
        raise CaseError(f"{source} is gone; run the same command again to make it, then export.")
    with whole_file(target) as temporary:
        shutil.copyfile(source, temporary)


def main(arguments: list[str]) -> int:
    """Export a run; 2 where the command or the run cannot be used."""
    if len(arguments) != 3 or arguments[0] != "official":
        print(f"dsbif: {USAGE}", file=sys.stderr)
        return 2
    try:
        n = export_official(RunDir(Path(arguments[1])), Path(arguments[2]))
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    print(f"{n} cases in {arguments[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
