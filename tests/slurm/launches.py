"""Launches on the throw-away cluster, by the commands that a user types."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from command import BASE
from conftest import REPOSITORY
from slurm.cluster import Cluster

from launch.launchdir import Launch, LaunchDir, ShardOutcome

SLURM = (
    "hydra/launcher=slurm",
    "hydra.launcher.cpus_per_task=1",
    "hydra.launcher.mem_gb=1",
    "hydra.launcher.timeout_min=30",
    "hydra.launcher.signal_delay_s=50",
)


class Place:
    """A folder with one user's runs."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder = folder
        self.cluster = cluster
        self.gates = folder / "gates"
        self.gates.mkdir(parents=True)

    @property
    def environment(self) -> dict[str, str]:
        paths = f"{REPOSITORY}:{REPOSITORY / 'tests'}"
        return {**self.cluster.environment, "PYTHONPATH": paths, "COLUMNS": "160", "OMP_NUM_THREADS": "1"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def call(self, *words: str, status: int = 0) -> str:
        """What a command prints; its exit status is the test's."""
        process = self.start(*words)
        printed, _ = process.communicate(timeout=600)
        assert process.returncode == status, printed
        return printed

    def dsbif(self, *words: str, status: int = 0) -> str:
        return self.call("dsbif.run", *BASE, *words, status=status)

    def gated(self, *words: str) -> tuple[str, ...]:
        """The words of a launch whose agent the test holds and breaks."""
        own = ("model=custom", "model.target=peers.gated:GatedAgent", "model.name=gated", f"+model.gates={self.gates}")
        return (*own, "role=R4", *words)

    @property
    def here(self) -> LaunchDir:
        (path,) = (self.folder / "runs" / ".launch").iterdir()
        return LaunchDir(path)

    @property
    def launch(self) -> Launch:
        return self.here.read()

    def outcome(self, shard: int) -> ShardOutcome:
        found = self.here.outcome(shard)
        assert found is not None, f"shard {shard} never started"
        return found

    def array(self) -> str:
        """The array job id of the launch's one array."""
        (script,) = (self.here.path / "slurm").glob("*.sh")
        return script.stem

    def held(self, shard: int) -> int:
        """The process id of a task that waits at its gate; 0 before it does."""
        try:
            return int((self.gates / f"held-{shard}").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def kill(self, shard: int) -> None:
        os.kill(self.held(shard), signal.SIGKILL)

    def recorded(self) -> dict[Path, int]:
        """When each file of the one run's recordings was written, in nanoseconds."""
        (run,) = self.runs()
        return {path: path.stat().st_mtime_ns for path in (run / "recordings").iterdir()}

    def runs(self) -> list[Path]:
        return sorted(path for path in (self.folder / "runs").iterdir() if not path.name.startswith("."))


def files_of(run: Path) -> dict[str, bytes]:
    """What must not depend on where a run was made."""
    seams = [run / "manifest.jsonl", run / "measurements.jsonl", run / "verdicts.jsonl"]
    return {path.name: path.read_bytes() for path in (*seams, *sorted((run / "recordings").iterdir()))}
