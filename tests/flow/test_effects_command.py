"""Runs compared from their files, as a user types it."""

import json
from pathlib import Path

import pytest
from launching import combination, command

from dsbif.corridor import run
from dsbif.effects import effects_of, read_summary


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models at two levels."""
    folder = tmp_path_factory.mktemp("compared")
    for level in ("L1", "L2"):
        for model in ("silent", "oracle"):
            run(combination(folder, f"model={model}", "role=R4", f"level={level}").config)
    return folder


def test_runs_are_compared_from_their_files(folder: Path) -> None:
    done = command("dsbif.effects", folder, "runs", "out=effects.json")
    assert done.returncode == 0, done.stderr
    assert "Entailment Gap" in done.stdout
    assert "L3 missing" in done.stdout
    found = json.loads((folder / "effects.json").read_text())
    assert {(gap["model"], gap["points"]) for gap in found["gaps"] if gap["name"] == "Entailment Gap"} == {
        ("silent", 0.0), ("oracle", 0.0),
    }  # fmt: skip
    assert found["missing"] == ["oracle: L0, L3, L4a, L4b missing", "silent: L0, L3, L4a, L4b missing"]
    assert found["notes"] == [
        "conditioning differs: full: oracle L1 and oracle L2, none: silent L1 and silent L2",
        "silent: takes no prompt, so no difference between its levels is a prompt's effect",
    ]
    assert [(one["model"], one["level"], one["all"]["n"]) for one in found["levels"]] == [
        ("oracle", "L1", 6), ("oracle", "L2", 6), ("silent", "L1", 6), ("silent", "L2", 6),
    ]  # fmt: skip


def test_the_sweep_judges_what_was_stored_again(folder: Path) -> None:
    # Neither agent depends on the prompt's level, so both have no gap anywhere and every configuration is a tie.
    found = effects_of(sorted((folder / "runs").iterdir()))
    assert [(one.aggregate, one.points) for one in found.rankings] == [
        ("headline", {"oracle": 0.0, "silent": 0.0}), ("all", {"oracle": 0.0, "silent": 0.0}),
    ]  # fmt: skip
    assert {one.taus.count(None) for one in found.rankings} == {180}


def test_a_run_whose_verdicts_its_measurements_do_not_give_is_in_no_sweep(folder: Path, tmp_path: Path) -> None:
    runs = []
    for path in sorted((folder / "runs").iterdir()):
        copy = tmp_path / path.name
        copy.mkdir()
        for name in ("summary.json", "verdicts.jsonl", "measurements.jsonl", "manifest.jsonl", "config.yaml"):
            (copy / name).write_bytes((path / name).read_bytes())
        runs.append(copy)
    conditions = read_summary(runs[0]).conditions
    assert (conditions.model, conditions.transcript) == ("oracle", "native")
    lines = (runs[0] / "measurements.jsonl").read_text().splitlines()
    (runs[0] / "measurements.jsonl").write_text("\n".join(lines[1:]))
    found = effects_of(runs)
    assert found.rankings == ()
    assert any("oracle is not in the sweep: the measurements and thresholds in" in line for line in found.missing)
    (runs[0] / "measurements.jsonl").write_text("[]")
    (line,) = [line for line in effects_of(runs).missing if "not in the sweep" in line]
    assert "measurements.jsonl cannot be read" in line


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    done = command("dsbif.effects", tmp_path, "runs")
    assert (done.returncode, "runs is no scored run and holds none" in done.stderr) == (2, True)
    wrong = command("dsbif.effects", tmp_path, "otu=x")
    assert (wrong.returncode, "'otu=x' is no setting of python -m dsbif.effects. Did you" in wrong.stderr) == (2, True)
    only = command("dsbif.effects", tmp_path, "out=x")
    assert (only.returncode, "needs run directories" in only.stderr) == (2, True)
    (tmp_path / "summary.json").write_text("{}")
    broken = command("dsbif.effects", tmp_path, ".")
    assert (broken.returncode, "is no scored run (KeyError: 'model')" in broken.stderr) == (2, True)
    (tmp_path / "summary.json").write_text("[]")
    assert "summary.json holds no object" in command("dsbif.effects", tmp_path, ".").stderr
    assert command("dsbif.effects", tmp_path).returncode == 2
    assert command("dsbif.effects", tmp_path, "--help").returncode == 0


def test_a_place_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = command("dsbif.effects", folder, "runs", f"out={tmp_path / 'file' / 'effects.json'}")
    assert (done.returncode, "cannot be written" in done.stderr, "Traceback" in done.stderr) == (2, True, False)
