"""A real Slurm on loopback under one directory, for tests: munge, slurmctld and a slurmd a node, stopped by pid.

Ports are free ones, so several clusters bear one another on a machine. No systemd and no slurmdbd, hence no ``sacct``.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
_CONF = """\
ClusterName=throwaway
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
SlurmdTimeout=3
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0
GresTypes=gpu
ReturnToService=2
SlurmdParameters=config_overrides
JobRequeue=1
KillWait=5
MinJobAge=300
MaxArraySize=1001
PriorityType=priority/basic
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
{nodes}
PartitionName=gpu Nodes=n[1-{count}] Default=YES MaxTime=INFINITE State=UP
"""
_NODE = "NodeName=n{n} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=20000 Gres=gpu:h100:8"
_PATIENCE_S = 240.0


def wait_until(holds: Callable[[], object], what: str, patience_s: float = _PATIENCE_S) -> None:
    """Ask again and again, ten times a second."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"waited {patience_s} s: {what}"
        time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster of nodes ``n1`` … with eight pretended H100 each."""

    folder: Path
    nodes: int = 4

    @property
    def environment(self) -> dict[str, str]:
        """What its daemons, clients and users need."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def call(self, *command: str) -> str:
        """What a client prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
        return done.stdout

    def queue(self) -> dict[str, str]:
        """State of every job that has not ended, by ``<array>_<index>``."""
        lines = self.call("squeue", "--noheader", "--array", "--format=%F_%K %T").splitlines()
        return dict(line.split() for line in lines)

    def start(self) -> None:
        """Start everything and wait until the nodes are idle."""
        for name in ("state", "spool", "log", "run", "munge"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        (self.folder / "munge").chmod(0o755)
        self._write_configuration()
        self._start_munge()
        self._daemon("slurmctld", "-c")
        for n in range(1, self.nodes + 1):
            self._daemon("slurmd", "-N", f"n{n}")
        wait_until(self._all_idle, "the nodes are idle")

    def stop(self) -> None:
        """Stop the daemons by their pids, and whatever they still ran."""
        self._end("slurmctld")  # before the nodes, else it would see them fail and queue their jobs again
        for n in range(1, self.nodes + 1):
            self.lose_node(f"n{n}")
        self._end("munged")

    def _end(self, program: str) -> None:
        pid = int((self.folder / "run" / f"{program}.pid").read_text())
        _signal(pid, signal.SIGTERM)
        wait_until(lambda: _state(pid) in ("", "Z"), f"{program} has ended")

    def lose_node(self, node: str) -> None:
        """As if the machine had lost its power: its daemon and whatever ran on it are gone at once."""
        tasks = [pid for pid in _all_pids() if self._runs_on(pid, node)]
        keepers = {parent for pid in tasks if (parent := _parent(pid)) and _command(parent) == "slurmstepd"}
        daemon = int((self.folder / "run" / f"slurmd.{node}.pid").read_text())
        for pid in (daemon, *keepers, *tasks):
            _signal(pid, signal.SIGKILL)

    def return_node(self, node: str) -> None:
        """Switch a lost node on again."""
        self._daemon("slurmd", "-N", node)
        wait_until(self._all_idle_or_busy, f"{node} is back")

    def _write_configuration(self) -> None:
        ports = _free_ports(self.nodes + 1)
        nodes = "\n".join(_NODE.format(n=n, port=ports[n]) for n in range(1, self.nodes + 1))
        text = _CONF.format(folder=self.folder, ports=ports, nodes=nodes, count=self.nodes)
        (self.folder / "slurm.conf").write_text(text)
        for gpu in range(8):  # plain files are refused as gres; these are clones of /dev/null
            os.mknod(self.folder / "run" / f"nvidia{gpu}", 0o666 | 0o020000, os.makedev(1, 3))
        (self.folder / "gres.conf").write_text(
            f"AutoDetect=off\nNodeName=n[1-{self.nodes}] Name=gpu Type=h100 File={self.folder}/run/nvidia[0-7]\n"
        )

    def _start_munge(self) -> None:
        home = self.folder / "munge"
        key = home / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self._daemon(
            "munged",
            "--force",  # a test's folder lies below one that others may not enter; root may
            f"--key-file={key}",
            f"--socket={home}/socket",
            f"--pid-file={self.folder}/run/munged.pid",
            f"--log-file={self.folder}/log/munged.log",
            f"--seed-file={home}/seed",
        )

    def _daemon(self, *command: str) -> None:
        said = self.folder / "log" / "start.txt"
        with said.open("ab") as log:
            done = subprocess.run(
                command, env=self.environment, timeout=60, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
            )
        assert done.returncode == 0, f"{command}: {said.read_text()}"

    def _states(self) -> list[str]:
        found = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--format=%T"],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return [state.rstrip("*") for state in found.stdout.split()]  # a star: it does not answer now

    def _all_idle(self) -> bool:
        return self._states() == ["idle"] * self.nodes

    def _all_idle_or_busy(self) -> bool:
        states = self._states()
        return len(states) == self.nodes and set(states) <= {"idle", "mixed", "allocated"}

    def _runs_on(self, pid: int, node: str) -> bool:
        try:
            told = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        conf = f"SLURM_CONF={self.folder}/slurm.conf"
        return f"SLURMD_NODENAME={node}".encode() in told and conf.encode() in told


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all different."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def _all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """State, parent and so on, as the kernel tells; empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int:
    return int((_stat(pid) or ["", "0"])[1])


def _state(pid: int) -> str:
    return (_stat(pid) or [""])[0]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
