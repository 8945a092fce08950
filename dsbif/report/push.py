"""Runs that were tracked offline, uploaded to Weights & Biases later, from a machine that reaches it.

W&B's own ``wandb sync`` does it: it goes on where an upload was cut off and skips what it has uploaded. It notes a log
as uploaded, and ends well, also where a file of it was refused or is gone; its own log says so, and decides here. A run
that was scored again was logged again under the same id; only the newest log is uploaded: logs of one id do not merge.
Uploading a log twice gives the same run: lines and files have their places in it.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from dsbif.errors import ConfigError
from dsbif.files import sha256_of, write_text

_PATIENCE_S = 1800.0
_SHOWN = 3
_MARK = "pushed.sha256"
_KEY = re.compile(r"[0-9A-Fa-f]{40,}|wandb_v\d+_\w+")
_RETRIES = {
    f"WANDB_X_{what}_{setting}": value
    for what in ("GRAPHQL", "FILE_TRANSFER", "FILE_STREAM")
    for setting, value in (("RETRY_MAX", "4"), ("RETRY_WAIT_MIN_SECONDS", "1"), ("RETRY_WAIT_MAX_SECONDS", "5"))
}
"""The client's own patience is for runs that go on meanwhile: hours. Here somebody waits for the answer."""


def offline_log(run_dir: Path) -> Path:
    """The newest offline log of a run directory.

    Raises:
        ConfigError: it has none.
    """
    logs = sorted((run_dir / "wandb").glob("offline-run-*"))
    if not logs:
        raise ConfigError(
            f"{run_dir} was never tracked offline: it has no wandb/offline-run-*. Score it with tracker=wandb "
            f"(stage=score run={run_dir})."
        )
    return logs[-1]


def is_pushed(log: Path) -> bool:
    """Whether a log, as it is, arrived whole. The client's own mark is no proof: it marks what lacks files too."""
    mark = log / _MARK
    return mark.is_file() and mark.read_text(encoding="utf-8") == _content(log)


def _content(log: Path) -> str:
    return " ".join(sha256_of(path) for path in sorted(log.glob("*.wandb")))


def push(log: Path) -> None:
    """Upload one offline log.

    Raises:
        ConfigError: the package is not installed, nobody is logged in, W&B cannot be reached or refuses, or a file of
            the log did not arrive.
    """
    if importlib.util.find_spec("wandb") is None:
        raise ConfigError('runs are uploaded by W&B\'s own client: pip install "dsbif[wandb]"')
    home = log.parent.resolve()
    before = set(_own_logs(home))
    # Absolute: the client's service works in another folder, and with a relative path it leaves files out unasked.
    said, status = _sync(log.resolve(), home)
    lost = [line for path in sorted(set(_own_logs(home)) - before) for line in _errors(path)]
    if status == 0 and not lost and any(log.glob("*.wandb.synced")):
        write_text(log / _MARK, _content(log))
        return
    raise ConfigError(f"{log} is not uploaded: {_why(said, lost)}. The results are untouched.")


def _sync(log: Path, home: Path) -> tuple[str, int]:
    """What the client said, and its exit status."""
    command = [sys.executable, "-m", "wandb", "sync", "--include-synced", str(log)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S, env=_environment(home),
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{log} was not uploaded within {_PATIENCE_S:g} s; the same command goes on.") from error
    return done.stdout + done.stderr, done.returncode


def _environment(home: Path) -> Mapping[str, str]:
    place = {"WANDB_DIR": str(home.parent), "WANDB_DATA_DIR": str(home), "WANDB_CACHE_DIR": str(home)}
    return {**_RETRIES, **os.environ, **place}


def _own_logs(home: Path) -> Iterator[Path]:
    return home.glob("logs/debug-sync*.log")


def _errors(path: Path) -> Iterator[str]:
    """What the client could not do, from its log; an answer that it asked for again is no error yet."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            level, told = entry["level"], str(entry["msg"])
        except (ValueError, KeyError, TypeError):
            continue
        if level == "ERROR" and not told.startswith("api:"):
            yield told.splitlines()[0]


def _why(said: str, lost: list[str]) -> str:
    """What went wrong and what to do, without anything that looks like a key."""
    if "api key" in said.lower() and not lost:
        return "nobody is logged in to W&B; use wandb login, or put WANDB_API_KEY into the environment"
    if any("/artifacts/staging/" in line and "no such file" in line for line in lost):
        return (
            "a table was staged where the run directory lay when it was tracked, and is not there. Put it back, or log "
            "it here again: stage=score run=PATH tracker=wandb"
        )
    lines = lost or [line.removeprefix("wandb: ") for line in said.splitlines() if line.startswith("wandb:")]
    told = "; ".join(line.strip() for line in lines[-_SHOWN:] if line.strip()) or "wandb sync gave no reason"
    key = os.environ.get("WANDB_API_KEY")
    told = told.replace(key, "***") if key else told
    return f"{_KEY.sub('***', told)}. The same command tries again"
