"""Grids on a real Slurm: complete, the same bytes as on one machine, and whole again after everything went wrong."""

import re
import signal
from pathlib import Path

from command import BASE
from slurm.cluster import Cluster, wait_until
from slurm.launches import SLURM, Place, files_of

GRID = ("-m", "model=silent,babble", "level=L0,L1,L2", "role=R4")
A_NODE = ("hydra.launcher.cpus_per_task=16", "hydra.launcher.gpus_per_task=8")
"""So much that a node holds one task."""


def test_a_grid_is_complete_and_the_same_bytes_as_on_one_machine(cluster: Cluster, tmp_path: Path) -> None:
    spread = Place(tmp_path / "spread", cluster)
    printed = spread.dsbif(*GRID, *SLURM, *A_NODE, "shards=4")
    assert len(spread.launch.shards) == 24
    assert {spread.outcome(shard.index).status for shard in spread.launch.shards} == {"done"}
    jobs = cluster.call("scontrol", "show", "job", spread.array())
    assert set(re.findall(r"BatchHost=(\w+)", jobs)) == {"n1", "n2", "n3", "n4"}
    assert set(re.findall(r"JobState=(\w+)", jobs)) == {"COMPLETED"}
    assert "JobName=silent-L0-0000 " in jobs.replace("\n", " ")
    assert "IAS of all runs" in printed

    alone = Place(tmp_path / "alone", cluster)
    alone.dsbif(*GRID, f"paths.corpus={spread.folder / 'data' / 'corpus'}")
    assert len(alone.runs()) == 6
    assert [run.name for run in spread.runs()] == [run.name for run in alone.runs()]
    for there, here in zip(spread.runs(), alone.runs(), strict=True):
        assert files_of(there) == files_of(here)


def test_whatever_fails_every_case_is_done_or_listed_and_a_resume_completes(cluster: Cluster, tmp_path: Path) -> None:
    place = Place(tmp_path, cluster)
    (place.gates / "raise-0").touch()
    for shard in range(1, 6):
        (place.gates / f"hold-{shard}").write_text("1")  # each finishes a case before
    submitter = place.start("dsbif.run", *BASE, *place.gated("subset=full", "level=L2"), *SLURM, "shards=6")
    wait_until(lambda: all(place.held(shard) for shard in range(1, 6)), "five tasks hold")
    submitter.send_signal(signal.SIGINT)
    printed, _ = submitter.communicate(timeout=60)
    assert submitter.returncode == 130
    assert f"the tasks of {place.here.path.name} go on" in printed

    node = break_everything(place)
    let_go(place)
    place.here.write(
        place.launch.model_copy(update={"claim_timeout_s": 1.0})
    )  # the killed one's claims are old at once
    printed = place.call("launch.collect", status=1)
    assert "gated-L2-0000: failed: RuntimeError: this agent was asked to fail" in printed
    assert f"log  {place.here.logs}/gated-L2-0000.log" in printed
    assert "gated-L2-0001: vanished (process" in printed
    assert [place.outcome(shard).status for shard in range(2, 6)] == ["done"] * 4
    before = place.recorded()
    assert 20 <= len(before) / 2 < 30

    (place.gates / "raise-0").unlink()
    cluster.return_node(node)
    assert "30/30" in place.call("launch.resume")
    after = place.recorded()
    assert len(after) == 60
    assert {path: after[path] for path in before} == before
    finished = (place.gates / "finished").read_text().split()
    assert len(finished) == len(set(finished)) == 30


def break_everything(place: Place) -> str:
    """Task 0 raises, 1 is killed, 2 nears its time limit, 3 is preempted; returns the node of 4, which is lost."""
    cluster, array = place.cluster, place.array()
    wait_until(lambda: place.outcome(0).status == "failed", "the first task has raised")
    place.kill(1)
    cluster.call("scontrol", "update", f"JobId={array}_2", "TimeLimit=1")
    cluster.call("scontrol", "requeue", f"{array}_3")
    for shard in (2, 3):
        wait_until(lambda job=f"{array}_{shard}": cluster.queue().get(job) == "PENDING", f"{shard} is queued again")
    assert (place.outcome(2).error, place.outcome(2).requeues) == ("stopped by SIGUSR2", 1)
    assert (place.outcome(3).error, place.outcome(3).requeues) == ("stopped by SIGTERM", 0)
    node = cluster.call("squeue", "--noheader", f"--jobs={array}_4", "--format=%N").strip()
    cluster.lose_node(node)
    cluster.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")
    wait_until(lambda: cluster.queue().get(f"{array}_4") == "PENDING", "the lost task is queued again")
    return node


def let_go(place: Place) -> None:
    """Open every gate, start what waits at once, and wait until all has ended."""
    cluster = place.cluster
    for gate in place.gates.glob("hold-*"):
        gate.unlink()
    cluster.call("scontrol", "update", f"JobId={place.array()}_2", "TimeLimit=30")
    for job, state in cluster.queue().items():
        if state == "PENDING":  # Slurm would let them wait for two minutes
            cluster.call("scontrol", "update", f"JobId={job}", "StartTime=now")
    wait_until(lambda: not cluster.queue(), "every task has ended")


def test_a_launch_outlives_who_submitted_it(cluster: Cluster, tmp_path: Path) -> None:
    place = Place(tmp_path, cluster)
    for shard in range(2):
        (place.gates / f"hold-{shard}").write_text("1")
    submitter = place.start("dsbif.run", *BASE, *place.gated("level=L1"), *SLURM, "shards=2")
    wait_until(lambda: place.held(0) and place.held(1), "both tasks hold")
    submitter.kill()
    submitter.communicate()

    assert re.search(r"gated-L1.* 2 ", place.call("launch.status", "--once"))
    assert "still wait or run" in place.call("launch.resume", status=2)
    array = place.array()
    assert f"cancelled: {array}" in place.call("launch.cancel")
    wait_until(lambda: not cluster.queue(), "the tasks have ended")
    assert {place.outcome(shard).error for shard in range(2)} == {"stopped by SIGTERM"}
    assert [place.outcome(shard).requeues for shard in range(2)] == [0, 0]
    for gate in place.gates.glob("hold-*"):
        gate.unlink()
    assert "6/6" in place.call("launch.resume")
    assert len(set((place.gates / "finished").read_text().split())) == 6


def test_a_dry_run_prints_the_batch_files_and_submits_nothing(cluster: Cluster, tmp_path: Path) -> None:
    place = Place(tmp_path, cluster)
    own = ("hydra.launcher.per_model={babble:{gpus_per_task:0,timeout_min:5}}", "launch.dry_run=true", "shards=2")
    printed = place.dsbif("model=silent,babble", "level=L0", "role=R4", *SLURM, *own)
    assert "silent-L0-0000  3 cases" in printed
    assert re.findall(r"--(?:array|gres|job-name|time)=\S+", printed) == [
        "--array=0-1%2",
        "--gres=gpu:h100:1",
        "--job-name=dsbif-silent-L0",
        "--time=30",
        "--array=2-3%2",
        "--job-name=dsbif-babble-L0",
        "--time=5",
    ]
    assert cluster.queue() == {}
    assert list((place.folder / "runs" / ".launch").iterdir()) == []
    assert not any(path.name == "recordings" for run in place.runs() for path in run.iterdir())


def test_words_that_a_launcher_cannot_use(cluster: Cluster, tmp_path: Path) -> None:
    place = Place(tmp_path, cluster)
    assert "Did you mean 'partition'" in place.dsbif("hydra/launcher=slurm", "hydra.launcher.partitoin=x", status=2)
    assert "hydra.launcher.cpus_per_task" in place.dsbif(*SLURM, "hydra.launcher.cpus_per_task=0", status=2)
    assert "add hydra/launcher=slurm" in place.dsbif("shards=2", status=2)
    assert "sbatch refused" in place.dsbif(*SLURM, "hydra.launcher.partition=none", "model=silent", status=2)
    assert cluster.queue() == {}
