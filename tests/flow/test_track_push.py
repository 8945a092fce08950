"""Offline runs uploaded later, over a real socket to a server that answers as W&B does."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from launching import combination, command
from peers.wandb_server import Arrived, wandb_server

from dsbif.config import from_omegaconf
from dsbif.corridor import run
from dsbif.effects import read_summary
from dsbif.errors import ConfigError
from dsbif.files import CONF_DIR
from dsbif.report.push import is_pushed, offline_log
from dsbif.report.track import TrackerSettings, track
from dsbif.track import push_all

KEY = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two scored runs."""
    folder = tmp_path_factory.mktemp("scored")
    for model in ("silent", "babble"):
        run(combination(folder, f"model={model}", "role=R4").config)
    return folder


@pytest.fixture
def folder(scored: Path, tmp_path: Path) -> Path:
    """The runs, tracked offline where they lie now."""
    shutil.copytree(scored / "runs", tmp_path / "runs")
    for path in sorted((tmp_path / "runs").iterdir()):
        mirror(path)
    return tmp_path


def mirror(path: Path) -> None:
    summary = read_summary(path)
    assert track(path, summary, summary.rows, {"seed": 0}, TrackerSettings("wandb", "offline", "dsbif")) is None


def environment(url: str, **changes: str) -> dict[str, str]:
    return {**os.environ, "WANDB_BASE_URL": url, "WANDB_API_KEY": KEY, **changes}


def push(folder: Path, *words: str, url: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dsbif.track", "push", *words], cwd=folder, capture_output=True, text=True, check=False,
        env=environment(url, HOME=str(folder), **changes), timeout=300,
    )  # fmt: skip


def names(arrived: Arrived) -> set[str]:
    return {str(one["displayName"]) for one in arrived.runs if one.get("displayName")}


def whole(arrived: Arrived, runs: int) -> bool:
    """Whether every run is there once, with its summary, its table and the table's artifact."""
    ids = {str(one["name"]) for one in arrived.runs}
    summaries = {name.partition("/")[0] for name in arrived.files if name.endswith("/wandb-summary.json")}
    tables = {name.partition("/")[0] for name in arrived.files if "/media/table/cases" in name}
    artifacts = {name.split("-")[1] for name in arrived.artifacts}
    staged = {name.split("-")[1] for name in arrived.files if name.endswith("-cases/cases.table.json")}
    lines = sorted(run for run, _ in arrived.history)
    return len(ids) == runs and ids == summaries == tables == artifacts == staged and lines == sorted(ids)


def test_a_run_arrives_once_with_its_summary_and_table(folder: Path) -> None:
    with wandb_server() as arrived:
        first = push(folder, "runs", url=arrived.url)
        assert first.returncode == 0, first.stderr
        assert {name.rpartition("-")[0] for name in names(arrived)} == {"silent-L2", "babble-L2"}
        assert whole(arrived, 2)
        (name, _) = sorted(name for name in arrived.files if name.endswith("/wandb-summary.json"))
        assert json.loads(arrived.files[name])["n_scored"] == 6
        (table, _) = sorted(name for name in arrived.files if name.endswith("-cases/cases.table.json"))
        assert len(json.loads(arrived.files[table])["data"]) == 6
        calls = len(arrived.runs)
        again = push(folder, "runs", url=arrived.url)
        assert (again.returncode, again.stdout.count("uploaded before")) == (0, 2)
        assert len(arrived.runs) == calls
    assert any(header.startswith("Authorization: Basic") for header in arrived.headers)
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == ".wandb.log" or path.suffix == ".wandb" for path in kept)
    assert not [path for path in kept if KEY.encode() in path.read_bytes()]
    assert KEY not in first.stdout + first.stderr


def test_a_log_that_is_uploaded_twice_is_one_run(folder: Path) -> None:
    with wandb_server() as arrived:
        assert push(folder, "runs", url=arrived.url).returncode == 0
        files, history = set(arrived.files), {at: json.loads(line) for at, line in arrived.history.items()}
        for mark in folder.rglob("pushed.sha256"):
            mark.unlink()
        assert push(folder, "runs", url=arrived.url).returncode == 0
        assert whole(arrived, 2)
        assert set(arrived.files) == files
        assert {at: json.loads(line) for at, line in arrived.history.items()} == history


def test_a_file_that_is_refused_is_told_and_sent_the_next_time(folder: Path) -> None:
    (path,) = (folder / "runs").glob("silent-*")
    with wandb_server() as arrived:
        arrived.refuse_files = 1
        first = push(folder, str(path), url=arrived.url)
        assert (first.returncode, "failed to upload: status: 403" in first.stderr) == (2, True), first.stderr
        assert "The same command tries again" in first.stderr
        assert "uploaded" not in first.stdout
        assert push(folder, str(path), url=arrived.url).returncode == 0
        assert whole(arrived, 1)


def test_an_upload_that_is_killed_is_completed_by_the_next(folder: Path) -> None:
    (path,) = (folder / "runs").glob("silent-*")
    with wandb_server() as arrived:
        arrived.hold_files = True
        killed = subprocess.Popen(
            [sys.executable, "-m", "dsbif.track", "push", str(path)], start_new_session=True,
            env=environment(arrived.url, HOME=str(folder)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert arrived.held.wait(120)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait(60)
        arrived.hold_files = False
        arrived.released.set()
        assert not is_pushed(offline_log(path))
        done = push(folder, str(path), url=arrived.url)
        assert (done.returncode, done.stdout) == (0, f"{path.name}: uploaded\n"), done.stderr
        assert whole(arrived, 1)


def test_an_unreachable_server_is_told_and_loses_nothing(folder: Path) -> None:
    (path,) = (folder / "runs").glob("silent-*")
    before = {file: file.read_bytes() for file in path.iterdir() if file.is_file()}
    failed = push(folder, str(path), url="http://127.0.0.1:9")
    assert failed.returncode == 2
    assert "is not uploaded:" in failed.stderr
    assert "connection refused" in failed.stderr
    assert "The same command tries again. The results are untouched." in failed.stderr
    assert "Traceback" not in failed.stderr
    assert {file: file.read_bytes() for file in path.iterdir() if file.is_file()} == before
    with wandb_server() as arrived:
        assert push(folder, str(path), url=arrived.url).returncode == 0
        assert names(arrived) == {path.name}


def test_nobody_logged_in_and_a_key_that_is_none_are_told(folder: Path) -> None:
    (path,) = (folder / "runs").glob("silent-*")
    nobody = push(folder, str(path), url="http://127.0.0.1:9", WANDB_API_KEY="")
    assert (nobody.returncode, "nobody is logged in to W&B; use wandb login" in nobody.stderr) == (2, True)
    odd = push(folder, str(path), url="http://127.0.0.1:9", WANDB_API_KEY="short-secret")
    assert (odd.returncode, "short-secret" in odd.stderr) == (2, False)


def test_an_absent_wandb_names_the_command_that_installs_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = (folder / "runs").glob("silent-*")
    monkeypatch.setitem(sys.modules, "wandb", None)
    (line,) = push_all([path])
    assert line == 'runs are uploaded by W&B\'s own client: pip install "dsbif[wandb]"'


def test_a_run_that_was_moved_is_logged_again_where_it_is(folder: Path) -> None:
    (path,) = (folder / "runs").glob("silent-*")
    moved = path.rename(folder / path.name)
    with wandb_server() as arrived:
        failed = push(folder, path.name, url=arrived.url)
        assert (failed.returncode, "stage=score run=PATH tracker=wandb" in failed.stderr) == (2, True), failed.stderr
        first = offline_log(moved)
        mirror(moved)
        assert offline_log(moved) != first
        assert push(folder, path.name, url=arrived.url).returncode == 0
        assert whole(arrived, 1)


def test_what_was_never_tracked_is_named(tmp_path: Path) -> None:
    (tmp_path / "run" / "wandb").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"was never tracked offline: it has no wandb/offline-run-\*"):
        offline_log(tmp_path / "run")
    assert len(push_all([tmp_path / "run"])) == 1
    done = command("dsbif.track", tmp_path, "push", "nowhere")
    assert (done.returncode, "nowhere is no tracked run and holds none" in done.stderr) == (2, True)
    typo = command("dsbif.track", tmp_path, "pusch")
    assert (typo.returncode, "Did you mean 'push'?" in typo.stderr) == (2, True)
    assert command("dsbif.track", tmp_path, "push").returncode == 2


def test_the_sweep_file_names_only_what_can_be_overridden() -> None:
    sweep = yaml.safe_load((CONF_DIR / "wandb_sweep.yaml").read_text())
    assert sweep["command"] == ["${env}", "python", "-m", "dsbif.run", "${args_no_hyphens}"]
    first = {name: spec["values"][0] for name, spec in sweep["parameters"].items()}
    with initialize_config_dir(str(CONF_DIR.resolve()), version_base="1.3"):
        for name, spec in sweep["parameters"].items():
            for value in spec["values"]:
                words = [f"{key}={chosen}" for key, chosen in (first | {name: value}).items()]
                config = from_omegaconf(compose("config", overrides=words))
                assert config.tracker.mode == "online"
    assert config.model.name == first["model"]


def test_the_sweeps_metric_is_a_figure_that_is_tracked(scored: Path) -> None:
    sweep = yaml.safe_load((CONF_DIR / "wandb_sweep.yaml").read_text())
    path = next(iter((scored / "runs").iterdir()))
    group, _, name = sweep["metric"]["name"].partition(".")
    assert isinstance(json.loads((path / "summary.json").read_text())[group][name], float)
