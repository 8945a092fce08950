import json
from pathlib import Path
from typing import Any

import pytest
from builders import a_case
from judge_server import a_judgement

from dsbif.bench.levels import Level
from dsbif.bench.manifest import write_manifest
from dsbif.errors import CaseError, ConfigError, JudgeError
from dsbif.judge.agree import agree, main, run_path
from dsbif.judge.reply import Status
from dsbif.judge.store import Judgement, Store, judgements_file
from dsbif.report.agreement import agreement_json, compare

LEVELS = {f"c{n}": Level.L4A for n in range(6)} | {"plain": Level.L2, "lost": Level.L2}
FIRST = {
    "c0": a_judgement("c0", 90, "directive-wins"),
    "c1": a_judgement("c1", 70, "directive-wins"),
    "c2": a_judgement("c2", 50, "persona-wins"),
    "c3": a_judgement("c3", 30, "persona-wins"),
    "c4": a_judgement("c4", None),
    "plain": a_judgement("plain", 10),
}
SECOND = {
    "c0": a_judgement("c0", 85, "directive-wins"),
    "c1": a_judgement("c1", 45, "persona-wins"),
    "c2": a_judgement("c2", 55, "persona-wins"),
    "c3": a_judgement("c3", 20, "persona-wins"),
    "c4": a_judgement("c4", None, status=Status.PARSE_ERROR),
    "c5": a_judgement("c5", 40, "hedged"),
    "plain": a_judgement("plain", 10, transcript_hash="other words"),
    "foreign": a_judgement("foreign", 1),
}


def test_agreement_by_hand() -> None:
    found = compare(FIRST, SECOND, ("a", "b"), LEVELS)
    assert (found.n, found.n_conflict, len(found.scores), len(found.labels)) == (8, 6, 4, 4)
    assert found.left_out == {
        "not judged by a": 2,  # c5 and lost; lost counts for its first reason
        "refused by a": 1,
        "they judged different words": 1,
    }
    assert found.mean_difference == pytest.approx((-5 - 25 + 5 - 10) / 4)
    assert found.mean_distance == pytest.approx((5 + 25 + 5 + 10) / 4)
    assert found.spearman == pytest.approx(0.8)  # ranks 4 3 2 1 and 4 2 3 1
    assert found.kappa == pytest.approx(0.5)  # 3 of 4 agreed, 1·2 + 3·2 of 16 by chance
    told = agreement_json(found)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["labels"]["crossed"]["directive-wins"]["persona-wins"] == 1
    assert (told["labels"]["agreed"], told["labels"]["pairs"], told["labels"]["n"]) == (3, 4, 6)
    assert (told["pas"]["pairs"], told["pas"]["n"]) == (4, 8)


def test_a_judge_agrees_with_itself_and_nobody_with_nothing() -> None:
    same = compare(FIRST, FIRST, ("a", "b"), LEVELS)
    assert (same.kappa, same.spearman, same.mean_difference, same.mean_distance) == (1.0, 1.0, 0.0, 0.0)
    none = compare({}, FIRST, ("a", "b"), LEVELS)
    assert (none.kappa, none.spearman, none.mean_difference, none.mean_distance) == (None, None, None, None)
    assert none.left_out == {"not judged by a": 8}


def a_run(path: Path, **judges: dict[str, Judgement]) -> Path:
    path.mkdir()
    write_manifest(path / "manifest.jsonl", [a_case(test_case_id=tid, level=level) for tid, level in LEVELS.items()])
    for name, judged in judges.items():
        with Store(judgements_file(path, name.replace("_", "-"))) as store:
            for judgement in judged.values():
                store.append(judgement)
    return path


def test_the_command_prints_every_pair_and_leaves_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    run = a_run(tmp_path / "run", gpt_4o=FIRST, other=SECOND, person_ann=FIRST)
    assert main([str(run)]) == 0
    out = capsys.readouterr().out
    for pair in ("gpt-4o and other", "gpt-4o and person-ann", "other and person-ann"):
        assert pair in out
    rows = [line.replace("│", " ").split() for line in out.splitlines()]
    assert ["conflict", "label,", "Cohen's", "κ", "+0.50", "4", "of", "6"] in rows
    assert ["PAS,", "Spearman", "+0.80", "4", "of", "8"] in rows
    assert ["PAS,", "mean", "of", "other", "−", "gpt-4o", "-8.8", "4", "of", "8"] in rows
    assert "left out: 2 not judged by gpt-4o, 1 refused by gpt-4o, 1 they judged different words" in out
    assert [pair["second"] for pair in json.loads((run / "agreement.json").read_text())["pairs"]] == [
        "other", "person-ann", "person-ann",
    ]  # fmt: skip
    assert main([str(run), "other", "gpt-4o"]) == 0
    assert [pair["first"] for pair in json.loads((run / "agreement.json").read_text())["pairs"]] == ["other"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["gpt-4o", "othr"], r"no judgements.othr.jsonl. Did you mean 'other'\?"),
        (["other", "other"], r"two judges are wanted; .* has: gpt-4o, other"),
    ],
)
def test_judges_that_are_not_there_are_named(tmp_path: Path, names: list[str], message: str) -> None:
    run = a_run(tmp_path / "run", gpt_4o=FIRST, other=SECOND)
    with pytest.raises(ConfigError, match=message):
        agree(run, names)


def test_one_judge_alone_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = a_run(tmp_path / "run", gpt_4o=FIRST)
    assert main([str(run)]) == 2
    assert "has: gpt-4o. Have it judged by another one" in capsys.readouterr().err
    with pytest.raises(CaseError, match=r"manifest.jsonl cannot be read"):
        agree(tmp_path / "nowhere")


def test_a_file_of_two_judges_is_refused_unless_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = {**FIRST, "c3": a_judgement("c3", 30, "persona-wins", model="another")}
    run = a_run(tmp_path / "run", gpt_4o=mixed, other=SECOND)
    with pytest.raises(ConfigError, match=r"gpt-4o.jsonl holds the words of 2 different judges \(openai another, .*; "):
        agree(run)
    assert main([str(run)]) == 2
    assert main([str(run), "judge.allow_mixed=true"]) == 0
    assert "gpt-4o and other" in capsys.readouterr().out


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", gpt_4o=FIRST, other=SECOND)
    judgements_file(run, "other").write_text("{}\n")
    with pytest.raises(JudgeError, match=r"judgements.other.jsonl:1"):
        agree(run)


@pytest.mark.parametrize("words", [[], ["run", "a"], ["run", "a", "b", "c"], ["run", "x=1", "b"]])
def test_the_command_says_how_it_is_used(words: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "usage: python -m dsbif.judge.agree RUN" in capsys.readouterr().err


def test_a_run_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run_path("oracle-L2-1234") == Path("runs/oracle-L2-1234")
    assert run_path("here") == Path("here")
    assert run_path("a/b") == Path("a/b")
