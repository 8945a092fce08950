"""A mirror of results in Weights & Biases. Result files are the truth: whatever fails here is a hint, never an error.

One W&B run per model and level, offline by default, everything it stages under the run directory. The id comes from
the run directory, so that tracking it again gives the same run, and results that did not change are not logged again.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsbif.files import stable_hash, write_text
from dsbif.report.aggregate import Summary, summary_json
from dsbif.score.rows import ResultRow, row_line

_TOLD = "tracked.sha256"
"""Beside what was logged: the hash of it. The same results are not logged twice."""
_SECRET = re.compile(r"(key|token|secret|password)$", re.IGNORECASE)
_COLUMNS = (
    "test_case_id", "role", "probe", "instance", "action", "passed", "value", "limit", "unit", "label", "borderline",
    "why", "unscored",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrackerSettings:
    """``conf/tracker``."""

    kind: str
    mode: str
    project: str
    entity: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()


def track(
    run_dir: Path, summary: Summary, rows: Sequence[ResultRow], config: Mapping[str, Any], settings: TrackerSettings
) -> str | None:
    """Mirror a run; returns one line for the user where something kept it from being mirrored."""
    if settings.kind == "none" or settings.mode == "disabled":
        return None
    home = run_dir / "wandb"
    told = stable_hash([settings.mode, *_where(run_dir), summary_json(summary), [row_line(row) for row in rows]])
    if (home / _TOLD).is_file() and (home / _TOLD).read_text() == told:
        return None
    with _staged_under(home):
        try:
            import wandb
        except ImportError:
            return 'results are not mirrored: pip install "dsbif[wandb]", or tracker=none'
        try:
            _log(wandb, run_dir, summary, rows, config, settings)
            write_text(home / _TOLD, told)
        except Exception as error:  # noqa: BLE001 - the mirror may fail in any way and must not take a result along
            return f"results are not mirrored to W&B ({type(error).__name__}: {error}); the files are complete"
    return None


def _where(run_dir: Path) -> tuple[str, str]:
    """A log holds absolute paths of what is staged; and every run of a sweep is one of its own, whatever it repeats."""
    return str(run_dir.resolve()), os.environ.get("WANDB_RUN_ID", "") if os.environ.get("WANDB_SWEEP_ID") else ""


@contextmanager
def _staged_under(home: Path) -> Iterator[None]:
    """W&B stages media in the home folder by default; a run directory must hold all that is its own.

    The folder of W&B's settings stays the user's: it names the server of an installation of one's own.
    """
    home.mkdir(parents=True, exist_ok=True)
    names = ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_SILENT")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: str(home.resolve()) for name in names[1:3]})
    os.environ.update({"WANDB_DIR": str(home.parent.resolve()), "WANDB_SILENT": "true"})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _log(
    wandb: Any,
    run_dir: Path,
    summary: Summary,
    rows: Sequence[ResultRow],
    config: Mapping[str, Any],
    settings: TrackerSettings,
) -> None:
    run = wandb.init(
        project=settings.project,
        entity=settings.entity,
        group=settings.group,
        tags=list(settings.tags) or None,
        name=run_dir.name,
        id=stable_hash(run_dir.name)[:12],
        dir=str(run_dir),
        mode=settings.mode,
        config=without_secrets(config),
        reinit="finish_previous",
    )
    run.summary.update(_flat(summary_json(summary)))
    run.log({"cases": wandb.Table(columns=list(_COLUMNS), data=[case_cells(row) for row in rows])})
    run.finish()


def case_cells(row: ResultRow) -> list[Any]:
    """One row of the per-case table."""
    verdict = row.verdict
    judged: list[Any] = [None] * 7
    if verdict:
        judged = [
            verdict.passed, verdict.value, verdict.limit, verdict.unit, str(verdict.label), verdict.borderline,
            verdict.why,
        ]  # fmt: skip
    unscored = f"{row.unscored.reason}: {row.unscored.detail}" if row.unscored else None
    return [row.test_case_id, row.role, row.probe, row.instance, str(row.action), *judged, unscored]


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Scalars by dotted name; lists are left to the files."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{prefix}{key}.")
        elif not isinstance(item, list):
            flat[f"{prefix}{key}"] = item
    return flat


def without_secrets(value: Any) -> Any:
    """The configuration with every key, token, secret and password blanked.

    >>> without_secrets({"llm": {"api_key": "abc", "api_key_env": "OPENAI_API_KEY"}})
    {'llm': {'api_key': '***', 'api_key_env': 'OPENAI_API_KEY'}}
    """
    if isinstance(value, Mapping):
        return {
            key: "***" if item and _SECRET.search(str(key)) else without_secrets(item) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value
