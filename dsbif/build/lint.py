"""What code can see of a bad script: ``python -m dsbif.build.lint [FOLDER]`` exits 1 with file, line and reason.

Rules, each a rejection of the benchmark:

* *layout*: the file loads, and turn 2 follows its probe.
* *length*: words at 2.7 a second lie within 50 % of the segment's target; turn 1's as well. A check phrase may be
  shorter. ``python -m dsbif.build.spoken`` holds the audio itself against the targets.
* *speech*: words and plain punctuation: no digits, symbols, abbreviations, dashes or hesitation sounds; at most two
  sentence ends inside a segment.
* *resumption*: after an inner pause the user goes on with at least three words, and the segment before the pause does
  not close the thought with a full stop.
* *check phrase*: one to five words and a question mark. *trigger*: a segment of its own of two to twelve words.
* *ending*: a turn ends its sentence, and only the caller who trails off (R3_B) does not; R4_B ends in a question.
* *premise*: R3_A has a spelled number and corrects it with one; R7_B's first segment ends in a figure and the last one
  has another.
* *role*: the user neither names the assistant's role nor talks about turn-taking.
* *turn 1*: twelve words or more, no pointer to earlier talk ("as I said", "you asked me", "that one"), no opening "he",
  "she", "they" or "it happened" without a noun.
* *readback*: a target exactly where the action is READBACK; on C2 chunk by chunk and in order, on R6_B item by item
  from the whole turn; single spelled digits only.
* *matched*: the shared conversations of R1, R2 and R3 are the same text.
* *distinct*: no two conversations share a run of eight words.
* *counts*: 240 conversations, the five safety variants among them; with ``--instances 1`` the first of each cell, 48.
"""

import argparse
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
from dsbif.build.script import SCRIPTS_DIR, Line, Script, scan_corpus
from dsbif.build.wording import Finding, dictated, numbers_in, speech, stands_alone, stays_in_scene, words

WORDS_PER_S = 2.7
SHARED_RUN = 8
TRIGGER_WORDS = range(2, 13)
CHECK_WORDS = range(1, 6)
MIN_RESUMPTION_WORDS = 3
_FIGURE_TAIL_WORDS = 3


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
    for rule, detail in dict.fromkeys(_findings(script)):
        yield Fault(script.where, script.conversation_id, rule, detail)


def _findings(script: Script) -> Iterator[Finding]:
    probe = PROBES[script.probe]
    yield from stands_alone(script.turn1)
    yield from speech("turn1", script.turn1)
    yield from _length("turn1", len(words(script.turn1)), TURN1_TARGET_S)
    yield from stays_in_scene(script.role, script.turn1)
    yield from _turn(script, script.turn2, probe.segments)
    if probe.safety_segments:
        yield from _turn(script, script.safety_turn2, probe.layout(safety=True))
    yield from _premise(script)
    yield from _readback(script)


def _turn(script: Script, lines: Sequence[Line], layout: Sequence[Speech | Silence]) -> Iterator[Finding]:
    for index, (line, part) in enumerate(zip(lines, layout, strict=True)):
        if isinstance(part, Silence):
            yield from _resumption(lines[index - 1], lines[index + 1])
            continue
        count = len(words(line.text))
        yield from _length(line.name, count, part.target_s)
        yield from speech(line.name, line.text)
        yield from stays_in_scene(script.role, line.text)
        if part.trigger and count not in TRIGGER_WORDS:
            yield "trigger", f"'{line.text}' has {count} words; a trigger stands alone with 2 to 12"
        if line.name == "check" and not (count in CHECK_WORDS and line.text.endswith("?")):
            yield "check phrase", f"'{line.text}' is no question of one to five words"
    yield from _ending(script.probe, lines[-1])


def _resumption(before: Line, after: Line) -> Iterator[Finding]:
    if before.name != "check" and before.text.endswith((".", "!", "?")):
        yield "resumption", f"'… {before.text[-30:]}' closes the thought before the pause; end it with a comma"
    if len(words(after.text)) < MIN_RESUMPTION_WORDS:
        yield "resumption", f"'{after.text}' is no resumption"


def _ending(probe: str, last: Line) -> Iterator[Finding]:
    tail = f"'… {last.text[-30:]}'"
    if probe == "R3_B_caller_trails_off":
        if not last.text.endswith(","):
            yield "ending", f"{tail} ends its sentence; the caller trails off, with a comma"
    elif not last.text.endswith((".", "?", "!")):
        yield "ending", f"{tail} does not end its sentence, and the turn is over"
    elif probe == "R4_B_logistical_question" and not last.text.endswith("?"):
        yield "ending", f"{tail} is no question"


def _length(name: str, count: int, target_s: float) -> Iterator[Finding]:
    estimate_s = count / WORDS_PER_S
    if misses_target(name, estimate_s, target_s):
        yield "length", f"{name} has {count} words, about {estimate_s:.1f} s; its target is {target_s:g} s"


def misses_target(name: str, duration_s: float, target_s: float) -> bool:
    """Whether a speech segment is more than half off its target. A check phrase ("you know?") may be shorter."""
    short = name != "check" and duration_s < (1 - TARGET_TOLERANCE) * target_s
    return short or duration_s > (1 + TARGET_TOLERANCE) * target_s


def _premise(script: Script) -> Iterator[Finding]:
    text = {line.name: line.text for line in script.turn2}
    if script.probe == "R3_A_address_self_correct":
        for name in ("lead", "trigger"):
            if not numbers_in(text[name]):
                yield "premise", f"{name} has no spelled number: '{text[name]}'"
    if script.probe == "R7_B_source_number_correction":
        if not numbers_in(" ".join(words(text["figure"])[-_FIGURE_TAIL_WORDS:])):
            yield "premise", f"figure does not end in a number: '… {text['figure'][-40:]}'"
        if not numbers_in(text["correction"]):
            yield "premise", f"correction has no number: '{text['correction']}'"


def _readback(script: Script) -> Iterator[Finding]:
    wanted = Cell(script.role, script.probe).action_at(Level.L1) is Action.READBACK
    if wanted != bool(script.readback):
        yield "readback", "has no target" if wanted else "has a target and its action is not READBACK"
        return
    chunks = [line.text for line in script.turn2 if line.text]
    by_chunk = script.probe == "C2"
    if wanted and by_chunk and len(chunks) != len(script.readback):
        yield "readback", f"has {len(script.readback)} chunks for {len(chunks)} dictated ones"
        return
    # A changed order is confirmed as it ends up, so its items draw on the whole turn.
    sources = chunks if by_chunk else [" ".join(chunks)] * len(script.readback)
    for target, source in zip(script.readback, sources, strict=wanted):
        yield from dictated(target)
        lacking = Counter(tokens(target)) - Counter(tokens(source))
        if lacking or not tokens(target):
            yield "readback", f"'{target}' has tokens that were not dictated: {' '.join(lacking) or 'it is empty'}"
        elif by_chunk and not _in_order(tokens(target), tokens(source)):
            yield "readback", f"'{target}' is not in the order in which '{source}' was dictated"


def _in_order(part: Sequence[str], whole: Sequence[str]) -> bool:
    rest = iter(whole)
    return all(token in rest for token in part)


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
    turns = (script.turn2, script.safety_turn2)
    for text in (script.turn1, *(" ".join(line.text for line in turn if line.text) for turn in turns)):
        said = re.findall(r"[a-z']+", text.lower())
        for start in range(len(said) - SHARED_RUN + 1):
            yield tuple(said[start : start + SHARED_RUN])


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a folder of scripts; 1 on any fault."""
    parser = argparse.ArgumentParser(prog="python -m dsbif.build.lint", description="Checks the written user side.")
    parser.add_argument("folder", nargs="?", type=Path, default=SCRIPTS_DIR, help="of R1.yaml to R8.yaml")
    parser.add_argument("--instances", type=int, choices=INSTANCES, default=INSTANCES[-1], help="how many of each cell")
    options = parser.parse_args(arguments)
    scripts, broken = scan_corpus(options.folder)
    faults = [*broken, *check_corpus(scripts, INSTANCES[: options.instances])]
    for fault in faults:
        print(fault, file=sys.stderr)
    variants = sum(bool(script.safety_turn2) for script in scripts.values())
    print(f"{len(scripts)} conversations, {variants} safety variants: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
