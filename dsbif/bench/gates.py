"""The leakage gates: a persona may imply its role's rule and never state it.

``python -m dsbif.bench.gates`` exits 1 on any breach and names the role, the gate and the words.

* V3, imperative lint: no word or phrase of the list, on word boundaries, in any case.
* V4, overlap: Jaccard of the content words of persona and directive below 0.15.
* Length: a persona has 60 to 120 words.
* Conflict lines: every cell has five distinct L4a lines, the six safety cells an L4b line, each starting
  ``Additionally: ``.

Source: DSB-IFEval, the corpus validation gates. The stopword list is ours; the paper does not print its own.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dsbif.bench.grid import SAFETY_CELLS
from dsbif.bench.probes import probes_of
from dsbif.bench.roles import LINE_START, ROLES_DIR, VARIANTS, Role, load_roles
from dsbif.errors import ConfigError

FORBIDDEN = (
    "interrupt", "backchannel", "wait", "pause", "yield", "acknowledge", "respond", "reply", "speak", "stay silent",
    "keep quiet", "let me finish", "let them finish", "jump in", "cut in", "take the floor", "hold the floor",
    "talk over", "repeat back", "read back",
)  # fmt: skip
MAX_OVERLAP = 0.15
PERSONA_WORDS = range(60, 121)
STOPWORDS = frozenset(
    """
    a about above after again all also am an and any are aren't as at be because been before being below between
    both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each few for
    from further had hadn't has hasn't have haven't having he her here hers herself him himself his how i i'm
    i've if in into is isn't it it's its itself just let's like may me might more most must my myself never no
    nor not now of off on once one only or other ought our ours ourselves out over own same she should shouldn't
    so some such than that that's the their theirs them themselves then there there's these they they're they've
    this those through to too under until up upon very was wasn't we we're were weren't what what's when where
    which while who whom why will with without won't would wouldn't you you'd you'll you're you've your yours
    yourself yourselves
    """.split()
)


@dataclass(frozen=True, slots=True)
class Breach:
    """A gate that a role's text does not pass."""

    role: str
    gate: str
    detail: str

    def __str__(self) -> str:
        return f"{self.role}: {self.gate}: {self.detail}"


def content_words(text: str) -> frozenset[str]:
    """Lowercase tokens ``[a-z']+`` without stopwords and one-letter tokens.

    >>> sorted(content_words("You are the Nurse's right hand."))
    ['hand', "nurse's", 'right']
    """
    return frozenset(
        token for token in re.findall(r"[a-z']+", text.lower()) if len(token) > 1 and token not in STOPWORDS
    )


def overlap(persona: str, directive: str) -> float:
    """Jaccard overlap of the content words, 0 to 1; 0 when both are empty.

    >>> overlap("calm nurse", "calm doctor")
    0.3333333333333333
    """
    left, right = content_words(persona), content_words(directive)
    return len(left & right) / len(left | right) if left | right else 0.0


def forbidden_words(persona: str) -> tuple[str, ...]:
    """The listed words and phrases that a persona contains."""
    return tuple(term for term in FORBIDDEN if re.search(rf"\b{re.escape(term)}\b", persona, re.IGNORECASE))


def breaches(role: Role) -> Iterator[Breach]:
    """Every breach of one role."""
    for term in forbidden_words(role.persona):
        yield Breach(role.id, "V3 imperative lint", f"the persona says '{term}'")
    share = overlap(role.persona, role.directive)
    if share >= MAX_OVERLAP:
        shared = ", ".join(sorted(content_words(role.persona) & content_words(role.directive)))
        yield Breach(role.id, "V4 overlap", f"{share:.3f}, wanted below {MAX_OVERLAP}; shared words: {shared}")
    words = len(role.persona.split())
    if words not in PERSONA_WORDS:
        yield Breach(role.id, "length", f"the persona has {words} words, wanted 60 to 120")
    yield from _conflict_breaches(role)


def _conflict_breaches(role: Role) -> Iterator[Breach]:
    for probe in probes_of(role.id):
        lines = role.contradictions.get(probe, ())
        if len(set(lines)) != VARIANTS:
            yield Breach(role.id, "L4a", f"{probe} has {len(set(lines))} distinct lines, wanted {VARIANTS}")
        if not role.targets.get(probe):
            yield Breach(role.id, "L4a", f"{probe} names no target")
        for line in lines:
            if not line.startswith(LINE_START):
                yield Breach(role.id, "L4a", f"{probe}: does not begin '{LINE_START}': {line}")
    safety = {probe for owner, probe in SAFETY_CELLS if owner == role.id}
    if safety != set(role.safety):
        yield Breach(role.id, "L4b", f"lines for {sorted(role.safety)}, wanted for {sorted(safety)}")
    for probe, line in role.safety.items():
        if not line.startswith(LINE_START):
            yield Breach(role.id, "L4b", f"{probe}: does not begin '{LINE_START}': {line}")


def check(roles: Mapping[str, Role]) -> list[Breach]:
    """Every breach of all roles."""
    return [breach for role in roles.values() for breach in breaches(role)]


def main(folder: Path = ROLES_DIR) -> int:
    """Print each role's figures and every breach; 1 if there is one, 2 if a file cannot be used."""
    try:
        roles = load_roles(folder)
    except ConfigError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    shares = [overlap(role.persona, role.directive) for role in roles.values()]
    for role, share in zip(roles.values(), shares, strict=True):
        print(f"{role.id} {role.name:<32} {len(role.persona.split()):>4} words   overlap {share:.3f}")
    print(f"mean overlap {sum(shares) / len(shares):.3f} (the paper's own: 0.053)")
    found = check(roles)
    for breach in found:
        print(breach, file=sys.stderr)
    print(f"{len(found)} breaches" if found else "all gates pass")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*(Path(arg) for arg in sys.argv[1:2])))
