"""The judge as a stage of a run, from the command line, against a loopback endpoint."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import dsbif, summary
from judge_server import GOOD, Act, judge_server

KEY = "sk-loopback-7d7d7d"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scored run of R1 at L2 and one at L4a, not judged."""
    folder = tmp_path_factory.mktemp("judged")
    for level in ("L2", "L4a"):
        done = dsbif(folder, "model=oracle", "role=R1", f"level={level}", f"run=r1-{level}")
        assert done.returncode == 0, done.stderr
        assert "PAS: not judged" in done.stdout
        assert summary(folder, f"r1-{level}")["pas"] == {"judge": None, "n": None, "judged": 0, "mean": None}
    return folder


def _judge(place: Path, run: str, url: str, level: str = "L2", **environment: str) -> Any:
    return dsbif(
        place, "stage=judge", "model=oracle", "role=R1", f"level={level}", f"run={run}", "judge=compatible",
        f"judge.base_url={url}", "judge.model=tiny", "judge.name=tiny", OPENAI_API_KEY=KEY, **environment,
    )  # fmt: skip


def test_a_finished_run_is_judged_and_going_on_pays_nothing_twice(place: Path) -> None:
    recordings = place / "runs/r1-L2/recordings"
    before = {path.name: path.stat().st_mtime_ns for path in recordings.iterdir()}
    with judge_server(lambda n, body: Act()) as server:
        done = _judge(place, "r1-L2", server.url)
        assert done.returncode == 0, done.stderr
        assert server.calls == 6
        found = summary(place, "r1-L2")
        assert (found["pas"]["judge"], found["pas"]["judged"], found["pas"]["n"]) == ("tiny", 6, 6)
        assert found["pas"]["mean"] == GOOD["pas"] == 88
        assert found["pas"]["tokens"] == {"input": 6000, "output": 600}
        assert "PAS 88.0 over 6 judged of 6, by tiny" in done.stdout
        assert _judge(place, "r1-L2", server.url).returncode == 0
        assert server.calls == 6
    assert {path.name: path.stat().st_mtime_ns for path in recordings.iterdir()} == before
    written = "".join(path.read_text() for path in (place / "runs/r1-L2").rglob("*.json*"))
    assert KEY not in written + done.stdout + done.stderr


def test_the_judge_sees_what_was_said_and_never_the_timing(place: Path) -> None:
    labelled = Act(text=json.dumps({**GOOD, "l4_category": "hedged"}))
    with judge_server(lambda n, body: labelled) as server:
        _judge(place, "r1-L4a", server.url, level="L4a")
        users = [body["messages"][-1]["content"] for body in server.bodies]
    verdicts = [json.loads(line) for line in (place / "runs/r1-L4a/verdicts.jsonl").read_text().splitlines()]
    assert len(users) == len(verdicts) == 6
    assert any("I am with you, so let us look at that together now." in user for user in users)
    assert all("Additionally: " in user for user in users)
    assert any("[pause 2.5s]" in user for user in users)
    for word in ("TAKE_TURN", "floor_take", "after the window opened", "IAS"):
        assert not any(word in user for user in users)


def test_at_l4_the_conflict_profile_is_told(place: Path) -> None:
    labels = ["directive-wins", "persona-wins", "persona-wins", "hedged", "incoherent", "persona-wins"]

    def label(n: int, body: dict[str, Any]) -> Act:
        return Act(text=json.dumps({**GOOD, "l4_category": labels[n % 6]}))

    with judge_server(label) as server:
        dsbif(place, "model=oracle", "role=R1", "level=L4a", "run=r1-profile")
        done = _judge(place, "r1-profile", server.url, level="L4a")
    assert done.returncode == 0, done.stderr
    conflict = summary(place, "r1-profile")["pas"]["conflict"]
    assert conflict["persona-wins"] == {"k": 3, "n": 6}
    assert conflict["hedged"] == {"k": 1, "n": 6}
    assert "conflict: persona wins 3/6 = 50.0 %" in done.stdout
    assert "conflict: balanced 1/6" in done.stdout


def test_what_the_judge_could_not_say_is_counted_and_never_zero(place: Path) -> None:
    dsbif(place, "model=oracle", "role=R1", "level=L2", "run=r1-odd")
    with judge_server(lambda n, body: Act(text="I cannot help with that.")) as server:
        done = _judge(place, "r1-odd", server.url)
    assert done.returncode == 0, done.stderr
    found = summary(place, "r1-odd")["pas"]
    assert (found["judged"], found["n"], found["mean"]) == (0, 6, None)
    assert sum(found["statuses"].values()) == 6
    assert "PAS – over 0 judged of 6, by tiny" in done.stdout


def test_a_dry_run_writes_the_prompts_and_calls_nothing(place: Path) -> None:
    dsbif(place, "model=oracle", "role=R1", "level=L2", "run=r1-dry")
    with judge_server(lambda n, body: Act()) as server:
        done = dsbif(
            place, "stage=judge", "model=oracle", "role=R1", "run=r1-dry", "judge=compatible",
            f"judge.base_url={server.url}", "judge.model=tiny", "judge.name=tiny", "judge.dry_run=true",
        )  # fmt: skip
        assert server.calls == 0
    assert done.returncode == 0, done.stderr
    prompts = (place / "runs/r1-dry/judge-prompts.tiny.jsonl").read_text().splitlines()
    assert len(prompts) == 6
    assert "PAS – over 0 judged of 6" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("judge=openia",), "Did you mean 'openai'?"),
        (("judge=compatible",), "judge.base_url=…, judge.model=… must be given"),
        (("judge=openai", "judge.tempreature=1"), "Did you mean 'temperature'?"),
        (("judge=openai", "judge.attempts=0"), "key 'judge.attempts'"),
    ],
)
def test_a_judge_that_cannot_be_meant_is_one_paragraph(place: Path, words: tuple[str, ...], told: str) -> None:
    done = dsbif(place, "stage=judge", "model=oracle", "role=R1", "run=r1-L2", *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_judge_that_cannot_be_reached_leaves_the_floor_scored(place: Path) -> None:
    dsbif(place, "model=oracle", "role=R1", "level=L2", "run=r1-lost")
    done = dsbif(
        place, "stage=judge", "model=oracle", "role=R1", "run=r1-lost", "judge=compatible", "judge.model=tiny",
        "judge.base_url=http://127.0.0.1:9/v1", "judge.backoff_s=[0,0,0]", "judge.give_up_after=2",
    )  # fmt: skip
    assert done.returncode == 1
    assert "not judged: the judge compatible gave no answer to 2 cases in a row" in done.stdout
    assert summary(place, "r1-lost")["all"]["n"] == 6
    assert summary(place, "r1-lost")["pas"]["judged"] == 0
