"""Runs compared from their files, as a user types it."""

import json
from pathlib import Path

from launching import combination, command

from dsbif.corridor import run


def test_runs_are_compared_from_their_files(tmp_path: Path) -> None:
    for level in ("L1", "L2"):
        for model in ("silent", "babble"):
            run(combination(tmp_path, f"model={model}", "role=R4", f"level={level}").config)
    done = command("dsbif.effects", tmp_path, "runs", "out=effects.json")
    assert done.returncode == 0, done.stderr
    assert "Entailment Gap" in done.stdout
    assert "L3 missing" in done.stdout
    found = json.loads((tmp_path / "effects.json").read_text())
    assert {(gap["model"], gap["points"]) for gap in found["gaps"] if gap["name"] == "Entailment Gap"} == {
        ("silent", 0.0), ("babble", 0.0),
    }  # fmt: skip
    assert found["missing"] == ["babble: L3 missing", "silent: L3 missing"]


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    done = command("dsbif.effects", tmp_path, "runs")
    assert (done.returncode, "runs is no scored run and holds none" in done.stderr) == (2, True)
    wrong = command("dsbif.effects", tmp_path, "otu=x")
    assert (wrong.returncode, "'otu=x' is no setting of python -m dsbif.effects" in wrong.stderr) == (2, True)
    (tmp_path / "summary.json").write_text("{}")
    broken = command("dsbif.effects", tmp_path, ".")
    assert (broken.returncode, "is no scored run (KeyError: 'model')" in broken.stderr) == (2, True)
    assert command("dsbif.effects", tmp_path).returncode == 2
    assert command("dsbif.effects", tmp_path, "--help").returncode == 0
