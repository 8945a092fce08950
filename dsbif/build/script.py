"""The written user side: one YAML a role, two turns a conversation.

``turn2`` follows its probe's layout, ``say`` for speech and ``pause`` for silence. ``safety_turn2`` is the L4b
variant of R2_B. ``same_as`` borrows a whole conversation, so that one waveform serves several roles; it is for the
matched cells only. A fault names file and line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dsbif.bench.grid import INSTANCES, ROLE_IDS, CaseKey, conversation_id, matched_key
from dsbif.bench.probes import PROBES, Silence, Speech, probes_of
from dsbif.bench.roles import stable_pick
from dsbif.door import explain, nearest
from dsbif.errors import CaseError

SCRIPTS_DIR = Path(__file__).parent / "scripts"
# libyaml reads the corpus ten times as fast, where PyYAML was built with it; both are the safe loader.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TINTS = (
    "age 18-29", "age 30-44", "age 45-59", "age 60-74", "age 75+", "Northeast", "Midwest", "South", "West",
)  # fmt: skip


def _spoken(value: object) -> object:
    """Text that a voice can say: white space made plain, and something left of it."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("spoken text must hold words")
    return " ".join(value.split())


_Spoken = Annotated[str, BeforeValidator(_spoken)]


class _Item(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    say: _Spoken | None = None
    pause: float | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "_Item":
        if (self.say is None) == (self.pause is None):
            raise ValueError("an item is either 'say: text' or 'pause: seconds'")
        return self


class _Conversation(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    probe: str
    instance: Annotated[int, Field(ge=INSTANCES[0], le=INSTANCES[-1])]
    same_as: str | None = None
    turn1: _Spoken | None = None
    turn2: tuple[_Item, ...] = ()
    safety_turn2: tuple[_Item, ...] = ()
    readback: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _own_or_borrowed(self) -> "_Conversation":
        if self.same_as and (self.turn1 or self.turn2 or self.safety_turn2 or self.readback):
            raise ValueError("same_as borrows the whole conversation: it stands without turns of its own")
        if not self.same_as and not self.turn1:
            raise ValueError("turn1 is missing")
        return self


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
    scripts, faults = scan_scripts(path, others)
    if faults:
        raise faults[0]
    return scripts


def scan_scripts(
    path: Path, others: Mapping[str, Path] | None = None
) -> tuple[tuple[Script, ...], tuple[CaseError, ...]]:
    """Like ``load_scripts``, but past every fault: what can be used, and all that is wrong, in the file's order."""
    try:
        lines, raw = _read(path)
    except CaseError as fault:
        return (), (fault,)
    scripts: dict[tuple[str, int], Script] = {}
    faults: list[CaseError] = []
    for line, entry in zip(lines, raw.conversations, strict=True):
        try:
            script = _script(path, raw.role, line, _conversation(path, line, entry), others or {})
            first = scripts.setdefault((script.probe, script.instance), script)
            if first is not script:
                raise CaseError(f"{script.where}: {script.probe} i{script.instance} stands at {first.where} already.")
        except CaseError as fault:
            faults.append(fault)
    return tuple(scripts.values()), tuple(faults)


def _read(path: Path) -> tuple[list[int], _ScriptFile]:
    """The file, and the line on which each of its conversations begins."""
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=_Loader)
        raw = _ScriptFile.model_validate(yaml.load(text, Loader=_Loader))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        fault = explain(error) if isinstance(error, ValidationError) else " ".join(str(error).split())
        raise CaseError(f"script file {path} cannot be used: {fault}. Compare it with {SCRIPTS_DIR}.") from error
    if path.stem in ROLE_IDS and path.stem != raw.role:
        raise CaseError(f"script file {path} says role: {raw.role}; its name says {path.stem}. Correct one of the two.")
    assert isinstance(node, yaml.MappingNode)
    (conversations,) = (value for key, value in node.value if key.value == "conversations")
    return [item.start_mark.line + 1 for item in conversations.value], raw


def _conversation(path: Path, line: int, entry: dict[str, Any]) -> _Conversation:
    try:
        return _Conversation.model_validate(entry)
    except ValidationError as error:
        raise CaseError(f"{path}:{line}: {explain(error)}.") from error


def _script(path: Path, role: str, line: int, entry: _Conversation, others: Mapping[str, Path]) -> Script:
    where = f"{path}:{line}"
    if entry.probe not in PROBES or PROBES[entry.probe].role not in (None, role):
        raise CaseError(f"{where}: {role} has no probe {entry.probe!r}.{nearest(entry.probe, probes_of(role))}")
    if entry.same_as:
        return _borrowed(where, role, entry, others)
    probe = PROBES[entry.probe]
    safety = _lines(where, entry.safety_turn2, probe.layout(safety=True)) if probe.safety_segments else ()
    if entry.safety_turn2 and not safety:
        raise CaseError(f"{where}: {entry.probe} has no safety_turn2; only R2_B_are_you_there has one.")
    return Script(
        role=role,
        probe=entry.probe,
        instance=entry.instance,
        turn1=entry.turn1 or "",
        turn2=_lines(where, entry.turn2, probe.segments),
        safety_turn2=safety,
        readback=entry.readback,
        where=where,
    )


def _borrowed(where: str, role: str, entry: _Conversation, others: Mapping[str, Path]) -> Script:
    lender = entry.same_as or ""
    if matched_key(role, entry.probe, entry.instance) is None:
        raise CaseError(f"{where}: {role} {entry.probe} i{entry.instance} shares no audio; write it out, no same_as.")
    if lender not in others or lender == role:
        raise CaseError(f"{where}: same_as names {lender!r}, which has no script file here.")
    for script in _lent(others[lender]):
        if (script.probe, script.instance) == (entry.probe, entry.instance):
            return replace(script, role=role, where=where)
    raise CaseError(f"{where}: {lender} has no {entry.probe} i{entry.instance} to borrow.")


def _lent(path: Path) -> tuple[Script, ...]:
    """What a file can lend. Its own faults are told where it is read for itself."""
    return _lendable(path, path.stat().st_mtime_ns if path.is_file() else 0)


@cache
def _lendable(path: Path, _changed_ns: int) -> tuple[Script, ...]:
    return scan_scripts(path)[0]


def _lines(where: str, items: tuple[_Item, ...], layout: tuple[Speech | Silence, ...]) -> tuple[Line, ...]:
    found = ["say" if item.say else f"pause {item.pause:g}" for item in items]
    wanted = ["say" if isinstance(part, Speech) else f"pause {part.duration_s:g}" for part in layout]
    if found != wanted:
        raise CaseError(f"{where}: turn 2 is {', '.join(found) or 'empty'}; its probe wants {', '.join(wanted)}.")
    return tuple(
        Line(part.name, text=item.say) if item.say else Line(part.name, pause_s=item.pause or 0.0)
        for item, part in zip(items, layout, strict=True)
    )


@cache
def load_corpus(folder: Path = SCRIPTS_DIR) -> Mapping[str, Script]:
    """Every written conversation by id, in grid order of roles.

    Raises:
        CaseError: the first fault of ``load_scripts``.
    """
    scripts, faults = scan_corpus(folder)
    if faults:
        raise faults[0]
    return scripts


def scan_corpus(folder: Path = SCRIPTS_DIR) -> tuple[Mapping[str, Script], tuple[CaseError, ...]]:
    """Like ``load_corpus``, but past every fault."""
    files = {role: folder / f"{role}.yaml" for role in ROLE_IDS}
    scanned = [scan_scripts(files[role], files) for role in ROLE_IDS]
    scripts = {script.conversation_id: script for found, _ in scanned for script in found}
    return scripts, tuple(fault for _, faults in scanned for fault in faults)
