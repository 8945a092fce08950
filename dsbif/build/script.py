"""The written user side: one YAML a role, two turns a conversation.

``turn2`` follows its probe's layout, ``say`` for speech and ``pause`` for silence. ``safety_turn2`` is the L4b
variant of R2_B. ``same_as`` borrows a whole conversation, so that one waveform serves several roles. A fault names
file and line.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from dsbif.bench.grid import ROLE_IDS, CaseKey, conversation_id
from dsbif.bench.probes import PROBES, Silence, Speech
from dsbif.bench.roles import stable_pick
from dsbif.door import explain
from dsbif.errors import CaseError

SCRIPTS_DIR = Path(__file__).parent / "scripts"
TINTS = (
    "age 18-29", "age 30-44", "age 45-59", "age 60-74", "age 75+", "Northeast", "Midwest", "South", "West",
)  # fmt: skip


class _Item(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    say: str | None = None
    pause: float | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "_Item":
        if (self.say is None) == (self.pause is None):
            raise ValueError("an item is either 'say: text' or 'pause: seconds'")
        return self


class _Conversation(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    probe: str
    instance: int
    same_as: str | None = None
    turn1: str = ""
    turn2: tuple[_Item, ...] = ()
    safety_turn2: tuple[_Item, ...] = ()
    readback: tuple[str, ...] = ()


class _ScriptFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    role: Literal["R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8"]
    conversations: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One written segment: text with its name, or a pause of ``pause_s`` seconds with an empty text."""

    name: str
    text: str = ""
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Script:
    """One conversation as written; ``where`` is the file and line it stands on."""

    role: str
    probe: str
    instance: int
    turn1: str
    turn2: tuple[Line, ...]
    safety_turn2: tuple[Line, ...]
    readback: tuple[str, ...]
    where: str

    @property
    def conversation_id(self) -> str:
        """For example ``R1-C1-i5``."""
        return conversation_id(self.role, self.probe, self.instance)

    @property
    def tint(self) -> str:
        """The demographic tint that may touch word choice: an age band or a census region, by stable hash."""
        return tint_of(self.conversation_id)

    def turn2_for(self, case: CaseKey) -> tuple[Line, ...]:
        """Turn 2 of a case: the L4b variant where the case has one."""
        return self.safety_turn2 if case.has_safety_turn else self.turn2


def tint_of(conversation: str) -> str:
    """The tint of a conversation id."""
    return TINTS[stable_pick(f"tint:{conversation}", len(TINTS))]


def load_scripts(path: Path, others: Mapping[str, Path] | None = None) -> tuple[Script, ...]:
    """Read one role's script file; ``others`` maps role ids to the files that ``same_as`` may name.

    Raises:
        CaseError: missing file, broken YAML, a wrong key or a turn that does not follow its probe's layout.
    """
    lines, raw = _read(path)
    found = [_conversation(path, line, entry) for line, entry in zip(lines, raw.conversations, strict=True)]
    _no_duplicates(path, found)
    return tuple(_script(path, raw.role, line, entry, others or {}) for line, entry in found)


def _read(path: Path) -> tuple[list[int], _ScriptFile]:
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        raw = _ScriptFile.model_validate(yaml.safe_load(text))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        fault = explain(error) if isinstance(error, ValidationError) else " ".join(str(error).split())
        raise CaseError(f"script file {path} cannot be used: {fault}. Compare it with {SCRIPTS_DIR}.") from error
    assert isinstance(node, yaml.MappingNode)
    for key, value in node.value:
        if key.value == "conversations":
            return [item.start_mark.line + 1 for item in value.value], raw
    raise CaseError(f"script file {path} has no 'conversations'.")


def _conversation(path: Path, line: int, entry: dict[str, Any]) -> tuple[int, _Conversation]:
    try:
        return line, _Conversation.model_validate(entry)
    except ValidationError as error:
        raise CaseError(f"{path}:{line}: {explain(error)}.") from error


def _no_duplicates(path: Path, found: list[tuple[int, _Conversation]]) -> None:
    seen: dict[tuple[str, int], int] = {}
    for line, entry in found:
        first = seen.setdefault((entry.probe, entry.instance), line)
        if first != line:
            raise CaseError(f"{path}:{line}: {entry.probe} i{entry.instance} stands on line {first} already.")


def _script(path: Path, role: str, line: int, entry: _Conversation, others: Mapping[str, Path]) -> Script:
    where = f"{path}:{line}"
    if entry.probe not in PROBES or PROBES[entry.probe].role not in (None, role):
        raise CaseError(f"{where}: {role} has no probe {entry.probe!r}.")
    if entry.same_as:
        return _borrowed(where, role, entry, others)
    probe = PROBES[entry.probe]
    safety = _lines(where, entry.safety_turn2, probe.layout(safety=True)) if probe.safety_segments else ()
    return Script(
        role=role,
        probe=entry.probe,
        instance=entry.instance,
        turn1=entry.turn1,
        turn2=_lines(where, entry.turn2, probe.segments),
        safety_turn2=safety,
        readback=entry.readback,
        where=where,
    )


def _borrowed(where: str, role: str, entry: _Conversation, others: Mapping[str, Path]) -> Script:
    lender = entry.same_as or ""
    if lender not in others or lender == role:
        raise CaseError(f"{where}: same_as names {lender!r}, which has no script file here.")
    for script in load_scripts(others[lender]):
        if (script.probe, script.instance) == (entry.probe, entry.instance):
            return Script(
                role, script.probe, script.instance, script.turn1, script.turn2, script.safety_turn2,
                script.readback, where,
            )  # fmt: skip
    raise CaseError(f"{where}: {lender} has no {entry.probe} i{entry.instance} to borrow.")


def _lines(where: str, items: tuple[_Item, ...], layout: tuple[Speech | Silence, ...]) -> tuple[Line, ...]:
    found = ["say" if item.say is not None else f"pause {item.pause:g}" for item in items]
    wanted = ["say" if isinstance(part, Speech) else f"pause {part.duration_s:g}" for part in layout]
    if found != wanted:
        raise CaseError(f"{where}: turn 2 is {', '.join(found) or 'empty'}; its probe wants {', '.join(wanted)}.")
    return tuple(
        Line(part.name, text=" ".join(item.say.split()))
        if item.say is not None
        else Line(part.name, pause_s=item.pause or 0.0)
        for item, part in zip(items, layout, strict=True)
    )


@cache
def load_corpus(folder: Path = SCRIPTS_DIR) -> Mapping[str, Script]:
    """Every written conversation by id, in grid order of roles."""
    files = {role: folder / f"{role}.yaml" for role in ROLE_IDS}
    scripts = [script for role in ROLE_IDS for script in load_scripts(files[role], files)]
    return {script.conversation_id: script for script in scripts}
