"""What code can see of a bad script: ``python -m dsbif.build.lint [FOLDER]`` exits 1 with file, line and reason.

Rules, each a rejection of the benchmark:

* *layout*: turn 2 follows its probe (checked on loading).
* *length*: words at 2.7 a second lie within 50 % of the segment's target; turn 1's as well.
* *speech*: words only: no digits, symbols or hesitation sounds; every segment ends with punctuation.
* *resumption*: after an inner pause the user goes on with at least three words, and the segment before the pause does
  not close the thought with a full stop (a check phrase ends with a question mark instead).
* *check phrase*: one to five words and a question mark.
* *trigger*: a segment of its own of two to fourteen words.
* *role*: the user neither names the assistant's role in addressing it nor talks about turn-taking.
* *turn 1*: twelve words or more, no pointer to earlier talk.
* *readback*: a target exactly where the action is READBACK, chunk by chunk, with no token that the turn lacks.
* *matched*: the shared conversations of R1, R2 and R3 are the same text.
* *distinct*: no two conversations share a run of eight words.
* *counts*: 240 conversations and 5 safety variants.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsbif.bench.actions import Action
from dsbif.bench.grid import CELLS, INSTANCES, Cell, conversation_id, matched_key
from dsbif.bench.levels import Level
from dsbif.bench.probes import PROBES, TARGET_TOLERANCE, TURN1_TARGET_S, Silence, Speech
from dsbif.bench.tokens import tokens
from dsbif.build.script import SCRIPTS_DIR, Line, Script, load_corpus
from dsbif.errors import CaseError

WORDS_PER_S = 2.7
SHARED_RUN = 8
MIN_TURN1_WORDS = 12
_PLAIN = re.compile(r"[A-Za-z',.?! -]+")
_HESITATION = re.compile(r"\b(uh|um|uhm|erm|hmm|mhm|mm|uh-huh|ah)\b", re.IGNORECASE)
_ROLE_NAMES = {
    "R1": ("nurse", "triage"),
    "R2": ("counselor", "therapist"),
    "R3": ("dispatcher", "operator", "call taker"),
    "R4": ("instructor", "meditation guide", "meditation teacher"),
    "R5": ("tutor", "teacher"),
    "R6": ("order taker", "cashier"),
    "R7": ("interpreter", "translator"),
    "R8": ("improv", "scene partner"),
}
_TURN_TAKING = re.compile(
    r"\b(interrupt\w*|let me finish|i'?m not finished|don'?t talk|stop talking|your turn|my turn|go ahead|backchannel"
    r"|be quiet|say something|jump in|cut (me|you) off|talk over|(please|just) listen)\b",
    re.IGNORECASE,
)
_POINTERS = re.compile(
    r"\b(as i said|like i said|as i told you|like before|as before|you said|you told me|you mentioned|earlier you"
    r"|we talked|what we discussed|last time we)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A rejection: ``where`` is file and line."""

    where: str
    conversation: str
    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.where}: {self.conversation}: {self.rule}: {self.detail}"


def check_script(script: Script) -> Iterator[Fault]:
    """Every fault of one conversation by itself."""
    for rule, detail in _faults(script):
        yield Fault(script.where, script.conversation_id, rule, detail)


def _faults(script: Script) -> Iterator[tuple[str, str]]:
    probe = PROBES[script.probe]
    yield from _turn1(script.turn1)
    yield from _turn(script, script.turn2, probe.segments)
    if probe.safety_segments:
        yield from _turn(script, script.safety_turn2, probe.layout(safety=True))
    yield from _readback(script)


def _turn1(text: str) -> Iterator[tuple[str, str]]:
    if len(text.split()) < MIN_TURN1_WORDS:
        yield "turn 1", f"has {len(text.split())} words; standing alone takes at least {MIN_TURN1_WORDS}"
    if found := _POINTERS.search(text):
        yield "turn 1", f"points to earlier talk: '{found[0]}'"
    yield from _length("turn1", text, TURN1_TARGET_S)
    yield from _speech("turn1", text)


def _turn(script: Script, lines: Sequence[Line], layout: Sequence[Speech | Silence]) -> Iterator[tuple[str, str]]:
    for index, (line, part) in enumerate(zip(lines, layout, strict=True)):
        if isinstance(part, Silence):
            yield from _resumption(lines, index)
            continue
        yield from _length(line.name, line.text, part.target_s)
        yield from _speech(line.name, line.text)
        words = len(line.text.split())
        if part.trigger and not 2 <= words <= 14:
            yield "trigger", f"'{line.text}' has {words} words; a trigger stands alone with 2 to 14"
        if line.name == "check" and not (words <= 5 and line.text.endswith("?")):
            yield "check phrase", f"'{line.text}' is no question of one to five words"
    said = " ".join([script.turn1, *(line.text for line in lines)])
    for name in _ROLE_NAMES[script.role]:
        if re.search(rf"\b{name}\b", said, re.IGNORECASE):
            yield "role", f"the user names the assistant's role: '{name}'"
    if found := _TURN_TAKING.search(said):
        yield "role", f"the user talks about turn-taking: '{found[0]}'"


def _resumption(lines: Sequence[Line], index: int) -> Iterator[tuple[str, str]]:
    if index == 0 or index == len(lines) - 1:
        yield "resumption", "a pause must have speech on both sides"
        return
    before, after = lines[index - 1], lines[index + 1]
    if before.name != "check" and before.text.endswith((".", "!", "?")):
        yield "resumption", f"'… {before.text[-30:]}' closes the thought before the pause; end it with a comma"
    if len(after.text.split()) < 3:
        yield "resumption", f"'{after.text}' is no resumption"


def _length(name: str, text: str, target_s: float) -> Iterator[tuple[str, str]]:
    estimate_s = len(text.split()) / WORDS_PER_S
    if abs(estimate_s - target_s) > TARGET_TOLERANCE * target_s and not (name == "check" and estimate_s < target_s):
        yield "length", f"{name} has {len(text.split())} words, about {estimate_s:.1f} s; its target is {target_s:g} s"


def _speech(name: str, text: str) -> Iterator[tuple[str, str]]:
    if not _PLAIN.fullmatch(text):
        odd = sorted(set(re.sub(_PLAIN, "", text))) or ["nothing"]
        yield "speech", f"{name} holds what a voice cannot say: {' '.join(odd)}"
    elif not text.rstrip().endswith((".", ",", "?", "!")):
        yield "speech", f"{name} ends without punctuation"
    if found := _HESITATION.search(text):
        yield "speech", f"{name} holds the hesitation sound '{found[0]}'"


def _readback(script: Script) -> Iterator[tuple[str, str]]:
    wanted = Cell(script.role, script.probe).action_at(Level.L1) is Action.READBACK
    if wanted != bool(script.readback):
        yield "readback", "has no target" if wanted else "has a target and its action is not READBACK"
        return
    if not wanted:
        return
    chunks = [line.text for line in script.turn2 if line.text]
    # A changed order is confirmed as it ends up, so its items draw on the whole turn.
    sources = chunks if script.probe == "C2" else [" ".join(chunks)] * len(script.readback)
    if len(sources) != len(script.readback):
        yield "readback", f"has {len(script.readback)} chunks for {len(sources)} dictated ones"
        return
    for target, source in zip(script.readback, sources, strict=True):
        lacking = Counter(tokens(target)) - Counter(tokens(source))
        if lacking or not tokens(target):
            yield "readback", f"'{target}' has tokens that were not dictated: {' '.join(lacking) or 'it is empty'}"


def check_corpus(scripts: Mapping[str, Script], instances: Sequence[int] = INSTANCES) -> list[Fault]:
    """Every fault of a corpus, in grid order."""
    faults = [fault for script in scripts.values() for fault in check_script(script)]
    faults += _matched(scripts)
    faults += _shared_runs(scripts)
    wanted = [conversation_id(cell.role, cell.probe, n) for cell in CELLS for n in instances]
    missing = [cid for cid in wanted if cid not in scripts]
    if missing:
        shown = f"{', '.join(missing[:6])}{' …' if len(missing) > 6 else ''}"
        faults.append(Fault("corpus", "counts", "missing", f"{len(missing)} of {len(wanted)} conversations: {shown}"))
    return faults


def _matched(scripts: Mapping[str, Script]) -> Iterator[Fault]:
    first: dict[str, Script] = {}
    for script in scripts.values():
        key = matched_key(script.role, script.probe, script.instance)
        if key is None:
            continue
        owner = first.setdefault(key, script)
        if (script.turn1, script.turn2) != (owner.turn1, owner.turn2):
            detail = f"differs from {owner.conversation_id}, with which it shares its audio (same_as: {owner.role})"
            yield Fault(script.where, script.conversation_id, "matched", detail)


def _shared_runs(scripts: Mapping[str, Script]) -> Iterator[Fault]:
    seen: dict[tuple[str, ...], str] = {}
    told: set[tuple[str, str]] = set()
    for script in scripts.values():
        owner = matched_key(script.role, script.probe, script.instance) or script.conversation_id
        for run in _runs(script):
            other = seen.setdefault(run, owner)
            if other != owner and (owner, other) not in told:
                told.add((owner, other))
                yield Fault(script.where, script.conversation_id, "distinct", f"shares '{' '.join(run)}' with {other}")


def _runs(script: Script) -> Iterator[tuple[str, ...]]:
    for text in {script.turn1, _said(script.turn2), _said(script.safety_turn2)}:
        words = re.findall(r"[a-z']+", text.lower())
        for start in range(len(words) - SHARED_RUN + 1):
            yield tuple(words[start : start + SHARED_RUN])


def _said(lines: Sequence[Line]) -> str:
    return " ".join(line.text for line in lines if line.text)


def main(arguments: Sequence[str]) -> int:
    """Check a folder of scripts; 1 on any fault, 2 where a file cannot be used."""
    instances = INSTANCES[:1] if "--instances=1" in arguments else INSTANCES
    folders = [Path(argument) for argument in arguments if not argument.startswith("--")]
    try:
        scripts = load_corpus(folders[0] if folders else SCRIPTS_DIR)
    except CaseError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    faults = check_corpus(scripts, instances)
    for fault in faults:
        print(fault, file=sys.stderr)
    variants = sum(bool(script.safety_turn2) for script in scripts.values())
    print(f"{len(scripts)} conversations, {variants} safety variants: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
