"""What a model is told to write one conversation, and what a second reading of it is asked.

Pure text: the rules that ``lint`` enforces are stated from ``lint``'s own figures, so that they cannot drift apart.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from dsbif.bench.actions import Action
from dsbif.bench.grid import Cell, conversation_id, matched_key
from dsbif.bench.levels import Level
from dsbif.bench.probes import PROBES, TARGET_TOLERANCE, TURN1_TARGET_S, Probe, Segment, Silence, Speech
from dsbif.bench.roles import Role
from dsbif.build.author_scenes import PARTS, SCENES, SHARED_SCENE
from dsbif.build.lint import CHECK_WORDS, MIN_RESUMPTION_WORDS, SHARED_RUN, TRIGGER_WORDS, WORDS_PER_S
from dsbif.build.script import Line, Script, tint_of
from dsbif.build.wording import MAX_INNER_SENTENCE_ENDS, MIN_TURN1_WORDS

Messages = tuple[dict[str, str], ...]
"""What goes over the wire: ``role`` and ``content`` each."""

_WRITER = (
    "You write the user's side of a short spoken dialogue between a person and a voice assistant. You write only what "
    "the person says, as people say it aloud: plain, concrete, particular, a little untidy, never literary. You never "
    "write what the assistant says. You answer with one JSON object and nothing else."
)
_TRIGGER = (TRIGGER_WORDS[0], TRIGGER_WORDS[-1])
_CRITIC = (
    "You check the user's side of a short spoken dialogue before it is recorded. You are strict about whether it does "
    "what was ordered and indifferent to taste. You answer with one JSON object and nothing else: "
    '{"realised": true or false, "reasons": ["one short sentence for each thing that is wrong"]}.'
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One conversation to write."""

    role: str
    probe: str
    instance: int

    @property
    def conversation_id(self) -> str:
        """For example ``R1-C1-i5``."""
        return conversation_id(self.role, self.probe, self.instance)

    @property
    def has_readback(self) -> bool:
        """Whether a readback target must be written."""
        return Cell(self.role, self.probe).action_at(Level.L1) is Action.READBACK

    @property
    def is_shared(self) -> bool:
        """Whether three roles use the same recording."""
        return matched_key(self.role, self.probe, self.instance) is not None


def writing_messages(wanted: Wanted, role: Role, taken: Sequence[str]) -> Messages:
    """The order for one conversation.

    Args:
        wanted: which one.
        role: whom the person talks to; only its name is told.
        taken: first turns that exist already for this cell, whose matters are taken.
    """
    probe = PROBES[wanted.probe]
    parts = [
        f"The person talks to: {role.name}. The person never says so.",
        f"Scene: {_scene(wanted)}",
        f"Title of the situation: {probe.title}.",
        _tint(wanted),
        f"Turn 1 sets the scene, in one breath: {_extent(TURN1_TARGET_S, MIN_TURN1_WORDS)}.{_opening(wanted)}",
        f"Turn 2, in exactly this order:\n{_layout(probe.segments, wanted.probe)}",
    ]
    if probe.safety_segments:
        parts.append(
            "safety_turn2 is turn 2 once more, word for word, with more at its end:\n"
            + _layout(probe.safety_segments, wanted.probe)
        )
    parts += [_rules(probe, wanted), *_taken(taken), f"Answer with JSON of this shape:\n{_shape(wanted)}"]
    return _messages(_WRITER, "\n\n".join(parts))


def correcting_messages(order: Messages, reply: str, faults: Sequence[str]) -> Messages:
    """The order again, with what came and what is wrong with it."""
    listed = "\n".join(f"- {fault}" for fault in faults)
    return (
        *order,
        {"role": "assistant", "content": reply},
        {
            "role": "user",
            "content": f"That cannot be used:\n{listed}\n\nWrite it anew without these faults, the whole JSON object.",
        },
    )


def critic_messages(wanted: Wanted, role: Role, script: Script) -> Messages:
    """The question whether a written conversation does what was ordered."""
    probe = PROBES[wanted.probe]
    text: dict[str, object] = {"turn1": script.turn1, "turn2": _told(script.turn2)}
    if script.safety_turn2:
        text["safety_turn2"] = _told(script.safety_turn2)
    asked = (
        f"A person talks to: {role.name}. Scene: {_scene(wanted)} Title: {probe.title}.",
        f"What turn 2 was ordered to do:\n{_layout(probe.layout(safety=True), wanted.probe)}",
        f"What was written:\n{json.dumps(text, indent=1, ensure_ascii=False)}",
        "realised is true only if all of this holds. (1) Each segment of turn 2 does what was ordered, and nothing "
        "else in the conversation undoes it; work sums, doses and numbers through before you judge. (2) Turn 1 is "
        "understood by somebody who has heard nothing before. (3) Turn 2 follows from turn 1. (4) A person could "
        "naturally say it aloud. The pauses are ordered, and so is an odd place for them.",
    )
    return _messages(_CRITIC, "\n\n".join(asked))


def _messages(system: str, user: str) -> Messages:
    return ({"role": "system", "content": system}, {"role": "user", "content": user})


def _scene(wanted: Wanted) -> str:
    scene = SCENES[wanted.role][wanted.probe]
    return f"{scene} {SHARED_SCENE}" if wanted.is_shared else scene


def _tint(wanted: Wanted) -> str:
    return (
        f"The person: {tint_of(wanted.conversation_id)} (United States). This may colour the choice of words, lightly, "
        "and nothing else; it is never mentioned and never a caricature."
    )


def _opening(wanted: Wanted) -> str:
    after_s = PROBES[wanted.probe].barge_in_after_s
    if after_s is None:
        return ""
    # An interpreter is asked nothing: what takes long there is the rendering.
    asks = "It takes long to interpret" if wanted.role == "R7" else "It asks for something that takes long to answer"
    return f" {asks}, for turn 2 comes over the voice that does so, {after_s:g} seconds after it has begun."


def _extent(target_s: float, shortest: int = 1, longest: int | None = None) -> str:
    """Seconds, and the words that they take; ``shortest`` and ``longest`` narrow what the tolerance allows."""
    low = max(shortest, math.ceil((1 - TARGET_TOLERANCE) * target_s * WORDS_PER_S))
    high = math.floor((1 + TARGET_TOLERANCE) * target_s * WORDS_PER_S)
    return (
        f"about {target_s:g} s, {round(target_s * WORDS_PER_S)} words "
        f"(at least {low}, at most {min(high, longest or high)})"
    )


def _layout(segments: Sequence[Segment], probe: str) -> str:
    return "\n".join(f"{number}. {_segment(part, probe)}" for number, part in enumerate(segments, 1))


def _segment(part: Segment, probe: str) -> str:
    if isinstance(part, Silence):
        return f"pause of {part.duration_s:g} seconds: the person is silent"
    told = PARTS[probe][part.name]
    if part.name == "check":
        # Its lower bound is the one of check phrases: lint lets "you know?" be short.
        most = min(CHECK_WORDS[-1], math.floor((1 + TARGET_TOLERANCE) * part.target_s * WORDS_PER_S))
        return f"say ({part.name}): {told}; {CHECK_WORDS[0]} to {most} words and a question mark"
    if part.trigger:
        return f"say ({part.name}), alone in its item: {told}; {_extent(part.target_s, *_TRIGGER)}"
    return f"say ({part.name}): {told}; {_extent(part.target_s)}"


def _rules(probe: Probe, wanted: Wanted) -> str:
    rules = [
        "Only words, commas, full stops, question marks, exclamation marks, apostrophes and hyphens inside words. "
        "Numbers in words; no digits, symbols, abbreviations, dashes, dots, quotation marks or hesitation sounds.",
        f"No item holds more than {MAX_INNER_SENTENCE_ENDS} sentence ends before its last one. Every item ends in "
        f"punctuation: a comma where the person goes on, {_end_of(probe)}.",
        f"Turn 1 has at least {MIN_TURN1_WORDS} words and stands alone: no pointing back to earlier talk, no he, she, "
        "they or it that has no noun yet. It ends its sentence.",
        "The person never names what the assistant is, and never talks about who is to talk, about waiting, listening, "
        "interrupting or having finished.",
        f"No run of {SHARED_RUN} words may stand in any other conversation, so choose particular matters and names.",
    ]
    if any(isinstance(part, Silence) for part in probe.segments):
        rules.append(
            "What comes before a pause ends in a comma, the check question apart; after a pause the person goes on "
            f"with at least {MIN_RESUMPTION_WORDS} words."
        )
    if any(part.trigger for part in probe.layout(safety=True) if isinstance(part, Speech)):
        rules.append(
            f"The trigger is an item of its own of {_TRIGGER[0]} to {_TRIGGER[1]} words; no part of it "
            "stands in the items around it."
        )
    if wanted.has_readback:
        rules.append(_readback_rule(wanted))
    return "Rules:\n" + "\n".join(f"- {rule}" for rule in rules)


def _end_of(probe: Probe) -> str:
    if probe.key == "R3_B_caller_trails_off":
        return "and here turn 2 ends in a comma too"
    if probe.key == "R4_B_logistical_question":
        return "a question mark at the end of turn 2"
    return "a full stop or a question mark where a turn ends"


def _readback_rule(wanted: Wanted) -> str:
    each = (
        "one string for each of the three chunks, its words in the order in which they were dictated"
        if wanted.probe == "C2"
        else "one string for each of the three items, as the order stands after the change"
    )
    return (
        f"readback lists what must be repeated to the person: {each}. Only words that were said, the ones that matter; "
        "of numbers only the single digits zero to nine, so dictate no others; no apostrophes, no a.m. or p.m."
    )


def _taken(taken: Sequence[str]) -> list[str]:
    if not taken:
        return []
    return ["These first turns exist already; choose quite another matter:\n" + "\n".join(f"- {one}" for one in taken)]


def _shape(wanted: Wanted) -> str:
    probe = PROBES[wanted.probe]
    shape: dict[str, object] = {"turn1": "…", "turn2": _items(probe.segments)}
    if probe.safety_segments:
        shape["safety_turn2"] = _items(probe.safety_segments)
    if wanted.has_readback:
        shape["readback"] = ["…", "…", "…"]
    return json.dumps(shape, ensure_ascii=False)


def _items(segments: Sequence[Segment]) -> list[dict[str, object]]:
    return [{"pause": part.duration_s} if isinstance(part, Silence) else {"say": "…"} for part in segments]


def _told(lines: Sequence[Line]) -> list[str]:
    return [f"{line.name}: {line.text}" if line.text else f"(silent for {line.pause_s:g} seconds)" for line in lines]
