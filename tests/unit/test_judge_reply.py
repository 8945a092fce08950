import json
from typing import Any

import pytest

from dsbif.judge.reply import MAX_REPLY_CHARS, Status, read_reply, reads_as_refusal


def a_reply(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "formalize": "Short words. Asks about danger signs.",
        "timeline": "A fall is told; the assistant asks about the head.",
        "register_fit": 4,
        "register_rationale": "'Did he hit his head?' is brisk.",
        "content_fit": 5,
        "content_rationale": "It asks about danger signs.",
        "pas": 88,
        "l4_category": None,
        "summary": "A brisk nurse.",
    }
    values.update(changes)
    return {key: value for key, value in values.items() if value != "absent"}


GOOD = json.dumps(a_reply())


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here is my evaluation:\n\n{GOOD}\n\nLet me know {{if}} you need more.",
        GOOD[:-1] + ",}",
        GOOD[:-1] + ' ,\n "extra": [1, 2,],\n}',
        "\ufeff" + GOOD,
        json.dumps(a_reply(l4_category="absent")),
        json.dumps({**a_reply(), "mood": "good"}),
        f"The persona {{Dana}} is met. {{}} {GOOD}",
    ],
)
def test_wrapping_does_not_matter(text: str) -> None:
    reading = read_reply(text, conflict=False)
    assert reading.status is Status.OK, reading.problem
    assert reading.fields is not None
    assert (reading.fields.pas, reading.fields.register_fit, reading.fields.content_fit) == (88, 4, 5)


def test_a_comma_in_a_string_stays() -> None:
    text = json.dumps(a_reply(summary='he said "so,}" and,]'))[:-1] + ",}"
    reading = read_reply(text, conflict=False)
    assert reading.fields is not None
    assert reading.fields.summary == 'he said "so,}" and,]'


def test_values_in_another_language_are_a_reply() -> None:
    reading = read_reply(
        json.dumps(a_reply(summary="Eine knappe, freundliche Schwester – 很好"), ensure_ascii=False), False
    )
    assert reading.fields is not None
    assert reading.fields.summary == "Eine knappe, freundliche Schwester – 很好"


def test_both_ends_of_the_scales_are_scores() -> None:
    low = read_reply(json.dumps(a_reply(pas=0, register_fit=0, content_fit=0)), conflict=False)
    high = read_reply(json.dumps(a_reply(pas=100, register_fit=5, content_fit=5.0)), conflict=False)
    assert low.fields is not None
    assert high.fields is not None
    assert (low.fields.pas, high.fields.pas) == (0, 100)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"pas": 101}, r"key 'pas': Input should be less than or equal to 100; found '101'"),
        ({"pas": -1}, r"key 'pas': Input should be greater than or equal to 0"),
        ({"pas": "80"}, r"key 'pas': Input should be a valid number; found '80'"),
        ({"pas": True}, r"key 'pas': Input should be a valid number; found 'True'"),
        ({"pas": None}, r"key 'pas': Input should be a valid number"),
        ({"pas": [80]}, r"key 'pas': Input should be a valid number"),
        ({"pas": "absent"}, r"key 'pas': Field required"),
        ({"register_fit": 6}, r"key 'register_fit': Input should be less than or equal to 5"),
        ({"register_fit": "absent"}, r"key 'register_fit': Field required"),
        ({"content_fit": False}, r"key 'content_fit': Input should be a valid number"),
        ({"content_rationale": 3}, r"key 'content_rationale': Input should be a valid string"),
        ({"summary": "absent"}, r"key 'summary': Field required"),
        ({"formalize": None}, r"key 'formalize': Input should be a valid string"),
    ],
)
def test_a_wrong_field_is_a_parse_error_and_no_score(changes: dict[str, Any], problem: str) -> None:
    reading = read_reply(json.dumps(a_reply(**changes)), conflict=False)
    assert reading.status is Status.PARSE_ERROR
    assert reading.fields is None
    assert reading.problem.startswith(problem)


@pytest.mark.parametrize(
    ("conflict", "category", "problem"),
    [
        (True, None, "l4_category is missing; a conflict case needs one"),
        (True, "absent", "l4_category is missing; a conflict case needs one"),
        (
            True,
            "balanced",
            "key 'l4_category': Input should be 'directive-wins', 'persona-wins', 'hedged' or 'incoherent'",
        ),
        (False, "hedged", "l4_category is 'hedged' for a case without a conflict; wanted null"),
    ],
)
def test_the_category_stands_at_l4_and_nowhere_else(conflict: bool, category: str | None, problem: str) -> None:
    reading = read_reply(json.dumps(a_reply(l4_category=category)), conflict)
    assert reading.status is Status.PARSE_ERROR
    assert reading.problem.startswith(problem)


@pytest.mark.parametrize("category", ["directive-wins", "persona-wins", "hedged", "incoherent"])
def test_each_category_is_read(category: str) -> None:
    reading = read_reply(json.dumps(a_reply(l4_category=category)), conflict=True)
    assert reading.fields is not None
    assert reading.fields.l4_category == category


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the reply is empty"),
        (" \n\t", "the reply is empty"),
        ("The assistant did well. I would give 80.", "the reply holds no JSON object"),
        ("La asistente habla con calma; le doy 80 puntos.", "the reply holds no JSON object"),
        (GOOD[:-20], "the reply holds no JSON object"),
        (f"{GOOD} {json.dumps(a_reply(pas=3))}", "the reply holds 2 JSON objects with a 'pas'; one is wanted"),
        (GOOD.replace('"pas": 88', '"pas": 88, "pas": 12'), "the reply holds no JSON object"),
        (GOOD.replace("88", "NaN"), "the reply holds no JSON object"),
        (GOOD.replace("88", "1e999"), "key 'pas'"),
        (GOOD.replace("88", "9" * 5000), "the reply holds no JSON object"),
        (GOOD.replace("88", "__import__('os').abort()"), "the reply holds no JSON object"),
        ("[80]", "the reply holds no JSON object"),
        ("80", "the reply holds no JSON object"),
        ('{"error": "I cannot do that"}', "key 'formalize': Field required"),
        (GOOD.replace("A brisk nurse.", "\\ud800"), "the reply holds no JSON object"),
        ('{"a":' * 5000, "the reply holds no JSON object"),
        ("{" * MAX_REPLY_CHARS, "the reply holds no JSON object"),
        (
            GOOD + " " * MAX_REPLY_CHARS,
            f"the reply has {len(GOOD) + MAX_REPLY_CHARS} characters; {MAX_REPLY_CHARS} at most",
        ),
    ],
)
def test_what_cannot_be_read_is_a_parse_error(text: str, problem: str) -> None:
    reading = read_reply(text, conflict=False)
    assert reading.status is Status.PARSE_ERROR
    assert reading.fields is None
    assert reading.problem.startswith(problem)


def test_a_reply_cut_at_the_limit_says_so() -> None:
    reading = read_reply(GOOD[:60], conflict=False, truncated=True)
    assert reading.status is Status.PARSE_ERROR
    assert reading.problem == "the reply was cut at the token limit; the reply holds no JSON object"


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that request.",
        "I\u2019m sorry, I cannot evaluate this.",
        "Sorry, I am unable to rate this conversation.",
        "I cannot help with medical content.",
        "I won't score this.",
        "As an AI language model, I do not rate people.",
        "I am not able to judge this.",
    ],
)
def test_a_refusal_is_told_from_a_broken_reply(text: str) -> None:
    assert read_reply(text, conflict=False).status is Status.REFUSED


@pytest.mark.parametrize(
    "text", ["The nurse says sorry.", "I can see a brisk nurse: 80.", "Sorryful tone throughout.", "I am Dana."]
)
def test_prose_is_no_refusal(text: str) -> None:
    assert not reads_as_refusal(text)
    assert read_reply(text, conflict=False).status is Status.PARSE_ERROR
