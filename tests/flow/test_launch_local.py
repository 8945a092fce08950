"""Launches on this machine: what is lost when tasks, supervisors and disks fail, which is nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launching import SLOW, a_launch, combination, command, environment

from dsbif.corridor import run
from dsbif.errors import ConfigError
from dsbif.rundir import RunDir
from launch.claims import Claims
from launch.collect import troubles, wait
from launch.launchdir import Launch, LaunchDir, find_launch
from launch.local import alive, cancel, run_local, start_detached
from launch.plan import begin, cases_of
from launch.progress import launch_progress
from launch.resume import resume


@pytest.fixture(autouse=True)
def _tests_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])


def until(holds: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def slow(folder: Path, *words: str, **options: int) -> tuple[LaunchDir, Launch]:
    """A launch of six cases of ``SLOW``."""
    gates = folder / "gates"
    gates.mkdir(exist_ok=True)
    return a_launch(folder, *SLOW, "role=R4", f"+model.gates={gates}", *words, **options)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of recordings, by name."""
    return {path.name: path.read_bytes() for path in sorted((folder / "recordings").iterdir())}


def progress(launch: Launch) -> list[tuple[int, int, int]]:
    return [(job.done, job.failed, job.missing) for job in launch_progress(launch)]


def test_shards_give_the_same_bytes_as_one_run(tmp_path: Path) -> None:
    here, launch = a_launch(tmp_path / "a", "model=oracle", "role=R4", levels=("L1", "L2"), shards=3)
    assert [len(shard.test_case_ids) for shard in launch.shards] == [2] * 6
    run_local(here, launch, [shard.index for shard in launch.shards], workers=2)
    assert progress(launch) == [(6, 0, 0), (6, 0, 0)]
    for job, level in zip(launch.jobs, ("L1", "L2"), strict=True):
        plain = run(combination(tmp_path / "b", "model=oracle", "role=R4", f"level={level}").config).run_dir.path
        scored = run(job.run_config(stage="score")).run_dir.path
        assert tree(scored) == tree(plain)
        for name in ("manifest.jsonl", "measurements.jsonl", "verdicts.jsonl"):
            assert (scored / name).read_bytes() == (plain / name).read_bytes()
        assert not list((scored / ".claims").iterdir())


def test_a_task_that_raises_is_named_with_its_log_and_the_others_stand(tmp_path: Path) -> None:
    here, launch = slow(tmp_path)
    guilty = launch.shards[1].test_case_ids[0]
    (tmp_path / "gates" / "break").touch()
    run_local(here, launch, [0, 1], workers=1)
    assert progress(launch) == [(0, 0, 6)]
    told = troubles(here, launch)
    assert len(told) == 2
    assert "slow-L2-0000: failed: RuntimeError: told to break; 3 cases of it missing" in told[0]
    assert "RuntimeError: told to break" in told[0].splitlines()[-2]
    assert str(here.logs / "slow-L2-0000.log") in told[0]
    (tmp_path / "gates" / "break").unlink()
    launch, fresh = resume(here)
    assert {tid for index in fresh for tid in launch.shards[index].test_case_ids} >= {guilty}
    run_local(here, launch, fresh, workers=2)
    assert progress(launch) == [(6, 0, 0)]


def test_a_killed_task_is_started_again_and_loses_nothing(tmp_path: Path) -> None:
    here, launch = slow(tmp_path, shards=1)
    gate = tmp_path / "gates" / "hold-2"
    gate.touch()
    pid = start_detached(here)
    until((tmp_path / "gates" / "held").exists)
    first = int((tmp_path / "gates" / "held").read_text())
    assert first != pid
    assert progress(launch)[0][0] >= 1
    (tmp_path / "gates" / "held").unlink()
    os.kill(first, signal.SIGKILL)
    until((tmp_path / "gates" / "held").exists)
    second = int((tmp_path / "gates" / "held").read_text())
    assert second != first
    gate.unlink()
    until(lambda: not alive(here))
    assert progress(launch) == [(6, 0, 0)]
    outcome = here.outcome(0)
    assert outcome is not None
    assert (outcome.status, outcome.starts) == ("done", 2)


def test_a_case_that_kills_its_tasks_is_found_out_and_holds_up_no_other(tmp_path: Path) -> None:
    here, launch = slow(tmp_path, "model.rows=2", shards=1, max_requeues=9)
    guilty = launch.shards[0].test_case_ids[2]
    (tmp_path / "gates" / f"die-{guilty}").touch()
    run_local(here, launch, [0], workers=1)
    assert progress(launch) == [(5, 1, 0)]
    record = RunDir(launch.jobs[0].run_dir).rec(guilty).read_text()
    assert "tasks died on this case, one after the other (killed, out of memory, or a crash in native code)" in record


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR2, 128 + signal.SIGUSR2)]
)
def test_a_signal_drops_the_case_in_flight_and_leaves_word(tmp_path: Path, number: signal.Signals, status: int) -> None:
    here, launch = slow(tmp_path, shards=1)
    (tmp_path / "gates" / "hold-3").touch()
    task = subprocess.Popen([sys.executable, "-m", "launch.shard", str(here.path), "0"], env=environment())
    until((tmp_path / "gates" / "held").exists)
    task.send_signal(number)
    assert task.wait(60) == status
    outcome = here.outcome(0)
    assert outcome is not None
    assert (outcome.status, outcome.error) == ("interrupted", f"stopped by {number.name}")
    run_dir = launch.jobs[0].run_dir
    assert not Claims(run_dir, "").all()
    assert not list(run_dir.rglob("*.part"))
    done = progress(launch)[0][0]
    assert 1 <= done < 6
    (tmp_path / "gates" / "hold-3").unlink()
    run_local(here, launch, [0], workers=1)
    assert progress(launch) == [(6, 0, 0)]


def test_the_supervisors_death_is_survived_by_status_and_resume(tmp_path: Path) -> None:
    here, _ = slow(tmp_path, shards=2)
    (tmp_path / "gates" / "hold-2").touch()
    pid = start_detached(here)
    until((tmp_path / "gates" / "held").exists)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    held = int((tmp_path / "gates" / "held").read_text())
    os.kill(held, signal.SIGKILL)
    (tmp_path / "gates" / "hold-2").unlink()
    until(lambda: not alive(here))
    shown = command("launch.status", tmp_path, str(here.path), "--once")
    assert shown.returncode == 0, shown.stderr
    assert "slow-L2" in shown.stdout
    done = command("launch.resume", tmp_path, "latest")
    assert done.returncode == 0, done.stderr
    assert progress(here.read()) == [(6, 0, 0)]


def test_a_launch_that_does_not_wait_goes_on_alone_and_can_be_cancelled(tmp_path: Path) -> None:
    here, launch = slow(tmp_path, shards=1)
    (tmp_path / "gates" / "hold-1").touch()
    start_detached(here)
    until((tmp_path / "gates" / "held").exists)
    with pytest.raises(ConfigError, match=r"is already running here"):
        run_local(here, launch, [0], workers=1)
    with pytest.raises(ConfigError, match=r"still wait or run; see python -m launch\.status"):
        resume(here)
    assert cancel(here)
    assert not alive(here)
    assert not cancel(here)
    outcome = here.outcome(0)
    assert outcome is not None
    assert outcome.status == "interrupted"
    assert wait(here, launch, lambda: False)[0].missing > 0


def test_two_launches_in_one_second_share_nothing(tmp_path: Path) -> None:
    places = [a_launch(tmp_path, "model=silent", "role=R4")[0].path for _ in range(3)]
    assert len(set(places)) == 3


def test_a_launch_is_found_by_its_name_its_start_or_as_the_latest(tmp_path: Path) -> None:
    first, _ = a_launch(tmp_path, "model=silent", "role=R4")
    second, _ = a_launch(tmp_path, "model=silent", "role=R4")
    runs = tmp_path / "runs"
    assert find_launch("latest", runs).path == second.path
    assert find_launch(first.path.name, runs).path == first.path
    assert find_launch(str(first.path)).path == first.path
    with pytest.raises(ConfigError, match=r"'nonesuch' names no launch in"):
        find_launch("nonesuch", runs)
    with pytest.raises(ConfigError, match=r"names several launches"):
        find_launch("2", runs)
    with pytest.raises(ConfigError, match=r"there is no launch in"):
        find_launch("latest", tmp_path / "elsewhere")


@pytest.mark.parametrize("shards", ["many", "0", "-1"])
def test_a_number_of_shards_that_is_none(tmp_path: Path, shards: str) -> None:
    with pytest.raises(ConfigError, match=r"shards=.*wanted auto, or a number from 1"):
        begin("local", [combination(tmp_path, "model=silent", "role=R4")], shards, {})


def test_what_is_done_is_not_planned_again(tmp_path: Path) -> None:
    here, launch = a_launch(tmp_path, "model=silent", "role=R4", shards=2)
    run_local(here, launch, [0], workers=1)
    _, again = a_launch(tmp_path, "model=silent", "role=R4", shards=2)
    assert again.shards == ()  # the first task went on with what was nobody's
    assert len(cases_of(again.jobs[0])) == 6


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system wants root")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_an_error_and_leaves_nothing_half(tmp_path: Path, small_disk: Path) -> None:
    place = combination(tmp_path, "model=silent", "role=R4", f"paths.runs={small_disk}")
    here, launch = begin("local", [place], 1, {"workers": 1}, max_requeues=0)
    run_local(here, launch, [0], workers=1)
    done, failed, missing = progress(launch)[0]
    assert (failed, missing > 0) == (0, True)
    assert "No space left on device" in "\n".join(troubles(here, launch))
    run_dir = RunDir(launch.jobs[0].run_dir)
    assert not list(run_dir.path.rglob("*.part"))
    for tid in [case.test_case_id for case in cases_of(launch.jobs[0])]:
        assert run_dir.wav(tid).is_file() or not run_dir.rec(tid).is_file()
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    launch, fresh = resume(here)
    run_local(here, launch, fresh, workers=1)
    assert progress(launch) == [(6, 0, 0)]
    assert done < 6


@pytest.mark.parametrize("module", ["launch.status", "launch.resume", "launch.cancel", "launch.collect"])
def test_a_misspelt_word_is_named_and_help_is_given(tmp_path: Path, module: str) -> None:
    wrong = command(module, tmp_path, "--wiat")
    assert wrong.returncode == 2
    assert "'--wiat' is no flag of python -m" in wrong.stderr
    helped = command(module, tmp_path, "--help")
    assert (helped.returncode, f"python -m {module}" in helped.stdout) == (0, True)
