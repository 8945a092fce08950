"""Offline runs uploaded later, over a real socket to a server that answers as W&B does."""

import json
import os
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
from dsbif.errors import ConfigError
from dsbif.files import CONF_DIR
from dsbif.report.push import offline_log
from dsbif.track import push_all

KEY = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scored runs, tracked offline."""
    folder = tmp_path_factory.mktemp("tracked")
    for model in ("silent", "babble"):
        config = combination(folder, f"model={model}", "role=R4", "tracker=wandb").config
        run(config.model_copy(update={"paths": config.paths.model_copy(update={"runs": folder / "runs"})}))
    return folder


def push(folder: Path, *words: str, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dsbif.track", "push", *words], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "WANDB_BASE_URL": url, "WANDB_API_KEY": KEY}, timeout=300,
    )  # fmt: skip


def names(arrived: Arrived) -> set[str]:
    return {str(one["displayName"]) for one in arrived.runs if one.get("displayName")}


def test_a_run_arrives_once_with_its_summary_and_table(folder: Path) -> None:
    with wandb_server() as arrived:
        first = push(folder, "runs", url=arrived.url)
        assert first.returncode == 0, first.stderr
        assert {name.rpartition("-")[0] for name in names(arrived)} == {"silent-L2", "babble-L2"}
        assert json.loads(arrived.files["wandb-summary.json"])["n_scored"] == 6
        (table, *_) = [name for name in arrived.files if name.endswith(".table.json")]
        assert len(json.loads(arrived.files[table])["data"]) == 6
        assert len(arrived.history) == 2
        calls = len(arrived.runs)
        again = push(folder, "runs", url=arrived.url)
        assert (again.returncode, again.stdout.count("uploaded before")) == (0, 2)
        assert len(arrived.runs) == calls
    assert any(header.startswith("Authorization: Basic") for header in arrived.headers)
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in kept if KEY.encode() in path.read_bytes()]
    assert KEY not in first.stdout + first.stderr


def test_an_unreachable_server_is_told_and_loses_nothing(tmp_path: Path) -> None:
    done_run = run(combination(tmp_path, "model=silent", "role=R4", "tracker=wandb").config).run_dir.path
    before = {path: path.read_bytes() for path in done_run.glob("*.json*")}
    failed = subprocess.run(
        [sys.executable, "-m", "dsbif.track", "push", str(done_run)], capture_output=True, text=True, check=False,
        env={**os.environ, "WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": "short"}, timeout=300,
    )  # fmt: skip
    assert failed.returncode == 2
    assert "is not uploaded:" in failed.stderr
    assert "the same command tries again" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert {path: path.read_bytes() for path in done_run.glob("*.json*")} == before
    with wandb_server() as arrived:
        assert push(tmp_path, str(done_run), url=arrived.url).returncode == 0
        assert names(arrived) == {done_run.name}


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
    assert sweep["command"][-1] == "${args_no_hyphens}"
    words = [f"{name}={spec['values'][0]}" for name, spec in sweep["parameters"].items()]
    with initialize_config_dir(str(CONF_DIR.resolve()), version_base="1.3"):
        config = from_omegaconf(compose("config", overrides=words))
    assert config.model.name == sweep["parameters"]["model"]["values"][0]
    assert config.tracker.mode == "online"
