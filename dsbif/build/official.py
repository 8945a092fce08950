"""The paper's own release, read as it is: ``manifest.jsonl``, ``scripts.jsonl`` and a folder of audio.

Conventions
-----------
* Known keys are checked strictly, unknown ones are tolerated. A release is strangers' data: ids name files, so they are
  plain, and no path leaves the folder.
* The release's ``trigger_window`` is used unchanged. It is taken as turn-2 time, like everything in its scripts.
* ``verifier.params`` outrank the configured thresholds.
* Role, probe and instance are read from the conversation id (``R1-C1-i5``).

What the release is not known to carry is filled in: a case without ``system_prompt`` gets this project's text for its
role and level; a READBACK case without a target in its verifier gets all the words of its speech segments. Audio is
looked for as ``audio/{conversation}/turn1.wav`` (or ``.flac``), then ``audio/{conversation}.turn1.wav`` and
``audio/{conversation}_turn1.wav``; a conversation of its own for L4b is ``{conversation}-L4b``.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dsbif.audio.wav import read_wav
from dsbif.bench.actions import Action
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.grid import CaseKey
from dsbif.bench.levels import Conflict, Level
from dsbif.bench.manifest import MAX_LINE_BYTES, PlainId, Seconds
from dsbif.bench.probes import PROBES
from dsbif.bench.roles import Role
from dsbif.bench.windows import WindowMode
from dsbif.build.voices import RATE_HZ
from dsbif.door import explain
from dsbif.errors import CaseError
from dsbif.files import sha256_of
from dsbif.spans import Span

_CONVERSATION = re.compile(r"^(R[1-8])-(.+)-i([1-9]\d*)$")
_TARGET_KEYS = ("target", "target_tokens", "readback_target", "tokens")
_SUFFIXES = (".wav", ".flac")


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class _Window(_Line):
    start_s: Seconds
    end_s: Seconds


class _Verifier(_Line):
    name: str
    params: dict[str, Any] = {}


class _CaseLine(_Line):
    test_case_id: PlainId
    conversation_id: PlainId
    role_name: str
    level: Annotated[Level, Field(strict=False)]
    expected_action: Annotated[Action, Field(strict=False)]
    l4_expected: Annotated[Conflict | None, Field(strict=False)] = None
    trigger_window: _Window
    verifier: _Verifier
    barge_in_after_s: Seconds | None = None
    system_prompt: str | None = None


class _Word(_Line):
    word: str
    start: Seconds
    end: Seconds


class _Segment(_Line):
    type: Literal["speech", "silence"]
    text: str = ""
    duration_s: Seconds
    words: list[_Word] | None = None


class _ScriptLine(_Line):
    conversation_id: PlainId
    turn1: str
    segments: Annotated[list[_Segment], Field(min_length=1)]


def read_official(folder: Path, roles: Mapping[str, Role]) -> list[Case]:
    """Every case of a release.

    Raises:
        CaseError: a missing file, a wrong type, an unsafe id, missing audio or script; names file and line.
    """
    scripts = {line.conversation_id: line for _, line in _lines(folder / "scripts.jsonl", _ScriptLine)}
    cases: dict[str, Case] = {}
    for where, line in _lines(folder / "manifest.jsonl", _CaseLine):
        if line.test_case_id in cases:
            raise CaseError(f"{where}: case {line.test_case_id} stands twice. Each case may stand once.")
        cases[line.test_case_id] = _case(where, folder, line, scripts, roles)
    return list(cases.values())


def _lines(path: Path, schema: type[Any]) -> Iterator[tuple[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"{path} cannot be read: {error}. data.path must be the folder of a release.") from error
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        if len(line) > MAX_LINE_BYTES:
            raise CaseError(f"{where}: the line holds {len(line)} characters, at most {MAX_LINE_BYTES} are read.")
        if line.strip():
            yield where, _checked(where, schema, line)


def _checked(where: str, schema: type[Any], line: str) -> Any:
    try:
        return schema.model_validate(json.loads(line))
    except ValidationError as error:
        raise CaseError(f"{where}: {explain(error)}.") from error
    except ValueError as error:
        raise CaseError(f"{where}: {error}. Every line must be one JSON object.") from error


def _case(
    where: str, folder: Path, line: _CaseLine, scripts: Mapping[str, _ScriptLine], roles: Mapping[str, Role]
) -> Case:
    found = _CONVERSATION.match(line.conversation_id)
    if not found or found[2] not in PROBES:
        raise CaseError(f"{where}: conversation id {line.conversation_id!r} is not of the form R1-C1-i5.")
    role, probe, instance = found[1], found[2], int(found[3])
    own = f"{line.conversation_id}-{line.level}"
    source = own if own in scripts else line.conversation_id
    if source not in scripts:
        raise CaseError(f"{where}: scripts.jsonl has no conversation {line.conversation_id}.")
    script = scripts[source]
    turn2 = _turn(where, folder, source, 2, _timed(script.segments))
    window = line.trigger_window
    if window.end_s < window.start_s:
        raise CaseError(f"{where}: trigger_window ends at {window.end_s} s, before it starts at {window.start_s} s.")
    key = CaseKey(role, probe, instance, line.level)
    return Case(
        test_case_id=line.test_case_id,
        conversation_id=line.conversation_id,
        role=role,
        role_name=line.role_name,
        probe=probe,
        instance=instance,
        level=line.level,
        expected_action=line.expected_action,
        l4_expected=line.l4_expected,
        system_prompt=roles[role].prompt_for(key) if line.system_prompt is None else line.system_prompt,
        voice="official",
        turn1=_turn(where, folder, source, 1, None, script.turn1, fallback=line.conversation_id),
        turn2=turn2,
        barge_in_after_s=line.barge_in_after_s,
        window=Span(window.start_s, window.end_s),
        window_mode=WindowMode.OFFICIAL,
        readback=_readback(where, line, script) if line.expected_action is Action.READBACK else (),
        verifier_params=_limits(line.verifier.params),
    )


def _timed(segments: Sequence[_Segment]) -> tuple[TimedSegment, ...]:
    timed, at = [], 0.0
    for number, segment in enumerate(segments, 1):
        span = Span(at, at + segment.duration_s)
        timed.append(TimedSegment(f"s{number}", segment.type, segment.text, span))
        at = span.end_s
    return tuple(timed)


def _turn(
    where: str,
    folder: Path,
    source: str,
    number: int,
    segments: tuple[TimedSegment, ...] | None,
    text: str = "",
    fallback: str = "",
) -> UserTurn:
    path = _audio(folder, source, number) or (_audio(folder, fallback, number) if fallback else None)
    if path is None:
        raise CaseError(f"{where}: there is no audio of turn {number}, looked for audio/{source}/turn{number}.wav.")
    samples, rate_hz = read_wav(path)
    if rate_hz != RATE_HZ or samples.shape[1] != 1:
        raise CaseError(f"{path} has {samples.shape[1]} channels at {rate_hz} Hz; user audio is mono at {RATE_HZ} Hz.")
    whole = (TimedSegment("turn1", "speech", text, Span(0.0, len(samples) / RATE_HZ)),)
    turn = UserTurn(path.relative_to(folder).as_posix(), sha256_of(path), len(samples), segments or whole)
    if not turn.speech:
        raise CaseError(f"{where}: the script of {source} has no speech segment.")
    return turn


def _audio(folder: Path, conversation: str, number: int) -> Path | None:
    stems = (f"{conversation}/turn{number}", f"{conversation}.turn{number}", f"{conversation}_turn{number}")
    candidates = (folder / "audio" / f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def _readback(where: str, line: _CaseLine, script: _ScriptLine) -> tuple[str, ...]:
    for key in _TARGET_KEYS:
        value = line.verifier.params.get(key)
        if value is None:
            continue
        chunks = [value] if isinstance(value, str) else value
        if not isinstance(chunks, list) or not all(isinstance(chunk, str) for chunk in chunks):
            raise CaseError(f"{where}: key 'verifier.params.{key}' must be text or a list of texts; found {value!r}.")
        return tuple(chunks)
    return tuple(segment.text for segment in script.segments if segment.type == "speech")


def _limits(params: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among the parameters; whatever else a release keeps there is not a threshold."""
    return {key: float(value) for key, value in params.items() if type(value) in (int, float)}
