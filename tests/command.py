"""The command line as a user types it, for tests."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import ASSETS

BASE = ("voice=espeak", "tracker=none", "workers=1", f"paths.assets={ASSETS}")
FEW = ("model=oracle", "role=R4")
"""Six cases, none of which needs a reading back."""


def dsbif(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dsbif.run", *BASE, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "120", **environment},
    )


def summary(folder: Path, name: str) -> dict[str, Any]:
    (path,) = folder.glob(f"runs/{name}/summary.json")
    return json.loads(path.read_text())  # type: ignore[no-any-return]
