"""Runs that were tracked offline, uploaded to Weights & Biases later, from a machine that reaches it.

W&B's own ``wandb sync`` does it: it goes on where an upload was cut off and skips what it has uploaded. A run that was
scored again was logged again under the same id; only the newest log is uploaded, since logs of one id do not merge.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dsbif.errors import ConfigError

_PATIENCE_S = 1800.0
_SHOWN = 3
_KEY = re.compile(r"[0-9A-Za-z_-]{40,}")


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
    """Whether W&B's client has noted that it uploaded a log whole."""
    return any(log.glob("*.wandb.synced"))


def push(log: Path, words: Sequence[str] = ()) -> None:
    """Upload one offline log.

    Args:
        log: an ``offline-run-…`` folder.
        words: further words for ``wandb sync``.

    Raises:
        ConfigError: the package is not installed, nobody is logged in, W&B cannot be reached or refuses.
    """
    # Absolute: the client's service works in another folder, and with a relative path it leaves files out unasked.
    command = [sys.executable, "-m", "wandb", "sync", *words, str(log.resolve())]
    home = log.parent.resolve()
    environment = {
        **os.environ,
        "WANDB_DIR": str(home.parent),
        "WANDB_DATA_DIR": str(home),
        "WANDB_CACHE_DIR": str(home),
    }
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S, env=environment,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{log} was not uploaded within {_PATIENCE_S:g} s; the same command goes on.") from error
    if done.returncode or not is_pushed(log):
        raise ConfigError(f"{log} is not uploaded: {_why(done.stdout + done.stderr)}. The files are complete; the same "
                          "command tries again.")  # fmt: skip


def _why(said: str) -> str:
    """The end of what W&B's client said, without anything that looks like a key."""
    if "No module named wandb" in said:
        return 'the package is missing: pip install "dsbif[wandb]"'
    lines = [line.removeprefix("wandb: ").strip() for line in said.splitlines() if line.startswith("wandb:")]
    told = "; ".join(line for line in lines[-_SHOWN:] if line) or "wandb sync failed and gave no reason"
    return _KEY.sub("***", told)
