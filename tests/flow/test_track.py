"""W&B for real, offline: what was logged is read back from its own file."""

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import a_row
from wandb.proto.wandb_internal_pb2 import Record

from dsbif.report.aggregate import Conditions, Summary
from dsbif.report.track import TrackerSettings, track

OURS = ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_SILENT")
SETTINGS = TrackerSettings("wandb", "offline", "dsbif-test")


def _summary() -> Summary:
    rows = (a_row("a"), a_row("b", passes=False), a_row("c", unscored=True))
    return Summary(Conditions("test", "L2", "causal", "in_window", "paper", "none"), rows)


def _records(data: bytes) -> Iterator[bytes]:
    """The payloads of W&B's file: a 7-byte header, then LevelDB-style records in blocks of 32 KiB."""
    at, pending = 7, b""
    while at + 7 <= len(data):
        left = -at % 32_768 or 32_768
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        pending += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield pending
            pending = b""


def _logged(run_dir: Path) -> list[tuple[dict[str, str], dict[str, str]]]:
    """(config, summary) of every offline run below a directory, values as JSON text."""
    found = []
    for path in sorted(run_dir.rglob("run-*.wandb")):
        config: dict[str, str] = {}
        summary: dict[str, str] = {}
        for data in _records(path.read_bytes()):
            record = Record()
            record.ParseFromString(data)
            config |= {item.key: item.value_json for item in record.run.config.update}
            for item in record.summary.update:
                summary[".".join(item.nested_key) or item.key] = item.value_json
        found.append((config, summary))
    return found


def test_config_aggregates_and_cases_are_logged_under_the_run(tmp_path: Path) -> None:
    summary = _summary()
    before = {name: value for name, value in os.environ.items() if name in OURS}
    hint = track(tmp_path / "run-x", summary, summary.rows, {"seed": 3, "llm": {"api_key": "sk-1"}}, SETTINGS)
    assert hint is None
    ((config, logged),) = _logged(tmp_path / "run-x")
    assert config["seed"] == "3"
    assert "sk-1" not in str(config)
    assert (logged["headline.k"], logged["headline.n"], logged["n_expected"]) == ("1", "2", "3")
    assert logged["model"] == '"test"'
    (table,) = (tmp_path / "run-x").rglob("cases*.table.json")
    assert '"bad_audio: one NaN"' in table.read_text()
    assert {name: value for name, value in os.environ.items() if name in OURS} == before


def test_two_runs_in_one_process_keep_their_own_configuration(tmp_path: Path) -> None:
    summary = _summary()
    for seed in (1, 2):
        assert track(tmp_path / f"run-{seed}", summary, summary.rows, {"seed": seed}, SETTINGS) is None
    assert [_logged(tmp_path / f"run-{seed}")[0][0]["seed"] for seed in (1, 2)] == ["1", "2"]


@pytest.mark.parametrize(
    "settings", [TrackerSettings("none", "offline", "x"), TrackerSettings("wandb", "disabled", "x")]
)
def test_no_tracker_writes_nothing(tmp_path: Path, settings: TrackerSettings) -> None:
    summary = _summary()
    assert track(tmp_path / "run", summary, summary.rows, {}, settings) is None
    assert not (tmp_path / "run").exists()


def test_an_absent_wandb_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    summary = _summary()
    hint = track(tmp_path / "run", summary, summary.rows, {}, SETTINGS)
    assert hint == 'results are not mirrored: pip install "dsbif[wandb]", or tracker=none'


def test_a_wandb_that_fails_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    def refuse(**_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(wandb, "init", refuse)
    summary = _summary()
    hint = track(tmp_path / "run", summary, summary.rows, {}, SETTINGS)
    assert hint is not None
    assert "OSError: no space left on device" in hint
    assert "the files are complete" in hint


def test_the_same_results_are_logged_once(tmp_path: Path) -> None:
    summary = _summary()
    for _ in range(2):
        assert track(tmp_path / "run", summary, summary.rows, {}, SETTINGS) is None
    assert len(_logged(tmp_path / "run")) == 1


def test_the_users_own_settings_of_wandb_stay_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    seen: list[str | None] = []

    def look(**_: Any) -> None:
        seen.append(os.environ.get("WANDB_CONFIG_DIR"))
        raise OSError("seen enough")

    monkeypatch.setattr(wandb, "init", look)
    monkeypatch.setenv("WANDB_CONFIG_DIR", "/home/me/.config/wandb")
    summary = _summary()
    assert track(tmp_path / "run", summary, summary.rows, {}, SETTINGS)
    assert seen == ["/home/me/.config/wandb"]


def test_every_run_of_a_sweep_is_logged_whatever_it_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    started: list[str] = []

    def start(**_: Any) -> None:
        started.append(os.environ["WANDB_RUN_ID"])
        raise OSError("started")

    summary = _summary()
    assert track(tmp_path / "run", summary, summary.rows, {}, SETTINGS) is None
    monkeypatch.setattr(wandb, "init", start)
    monkeypatch.setenv("WANDB_SWEEP_ID", "s")
    monkeypatch.setenv("WANDB_RUN_ID", "first")
    assert track(tmp_path / "run", summary, summary.rows, {}, SETTINGS)
    assert started == ["first"]
