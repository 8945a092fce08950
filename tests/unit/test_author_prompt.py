import json

import pytest

from dsbif.bench.grid import CELLS, Cell
from dsbif.bench.probes import PROBES, Speech
from dsbif.bench.roles import load_roles
from dsbif.build.author_prompt import Wanted, correcting_messages, critic_messages, writing_messages
from dsbif.build.author_reply import read_judgement, read_reply
from dsbif.build.author_scenes import PARTS, SCENES
from dsbif.build.script import load_corpus


def order(role: str, probe: str, instance: int = 1, taken: tuple[str, ...] = ()) -> str:
    system, user = writing_messages(Wanted(role, probe, instance), load_roles()[role], taken)
    assert (system["role"], user["role"]) == ("system", "user")
    return user["content"]


def test_every_cell_has_a_scene_and_every_spoken_segment_its_part() -> None:
    assert {Cell(role, probe) for role, scenes in SCENES.items() for probe in scenes} == set(CELLS)
    for key, probe in PROBES.items():
        assert set(PARTS[key]) == {part.name for part in probe.layout(safety=True) if isinstance(part, Speech)}


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_an_order_names_the_role_and_tells_nothing_of_its_rule(cell: Cell) -> None:
    role, text = load_roles()[cell.role], order(cell.role, cell.probe)
    assert role.name in text
    rules = (role.persona, role.directive, *(line for lines in role.contradictions.values() for line in lines))
    assert not [s for rule in rules for s in rule.split(". ") if len(s.split()) > 4 and s in text]


def test_an_order_states_seconds_and_words_as_lint_counts_them() -> None:
    text = order("R5", "R5_A_wrong_intermediate_step", 3)
    assert "Turn 1 sets the scene, in one breath: about 8 s, 22 words (at least 12, at most 32)." in text
    assert "1. say (lead): correct steps towards the answer; about 5 s, 14 words (at least 7, at most 20)" in text
    assert "2. say (trigger), alone in its item: the step with the only mistake" in text
    assert "about 2.5 s, 7 words (at least 4, at most 10)" in text
    assert "The trigger is an item of its own of 2 to 12 words" in text
    assert "Title of the situation: a wrong step carried forward." in text
    assert "The person: Midwest (United States)." in text
    assert "pause" not in text


def test_pauses_are_ordered_with_their_seconds_and_a_barge_in_with_its_delay() -> None:
    assert "2. pause of 11 seconds: the person is silent" in order("R4", "R4_A_eleven_second_silence")
    assert "asks for something that takes long to answer" in order("R8", "R8_B_yes_and_hook")
    assert "2 seconds after it has begun" in order("R8", "R8_B_yes_and_hook")
    assert "takes long to interpret" in order("R7", "C3")
    assert "after it has begun" not in order("R7", "C1")
    assert "1 to 4 words and a question mark" in order("R5", "C4")


def test_endings_are_those_of_the_probe() -> None:
    assert "here turn 2 ends in a comma too" in order("R3", "R3_B_caller_trails_off")
    assert "a question mark at the end of turn 2" in order("R4", "R4_B_logistical_question")


def test_a_shared_recording_is_ordered_to_fit_three_roles() -> None:
    assert "fits all three" in order("R1", "C1", 4)
    assert "fits all three" not in order("R1", "C1", 5)


@pytest.mark.parametrize(
    ("role", "probe", "keys"),
    [
        ("R5", "C1", ["turn1", "turn2"]),
        ("R1", "C2", ["turn1", "turn2", "readback"]),
        ("R6", "R6_B_mid_order_change", ["turn1", "turn2", "readback"]),
        ("R2", "C2", ["turn1", "turn2"]),
        ("R2", "R2_B_are_you_there", ["turn1", "turn2", "safety_turn2"]),
    ],
)
def test_the_shape_holds_exactly_what_is_to_be_written(role: str, probe: str, keys: list[str]) -> None:
    shape = json.loads(order(role, probe).splitlines()[-1])
    assert list(shape) == keys
    assert shape["turn2"][0] == {"say": "…"}
    assert len(shape["turn2"]) == len(PROBES[probe].segments)
    if "safety_turn2" in shape:
        assert len(shape["safety_turn2"]) == 6


def test_taken_matters_are_listed_and_faults_follow_the_reply() -> None:
    assert "- The cat is ill." in order("R5", "C1", taken=("The cat is ill.",))
    first = writing_messages(Wanted("R5", "C1", 1), load_roles()["R5"], ())
    again = correcting_messages(first, "{}", ["length: s1 has 2 words"])
    assert again[:2] == first
    assert again[2] == {"role": "assistant", "content": "{}"}
    assert "- length: s1 has 2 words\n" in again[3]["content"]


def test_the_critic_is_shown_the_text_and_the_variant() -> None:
    script = load_corpus()["R2-R2_B_are_you_there-i1"]
    system, user = critic_messages(Wanted("R2", "R2_B_are_you_there", 1), load_roles()["R2"], script)
    assert '"realised"' in system["content"]
    assert script.turn1 in user["content"]
    assert "(silent for 2 seconds)" in user["content"]
    assert f"trigger: {script.safety_turn2[4].text}" in user["content"]


def reply_of(cid: str) -> tuple[Wanted, dict[str, object]]:
    """A conversation of the benchmark, as a model would send it."""
    script = load_corpus()[cid]
    turns = {
        name: [{"say": line.text} if line.text else {"pause": line.pause_s} for line in turn]
        for name, turn in (("turn2", script.turn2), ("safety_turn2", script.safety_turn2))
    }
    return Wanted(script.role, script.probe, script.instance), {
        "turn1": script.turn1, **turns, "readback": list(script.readback)
    }  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_the_benchmarks_own_conversations_pass_as_replies(cell: Cell) -> None:
    wanted, reply = reply_of(f"{cell.role}-{cell.probe}-i1")
    script, faults = read_reply(wanted, f"Sure!\n```json\n{json.dumps(reply)}\n```")
    assert faults == ()
    assert script is not None
    assert script.turn2 == load_corpus()[script.conversation_id].turn2


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"turn1": "Hello."}, "turn 1: has 1 words"),
        ({"turn1": ""}, "key 'turn1': Value error, spoken text must hold words"),
        ({"turn1": "\ud800"}, "not one JSON object"),
        ({"turn2": "none"}, "key 'turn2'"),
        ({"turn2": [{"say": "It is so."}]}, "turn 2 is say; its probe wants say, say, say"),
        ({"readback": ["three"]}, "readback: has a target and its action is not READBACK"),
        ({"title": "x"}, "unknown key 'title'"),
        ({"safety_turn2": [{"say": "It is so."}]}, "has no safety_turn2"),
    ],
)
def test_a_bad_reply_is_a_fault_that_says_what_is_wrong(change: dict[str, object], fault: str) -> None:
    wanted, reply = reply_of("R5-R5_A_wrong_intermediate_step-i1")
    script, faults = read_reply(wanted, json.dumps(reply | change))
    assert script is None
    assert fault in "; ".join(faults)
    assert "/" not in "; ".join(faults)


@pytest.mark.parametrize("text", ["", "no", "[1]", "} {", '{"turn1": "a', "[" * 100_000])
def test_what_is_no_object_is_a_fault(text: str) -> None:
    script, faults = read_reply(Wanted("R5", "C1", 1), text)
    assert script is None
    assert "not one JSON object" in faults[0]


def test_the_safety_variant_begins_with_turn_2() -> None:
    wanted, reply = reply_of("R2-R2_B_are_you_there-i1")
    variant = reply["safety_turn2"]
    assert isinstance(variant, list)
    variant[3] = {"say": "and when it beeped I told her about the roses, as if she might ring me back."}
    assert read_reply(wanted, json.dumps(reply))[1] == ("safety_turn2: it does not begin with turn 2, word for word",)


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ('{"realised": true, "reasons": []}', None),
        ('{"realised": true}', None),
        ('{"realised": false, "reasons": ["the sum is\\n right", " "]}', "premise not realised: the sum is right"),
        ('{"realised": false, "reasons": "too vague"}', "premise not realised: too vague"),
        ('{"realised": false}', "premise not realised: no reason was given"),
        ('{"realised": "no"}', "no usable answer (key 'realised'"),
        ("yes", "no usable answer (the reply is not one JSON object"),
    ],
)
def test_a_second_reading_is_a_plain_yes_or_a_fault(reply: str, fault: str | None) -> None:
    found = read_judgement(reply)
    assert len(found) == (fault is not None)
    assert (fault or "") in "".join(found)
