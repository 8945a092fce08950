import pytest
from builders import a_case

from dsbif.bench.grid import CaseKey
from dsbif.bench.levels import Level
from dsbif.bench.roles import load_roles
from dsbif.items import item_of
from dsbif.session.recording import Transcript

R1 = load_roles()["R1"]
OURS = {level: R1.prompt_for(CaseKey("R1", "C2", 1, level)) for level in Level}
LINES = {level: R1.contradiction_for(CaseKey("R1", "C2", 1, level)) for level in Level}


@pytest.mark.parametrize("level", list(Level))
def test_our_own_prompts_are_judged_by_the_roles_texts(level: Level) -> None:
    case = a_case(probe="C2", level=level, system_prompt=OURS[level])
    item = item_of(R1, case, Transcript("none"), agent_spoke=False)
    assert (item.persona, item.contradiction) == (R1.persona, LINES[level])
    assert item.target == (R1.targets["C2"] if level is Level.L4A else None)


@pytest.mark.parametrize(
    ("level", "prompt", "persona", "line"),
    [
        (Level.L0, "", R1.persona, None),
        (Level.L1, "Their rules.", R1.persona, None),
        (Level.L2, "Their persona.\n\nIn two paragraphs.", "Their persona.\n\nIn two paragraphs.", None),
        (Level.L3, "Their persona.\n\nTheir rules.", "Their persona.", None),
        (Level.L4A, "Their persona.\n\nMore of it.\n\nTheir line.", "Their persona.\n\nMore of it.", "Their line."),
        (Level.L4B, "Their persona.\n\nTheir line.\n", "Their persona.", "Their line."),
        (Level.L4A, "All in one paragraph.", R1.persona, LINES[Level.L4A]),
        (Level.L4B, "", R1.persona, LINES[Level.L4B]),
    ],
)
def test_other_prompts_are_judged_by_what_they_say(level: Level, prompt: str, persona: str, line: str | None) -> None:
    item = item_of(R1, a_case(probe="C2", level=level, system_prompt=prompt), Transcript("none"), agent_spoke=True)
    assert (item.persona, item.contradiction) == (persona, line)
    assert item.target == (R1.targets["C2"] if line and line == LINES[Level.L4A] else None)
