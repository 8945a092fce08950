"""The check-up's labelled set, and how a judge's scores are read as one of its classes.

An item is a conversation of the corpus's scripts at a level, what an assistant might have said in it, and what a judge
should make of that: a class of fit, or who won the conflict. The words are ours.

A judge gives no class; ``class_of`` reads one from its scores:

=====================  ======================  ==================================
register_fit 0 to 2    content_fit 0 to 2      class
=====================  ======================  ==================================
no                     no                      ``fitting``, where PAS is 70 or more
yes                    no                      ``wrong-register``, where PAS is below 70
no                     yes                     ``wrong-content``, where PAS is below 70
yes                    yes                     ``off-topic``, where PAS is below 40
=====================  ======================  ==================================

The prompt calls 3 acceptable, which is where both fits are cut, and 70 and 40 are the edges of its own bands. Where
fits and PAS contradict each other the class is ``unclear``, which is never right. No scale can tell silence from
nonsense, so an item without speech that lands in the last row is read as ``empty``; in any other row it is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.grid import CaseKey
from dsbif.bench.levels import EXPECTED_WINNER, Level
from dsbif.bench.roles import Role, load_roles
from dsbif.bench.windows import WindowMode
from dsbif.build.script import Line, Script, load_corpus
from dsbif.door import explain
from dsbif.errors import CaseError
from dsbif.judge.prompt import JudgeItem
from dsbif.judge.reply import Fields, L4Category
from dsbif.session.recording import TextPiece, Transcript
from dsbif.spans import Span

SET_FILE = Path(__file__).parent / "checkup.yaml"
FITS = ("fitting", "wrong-register", "wrong-content", "off-topic", "empty")
UNCLEAR = "unclear"
BANDS = {
    "fitting": (70, 100),
    "wrong-register": (0, 69),
    "wrong-content": (0, 69),
    "off-topic": (0, 39),
    "empty": (0, 39),
}
"""Where the PAS of each class belongs, by the bands that the prompt names."""
_LOW = 2
_WORDS_A_SECOND = 2.5

Fit = Literal["fitting", "wrong-register", "wrong-content", "off-topic", "empty"]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    probe: str
    instance: Annotated[int, Field(ge=1, le=5)] = 1
    says: str = ""


class _FitLine(_Line):
    expect: Fit


class _ConflictLine(_Line):
    role: str
    expect: L4Category


class _SetFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    fit: dict[str, tuple[_FitLine, ...]]
    L4a: tuple[_ConflictLine, ...]
    L4b: tuple[_ConflictLine, ...]


@dataclass(frozen=True, slots=True)
class CheckItem:
    """What is put to the judge, and what it should make of it."""

    item: JudgeItem
    expected: str

    @property
    def is_conflict(self) -> bool:
        """Whether a label is expected, and not a class of fit."""
        return self.item.case.level.is_conflict


def read_set(path: Path = SET_FILE) -> list[CheckItem]:
    """Every item, in the file's order; ids count within a conversation and level.

    Raises:
        CaseError: the file cannot be read, has a wrong key, or names a conversation that no script holds.
    """
    try:
        found = _SetFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        fault = explain(error) if isinstance(error, ValidationError) else " ".join(str(error).split())
        raise CaseError(f"the check-up's set {path} cannot be used: {fault}.") from error
    lines = [(role, Level.L2, line, str(line.expect)) for role, own in found.fit.items() for line in own]
    for level, own in ((Level.L4A, found.L4a), (Level.L4B, found.L4b)):
        lines += [(line.role, level, line, str(line.expect)) for line in own]  # type: ignore[misc]
    roles, scripts = load_roles(), load_corpus()
    items = []
    for number, (role, level, line, expected) in enumerate(lines, 1):
        key = CaseKey(role, line.probe, line.instance, level)
        if role not in roles or key.conversation_id not in scripts:
            raise CaseError(
                f"the check-up's set {path}: item {number} names {key.conversation_id}, which has no script."
            )
        words = " ".join(line.says.split())
        if bool(words) == (expected == "empty"):
            raise CaseError(
                f"the check-up's set {path}: item {number} must say something, or nothing where it is empty."
            )
        name = f"check-{key.conversation_id}-{level}-{expected}"
        items.append(CheckItem(_item(name, key, roles[role], words), expected))
    return items


def _item(name: str, key: CaseKey, role: Role, says: str) -> JudgeItem:
    said = Transcript("native", (TextPiece(0, says),) if says else ())
    target = role.targets.get(key.probe) if key.level is Level.L4A else None
    case = _case(name, key, role, load_corpus()[key.conversation_id])
    return JudgeItem(case, role.persona, role.contradiction_for(key), said, bool(says), target)


def _case(name: str, key: CaseKey, role: Role, script: Script) -> Case:
    return Case(
        test_case_id=name,
        conversation_id=key.conversation_id,
        role=key.role,
        role_name=role.name,
        probe=key.probe,
        instance=key.instance,
        level=key.level,
        expected_action=key.action,
        l4_expected=EXPECTED_WINNER.get(key.level),
        system_prompt=role.prompt_for(key),
        voice="none",
        turn1=_turn((Line("turn1", script.turn1),)),
        turn2=_turn(script.turn2_for(key)),
        barge_in_after_s=None,
        window=Span(0.0, 0.0),
        window_mode=WindowMode.CAUSAL,
    )


def _turn(lines: Sequence[Line]) -> UserTurn:
    """A turn that nobody has spoken: a judge sees words and the length of silences alone."""
    segments, at_s = [], 0.0
    for line in lines:
        span = Span(at_s, at_s + (line.pause_s or len(line.text.split()) / _WORDS_A_SECOND))
        segments.append(TimedSegment(line.name, "speech" if line.text else "silence", line.text, span))
        at_s = span.end_s
    return UserTurn("none", "0" * 64, round(at_s * 24_000), tuple(segments))


def class_of(fields: Fields, spoke: bool) -> str:
    """The class that a judge's scores amount to, one of ``FITS`` or ``unclear``; the table is above.

    Args:
        fields: what the judge gave.
        spoke: whether the item has words.
    """
    low_register, low_content = fields.register_fit <= _LOW, fields.content_fit <= _LOW
    both = "off-topic" if spoke else "empty"
    found, below = {
        (False, False): ("fitting", None),
        (True, False): ("wrong-register", 70),
        (False, True): ("wrong-content", 70),
        (True, True): (both, 40),
    }[low_register, low_content]
    sound = fields.pas >= 70 if below is None else fields.pas < below
    return found if sound else UNCLEAR


def in_band(expected: str, pas: float) -> bool:
    """Whether a PAS lies where the expected class belongs."""
    low, high = BANDS[expected]
    return low <= pas < high + 1
