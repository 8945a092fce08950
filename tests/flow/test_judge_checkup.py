"""The judge's check-up from the command line, against loopback judges whose mistakes are known."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from judge_server import GOOD, Act, judge_server

from dsbif.errors import ConfigError
from dsbif.judge.checkup import main
from dsbif.judge.checkup_set import CheckItem, read_set
from dsbif.judge.prompt import messages_for
from dsbif.judge.words import settings_from

KEY = "sk-loopback-9c9c9c"
SCORES = {"fitting": (5, 5, 92), "wrong-register": (1, 4, 45), "wrong-content": (4, 1, 30), "off-topic": (0, 0, 2),
          "empty": (0, 0, 0)}  # fmt: skip


def answer(one: CheckItem, said: str) -> Act:
    """What a judge sends that means ``said``."""
    if one.is_conflict:
        return Act(text=json.dumps({**GOOD, "l4_category": said}))
    register, content, pas = SCORES[said]
    return Act(text=json.dumps({**GOOD, "register_fit": register, "content_fit": content, "pas": pas}))


class Judge:
    """A judge that finds every item as it is expected, but for those whose id it is told to answer otherwise."""

    def __init__(self, **otherwise: Act | str) -> None:
        self.items = {messages_for(one.item)[1]["content"]: one for one in read_set()}
        self.otherwise = {key.replace("__", "-"): act for key, act in otherwise.items()}

    def __call__(self, n: int, body: dict[str, Any]) -> Act:
        one = self.items[body["messages"][-1]["content"]]
        for part, act in self.otherwise.items():
            if part in one.item.test_case_id:
                return answer(one, act) if isinstance(act, str) else act
        return answer(one, one.expected)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def words(url: str, out: Path, *more: str) -> list[str]:
    return ["judge=compatible", f"judge.base_url={url}", "judge.model=tiny", "judge.name=tiny", f"out={out}", *more]


def result(out: Path) -> dict[str, Any]:
    return json.loads((out / "checkup.tiny.json").read_text())  # type: ignore[no-any-return]


def test_a_judge_that_finds_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    priced = ("judge.usd_per_million_in=2.5", "judge.usd_per_million_out=10", "at_least=1")
    with judge_server(Judge()) as server:
        assert main(words(server.url, tmp_path, *priced)) == 0
        assert server.calls == 112
        assert main(words(server.url, tmp_path, *priced)) == 0
        assert server.calls == 112
    told = result(tmp_path)
    assert (told["fit"]["judged"], told["fit"]["n"], told["fit"]["right"], told["fit"]["macro_f1"]) == (80, 80, 80, 1.0)
    assert (told["conflict"]["judged"], told["conflict"]["n"], told["conflict"]["macro_f1"]) == (32, 32, 1.0)
    assert told["fit"]["in_band"] == {"k": 80, "n": 80}
    assert told["tokens"] == {"input": 112_000, "output": 11_200}
    assert told["cost_usd"] == pytest.approx(0.28 + 0.112)
    out = capsys.readouterr().out
    assert "classes of fit: 80 judged of 80" in out
    assert "accuracy 80/80 = 100.0 %" in out
    assert "112 calls, 112000 tokens in, 11200 out, cost 0.3920 USD" in out
    assert KEY not in out + "".join(path.read_text() for path in tmp_path.iterdir())


def test_mistakes_land_in_their_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All off-topic items are taken for wrong content; at L4b every hedge for the persona; R8 gets nonsense twice."""
    unclear = Act(text=json.dumps({**GOOD, "register_fit": 5, "content_fit": 5, "pas": 10}))
    judge = Judge(
        **{
            "L2__off__topic": "wrong-content",
            "L4b__hedged": "persona-wins",
            "R8__R8_A_premise_offer_beat__i1__L2__f": unclear,
        }
    )
    with judge_server(judge) as server:
        assert main(words(server.url, tmp_path)) == 0
    fit, conflict = result(tmp_path)["fit"], result(tmp_path)["conflict"]
    assert (fit["right"], fit["judged"]) == (63, 80)
    assert fit["confusion"]["off-topic"]["wrong-content"] == 16
    assert fit["confusion"]["fitting"] == {
        "fitting": 15, "wrong-register": 0, "wrong-content": 0, "off-topic": 0, "empty": 0, "unclear": 1,
    }  # fmt: skip
    # F1: fitting 30/31, register 1, content 2·16/(16+32), off-topic 0, empty 1
    assert fit["macro_f1"] == pytest.approx((30 / 31 + 1 + 2 / 3 + 0 + 1) / 5)
    assert fit["in_band"] == {"k": 79, "n": 80}  # a PAS of 30 is low enough for off-topic, 10 is none for fitting
    assert (conflict["right"], conflict["judged"]) == (28, 32)
    assert conflict["macro_f1"] == pytest.approx((1 + 2 * 8 / (8 + 12) + 2 * 4 / (8 + 4) + 1) / 4)
    assert len(conflict["wrong"]) == 4
    assert "macro-F1 0.73" in capsys.readouterr().out


def test_accuracy_below_what_is_wanted_is_a_failure(tmp_path: Path) -> None:
    with judge_server(Judge(**{"L4b__hedged": "persona-wins"})) as server:
        assert main(words(server.url, tmp_path, "at_least=0.88")) == 1
        assert main(words(server.url, tmp_path, "at_least=0.87")) == 0
        assert server.calls == 112


def test_what_is_not_judged_is_counted_and_in_no_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mute = {"R1__C2__i1__L2__fitting": Act(text="I'm sorry, but I can't help with that."), "L4a": Act(text="Hm.")}
    with judge_server(Judge(**mute)) as server:
        assert main(words(server.url, tmp_path, "judge.backoff_s=[0]")) == 1
    told = result(tmp_path)
    assert (told["fit"]["judged"], told["fit"]["n"], told["fit"]["accuracy"]) == (79, 80, 1.0)
    assert (told["conflict"]["judged"], told["conflict"]["n"]) == (16, 32)
    assert told["not_judged"] == {"parse_error": 16, "refused": 1}
    assert told["cost_usd"] is None
    out = capsys.readouterr().out
    assert "conflict labels: 16 judged of 32" in out
    assert "not judged: 16 parse_error, 1 refused" in out
    assert "cost unknown: this judge has no prices" in out


def test_a_judge_that_is_away_is_a_failure_and_keeps_what_was_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with judge_server(lambda n, body: Act(status=500)) as server:
        few = ("judge.backoff_s=[0]", "judge.attempts=1", "judge.give_up_after=3", "judge.in_flight=1")
        assert main(words(server.url, tmp_path, *few)) == 1
    assert "the judge tiny gave no answer to 3 cases in a row" in capsys.readouterr().err


def test_a_dry_run_calls_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with judge_server(Judge()) as server:
        assert main(words(server.url, tmp_path, "judge.dry_run=true")) == 0
        assert server.calls == 0
    assert "112 items are left" in capsys.readouterr().out
    assert len((tmp_path / "judge-prompts.tiny.jsonl").read_text().splitlines()) == 112


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "judge=none judges nothing; name the judge to check, such as judge=openai"),
        (["judge=none"], "judge=none judges nothing"),
        (["judge=openia"], "judge=openia: there is no such judge. Did you mean 'openai'?"),
        (["judge=compatible"], "judge.base_url=…, judge.model=… must be given."),
        (["judge=openai", "judge.tempreature=1"], "no key 'tempreature' in 'judge'"),
        (["judge=openai", "judge.attempts=0"], "the judge cannot be used: key 'judge.attempts'"),
        (["judge=openai", "judge.backoff_s=[1"], "judge.backoff_s: the value cannot be read"),
        (["judge=openai", "judge.base_url=http://me:pw@host/v1"], "base_url must hold no user, password or query"),
        (["judge=openai", "at_leest=1"], "'at_leest=1' is no setting"),
        (["judge=openai", "at_least=2"], "at_least=2: wanted a share from 0 to 1"),
        (["judge=openai", "at_least=most"], "at_least=most: wanted a share from 0 to 1"),
        (["judge=openai", "out="], "'out=' is no setting"),
    ],
)
def test_a_command_that_cannot_be_meant_is_one_paragraph(
    given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "me:pw" not in told


def test_words_that_name_no_judge_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'model=x' is no setting of a judge"):
        settings_from(["model=x"])


def test_settings_are_those_of_a_run() -> None:
    found = settings_from(["judge=openai", "judge.model=gpt-x", "judge.temperature=null", "judge.name=x"])
    assert (found.provider, found.model, found.temperature, found.attempts) == ("openai", "gpt-x", None, 4)


def test_the_command_runs_on_its_own(tmp_path: Path) -> None:
    with judge_server(Judge()) as server:
        command = [sys.executable, "-m", "dsbif.judge.checkup", *words(server.url, Path("here"))]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "120"}
        )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "checkup.tiny.json").is_file()
    helped = subprocess.run([*command[:3], "--help"], capture_output=True, text=True, check=False)
    assert "at_least" in helped.stdout
