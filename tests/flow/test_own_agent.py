"""Agents of one's own: the how-to page as a stranger follows it, and what it says when something is wrong."""

import re
from pathlib import Path

import pytest
from command import dsbif, summary
from conftest import REPOSITORY

from dsbif.agents.target import Target, load, make
from dsbif.errors import ConfigError


def _first_block() -> str:
    page = (REPOSITORY / "docs" / "own-agent.md").read_text()
    found = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert found
    return found[1]


def test_the_page_has_an_agent_of_about_thirty_lines() -> None:
    lines = [line for line in _first_block().splitlines() if line.strip()]
    assert len(lines) <= 30


def test_the_pages_agent_is_scored(tmp_path: Path) -> None:
    (tmp_path / "echo_agent.py").write_text(_first_block())
    words = ("model=custom", "model.target=echo_agent:Echo", "model.name=echo", "model.rows=8", "+model.quiet_s=0.3")
    done = dsbif(tmp_path, *words)
    assert done.returncode == 1, done.stderr  # it reports no words, and READBACK needs some
    assert "prompt NOT applied" in done.stdout
    found = summary(tmp_path, "echo-L2-*")
    # It answers after 0.3 s: in time where somebody waits for it, and too soon where the user only pauses.
    assert found["actions"]["TAKE_TURN"] == {"k": 2, "n": 2}
    assert found["actions"]["LISTEN"] == {"k": 0, "n": 2}
    assert found["n_scored"] + len(found["unscored"]) == 12
    assert {case["reason"] for case in found["unscored"]} == {"no_transcript"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("model=custom",), "model=custom needs model.target=package.module:Class"),
        (
            ("model=custom", "model.target=nowhere:Agent"),
            "'nowhere:Agent' cannot be imported: No module",
        ),
        (("model=custom", "model.target=json:Agent"), "module json has no 'Agent'"),
        (("model=custom", "model.target=json:JSONEncoder"), "json:JSONEncoder is no agent"),
        (("model=custom", "model.target=json:JSONEncoder", "+model.loud=1"), "does not take its settings"),
    ],
)
def test_an_agent_that_cannot_be_used_says_why(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = dsbif(tmp_path, "role=R4", *words)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_target_is_a_module_and_a_name() -> None:
    assert load("dsbif.errors:ConfigError") is ConfigError
    assert load("dsbif.errors.ConfigError") is ConfigError
    with pytest.raises(ConfigError, match=r"'agent' names no class; wanted package\.module:Class"):
        load("agent")


def test_rows_are_passed_where_they_are_taken() -> None:
    assert make(Target("fractions:Fraction", {"numerator": 2}, rows=3)) == 2
    taken = make(Target("dsbif.agents.silent:Silent", {}, rows=3))
    assert taken.rows == 3
