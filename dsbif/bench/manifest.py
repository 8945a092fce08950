"""``manifest.jsonl``: one case a line, written whole, read with suspicion.

The keys of the official release keep their names; ours stand beside them. Unknown keys are tolerated, wrong types are
not, and an audio path may not leave the corpus folder: manifests are strangers' data.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dsbif.bench.actions import Action
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.levels import Conflict, Level
from dsbif.bench.windows import WindowMode
from dsbif.door import explain
from dsbif.errors import CaseError
from dsbif.files import write_text
from dsbif.spans import Span

MAX_LINE_BYTES = 1_000_000


def _inside(path: str) -> str:
    parts = PurePosixPath(path.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in path:
        raise ValueError("an audio path must stay inside the corpus folder: relative, without '..'")
    return path


def _plain_id(text: str) -> str:
    if not text or not all(char.isalnum() or char in "-_." for char in text) or text.startswith("."):
        raise ValueError("an id names files: letters, digits, '-', '_' and '.' only")
    return text


PlainId = Annotated[str, Field(max_length=200), AfterValidator(_plain_id)]
"""An id that is safe as a file name."""
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
"""A time within a day."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class _Segment(_Line):
    name: str
    type: Literal["speech", "silence"]
    text: str = ""
    start_s: Seconds
    end_s: Seconds


class _Turn(_Line):
    audio: Annotated[str, AfterValidator(_inside)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    samples: Annotated[int, Field(gt=0)]
    segments: list[_Segment]


class _Window(_Line):
    start_s: Seconds
    end_s: Seconds


class _Verifier(_Line):
    name: str
    params: dict[str, float] = {}


class _CaseLine(_Line):
    test_case_id: PlainId
    conversation_id: PlainId
    role: str
    role_name: str
    probe: str
    instance: int
    level: Annotated[Level, Field(strict=False)]
    expected_action: Annotated[Action, Field(strict=False)]
    l4_expected: Annotated[Conflict | None, Field(strict=False)] = None
    system_prompt: str
    voice: str
    turn1: _Turn
    turn2: _Turn
    barge_in_after_s: Seconds | None = None
    trigger_window: _Window
    window_mode: Annotated[WindowMode, Field(strict=False)]
    verifier: _Verifier
    readback: list[str] = []


def read_manifest(path: Path) -> list[Case]:
    """Read and validate a manifest.

    Raises:
        CaseError: missing file, broken JSON, wrong type, unsafe path or a duplicate id; names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"the manifest {path} cannot be read: {error}") from error
    cases = [_read_line(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    seen: dict[str, int] = {}
    for number, case in enumerate(cases, 1):
        if case.test_case_id in seen:
            raise CaseError(
                f"{path}: case {case.test_case_id} stands twice (entries {seen[case.test_case_id]} and {number}); "
                "each case may stand once. Remove one of the two."
            )
        seen[case.test_case_id] = number
    return cases


def _read_line(path: Path, number: int, line: str) -> Case:
    where = f"{path}:{number}"
    if len(line) > MAX_LINE_BYTES:
        raise CaseError(f"{where}: the line holds {len(line)} characters, at most {MAX_LINE_BYTES} are read.")
    try:
        return _to_case(_CaseLine.model_validate(json.loads(line)))
    except ValidationError as error:
        raise CaseError(f"{where}: {explain(error)}. Correct the line, or build the manifest again.") from error
    except ValueError as error:
        raise CaseError(f"{where}: {error}. Every line must be one JSON object of a case.") from error


def _to_case(line: _CaseLine) -> Case:
    return Case(
        test_case_id=line.test_case_id,
        conversation_id=line.conversation_id,
        role=line.role,
        role_name=line.role_name,
        probe=line.probe,
        instance=line.instance,
        level=line.level,
        expected_action=line.expected_action,
        l4_expected=line.l4_expected,
        system_prompt=line.system_prompt,
        voice=line.voice,
        turn1=_to_turn(line.turn1),
        turn2=_to_turn(line.turn2),
        barge_in_after_s=line.barge_in_after_s,
        window=Span(line.trigger_window.start_s, line.trigger_window.end_s),
        window_mode=line.window_mode,
        readback=tuple(line.readback),
        verifier_params=line.verifier.params,
    )


def _to_turn(turn: _Turn) -> UserTurn:
    segments = tuple(
        TimedSegment(item.name, item.type, item.text, Span(item.start_s, item.end_s)) for item in turn.segments
    )
    if not any(segment.kind == "speech" for segment in segments):
        raise ValueError(f"the turn {turn.audio} has no speech segment")
    return UserTurn(turn.audio, turn.sha256, turn.samples, segments)


def write_manifest(path: Path, cases: Iterable[Case]) -> None:
    """Write a manifest, whole or not at all."""
    write_text(path, "".join(json.dumps(case_line(case), ensure_ascii=False) + "\n" for case in cases))


def case_line(case: Case) -> dict[str, Any]:
    """One case as the JSON object of its line; times to a millisecond, construction times unrounded to 1 µs."""
    return {
        "test_case_id": case.test_case_id,
        "conversation_id": case.conversation_id,
        "role": case.role,
        "role_name": case.role_name,
        "probe": case.probe,
        "instance": case.instance,
        "level": str(case.level),
        "expected_action": str(case.expected_action),
        "l4_expected": str(case.l4_expected) if case.l4_expected else None,
        "system_prompt": case.system_prompt,
        "voice": case.voice,
        "turn1": _turn_line(case.turn1),
        "turn2": _turn_line(case.turn2),
        "barge_in_after_s": case.barge_in_after_s,
        "trigger_window": {"start_s": _exact(case.window.start_s), "end_s": _exact(case.window.end_s)},
        "window_mode": str(case.window_mode),
        "ground_truth_timestamps": _ground_truth(case.turn2),
        "verifier": {"name": case.expected_action.lower(), "params": dict(case.verifier_params)},
        "readback": list(case.readback),
    }


def _turn_line(turn: UserTurn) -> dict[str, Any]:
    return {
        "audio": turn.audio,
        "sha256": turn.sha256,
        "samples": turn.samples,
        "segments": [
            {
                "name": segment.name,
                "type": segment.kind,
                "text": segment.text,
                "start_s": _exact(segment.span.start_s),
                "end_s": _exact(segment.span.end_s),
            }
            for segment in turn.segments
        ],
    }


def _ground_truth(turn: UserTurn) -> Mapping[str, float]:
    stamps: dict[str, float] = {}
    for segment in turn.segments:
        stamps[f"{segment.name}_on_s"] = _exact(segment.span.start_s)
        stamps[f"{segment.name}_off_s"] = _exact(segment.span.end_s)
    stamps["turn_end_s"] = _exact(turn.end_s)
    return stamps


def _exact(time_s: float) -> float:
    """A sample position survives the trip: microseconds, a fortieth of a sample at 24 kHz."""
    return round(time_s, 6)
