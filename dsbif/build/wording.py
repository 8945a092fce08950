"""What the words of a script may not be: the part of ``lint`` that reads text alone.

Every rule is a pattern with few false alarms; what only a reader can tell (is the red flag a real one, is the sum
wrong in exactly one place) stays with the reader.
"""

import re
from collections.abc import Iterator

Finding = tuple[str, str]
"""A rule's name and what breaks it."""

MIN_TURN1_WORDS = 12
MAX_INNER_SENTENCE_ENDS = 2

_PLAIN = re.compile(r"[A-Za-z',.?! -]+")
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?(?:-[a-z]+)*", re.IGNORECASE)
_HESITATION = re.compile(r"\b(uh|um|uhm|umm|er|erm|hm+|mhm|mm+|uh-huh|ah)\b", re.IGNORECASE)
_ABBREVIATION = re.compile(r"\b((?:[A-Za-z]\.){2,}|(?:Dr|Mr|Mrs|Ms|St|Ave|Blvd|Rd|Apt|Jr|Sr|vs|etc)\.)")
_DASH = re.compile(r"\s-|-\s|--|-$")
_ROLE_NAMES = {
    "R1": ("nurse", "triage"),
    "R2": ("counselor", "counsellor", "therapist"),
    "R3": ("dispatcher", "operator", "call taker", "call-taker"),
    "R4": ("instructor", "meditation guide", "meditation teacher"),
    "R5": ("tutor", "teacher"),
    "R6": ("order taker", "order-taker", "cashier"),
    "R7": ("interpreter", "translator"),
    "R8": ("improv", "improviser", "scene partner"),
}
_START = r"(?:^|[,.?!] )"
_TURN_TAKING = re.compile(
    r"\b(?:interrupt\w*|backchannel\w*|(?:let me|i'?m not|i'?m almost) (?:finish\w*|done)|don'?t (?:talk|speak)"
    r"|stop (?:talking|speaking)|(?:your|my) turn (?:now|to (?:talk|speak))|it'?s (?:your|my) turn|go ahead(?=[,.?!]|$)"
    r"|be quiet|say something|jump in|cut(?:ting)? (?:me|you) off|talk(?:ing)? over (?:me|you)|hold on(?=[,.?!]|$)"
    r"|hang on(?=[,.?!]|$)|wait (?:a|one) (?:second|sec|minute|moment)|just (?:wait|listen)|listen to me|hear me out)\b"
    rf"|{_START}(?:please )?(?:wait|listen|pause|stop)(?=[,.!])",
    re.IGNORECASE,
)
_POINTER = re.compile(
    r"\b(?:(?:as|like) i (?:said|told|mentioned)|(?:as|like) (?:before|last time)|(?:hello|hi|me) again"
    r"|(?:call|calling|ask|asking|tell|telling) (?:you )?(?:back )?again"
    r"|you (?:said|told me|mentioned|asked me|suggested)|(?:what|when) you (?:said|told|asked)|earlier you"
    r"|we (?:talked|spoke|discussed)|our last (?:call|talk|session)|last time we|what i (?:said|told you)"
    r"|(?:this|that|the other|the same) one(?=[,.?!]|$| (?:is|was|we|you|i)\b))\b",
    re.IGNORECASE,
)
_BARE_PRONOUN = re.compile(
    r"^(?:(?:and|but|so|well|okay|then),? )?(?:(?:he|she|they|him|them)(?:'\w+)?"
    r"|(?:it|that)(?:'s)? (?:happened|started|hurts?|broke|stopped|did|does|keeps|got|went|came|says?))\b",
    re.IGNORECASE,
)
_DIGIT_WORDS = "zero oh one two three four five six seven eight nine".split()
_BIG_NUMBERS = (
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty "
    "seventy eighty ninety hundred thousand million billion trillion half quarter dozen double triple"
).split()
_NUMBERS = frozenset(_DIGIT_WORDS + _BIG_NUMBERS)


def words(text: str) -> list[str]:
    """The words of a text, lower case; a hyphenated word is one.

    >>> words("Well, twenty-six! Who's there?")
    ['well', 'twenty-six', "who's", 'there']
    """
    return [word.lower() for word in _WORD.findall(text)]


def numbers_in(text: str) -> list[str]:
    """The number words of a text, hyphens taken apart.

    >>> numbers_in("Twenty-six, or nine.")
    ['twenty', 'six', 'nine']
    """
    return [word for word in re.split(r"[^a-z]+", text.lower()) if word in _NUMBERS]


def speech(name: str, text: str) -> Iterator[Finding]:
    """A voice must be able to say it: words and plain punctuation, no hesitation sounds, no long chain of sentences."""
    if not _PLAIN.fullmatch(text):
        odd = sorted(set(re.sub(_PLAIN, "", text)))
        yield "speech", f"{name} holds what a voice cannot say: {' '.join(odd)}"
    elif not text.endswith((".", ",", "?", "!")):
        yield "speech", f"{name} ends without punctuation"
    if found := _HESITATION.search(text):
        yield "speech", f"{name} holds the hesitation sound '{found[0]}'"
    if found := _ABBREVIATION.search(text):
        yield "speech", f"{name} holds the abbreviation '{found[0]}'; write it as it is said"
    if _DASH.search(text) or ".." in text:
        yield "speech", f"{name} holds a dash or dots, which a voice reads as a silence; use a comma"
    inner = len(re.findall(r"[.?!](?= )", text))
    if inner > MAX_INNER_SENTENCE_ENDS:
        yield (
            "speech",
            f"{name} ends {inner} sentences before its last, each a silence; {MAX_INNER_SENTENCE_ENDS} at most",
        )


def stands_alone(text: str) -> Iterator[Finding]:
    """Turn 1 must be understood by somebody who has heard nothing before."""
    if len(words(text)) < MIN_TURN1_WORDS:
        yield "turn 1", f"has {len(words(text))} words; standing alone takes at least {MIN_TURN1_WORDS}"
    if found := _POINTER.search(text):
        yield "turn 1", f"points to what nobody has heard: '{found[0]}'"
    if found := _BARE_PRONOUN.match(text):
        yield "turn 1", f"begins with '{found[0]}' and nothing that it stands for"
    if not text.endswith((".", "?", "!")):
        yield "turn 1", "does not end its last sentence"


def stays_in_scene(role: str, text: str) -> Iterator[Finding]:
    """The user neither names the assistant's role nor talks about who is to talk."""
    for name in _ROLE_NAMES[role]:
        if re.search(rf"\b{name}s?\b", text, re.IGNORECASE):
            yield "role", f"the user names the assistant's role: '{name}'"
    if found := _TURN_TAKING.search(text):
        yield "role", f"the user talks about turn-taking: '{found[0].strip(' ,.?!')}'"


def dictated(target: str) -> Iterator[Finding]:
    """A readback target must come back from a recogniser as it went in: words and single spelled digits."""
    big = [word for word in numbers_in(target) if word in _BIG_NUMBERS]
    if big:
        yield "readback", f"'{target}' holds {', '.join(big)}, which a recogniser may write in figures; dictate digits"
    if "'" in target or re.search(r"\b[ap]\.?m\b\.?", target, re.IGNORECASE):
        yield "readback", f"'{target}' holds a word that is spelled in several ways (an apostrophe, a.m., p.m.)"
