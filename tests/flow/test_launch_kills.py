"""Twenty kills at random moments over a few hundred cases: nothing is lost, nothing is there twice."""

import contextlib
import os
import random
import signal
import time
import wave
from pathlib import Path

import pytest
from launching import SLOW, a_launch, environment

from dsbif.errors import ConfigError
from dsbif.files import write_text
from dsbif.rundir import RunDir
from dsbif.session.recording import read_recording
from launch.collect import forget_tasks
from launch.launchdir import LaunchDir
from launch.local import alive, orphans, start_detached
from launch.plan import cases_of
from launch.processes import read_process
from launch.progress import launch_progress
from launch.resume import resume

KILLS = 20
CASES_A_KILL = 11
"""As many may be recorded from one kill to the next, so that no machine is done before the last one."""


def _allow(gates: Path, cases: int, recordings: Path) -> None:
    """That so many cases of all be recorded; see ``peers.slow``."""
    write_text(gates / "budget", f"{cases} {recordings}")


def _killable(here: LaunchDir) -> list[int]:
    found = read_process(here.supervisor)
    return [*orphans(here), *([found[0]] if found else [])]


def _kill_one(here: LaunchDir, chance: random.Random) -> bool:
    victims = _killable(here)
    if not victims:
        return False
    try:
        os.kill(chance.choice(victims), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def test_twenty_kills_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    chance = random.Random(5)
    words = (
        *SLOW, f"+model.gates={tmp_path}", "model.rows=1", "subset=full", "model.pacing.gap_s=0.2",
        "model.pacing.trailing_s=0.2",
    )  # fmt: skip
    here, launch = a_launch(tmp_path, *words, shards=4, workers=2, max_requeues=KILLS)
    assert len(cases_of(launch.jobs[0])) == 240
    recordings = RunDir(launch.jobs[0].run_dir).recordings
    _allow(tmp_path, CASES_A_KILL, recordings)
    start_detached(here)
    kills, deadline = 0, time.monotonic() + 900
    while launch_progress(launch)[0].missing and time.monotonic() < deadline:
        time.sleep(chance.uniform(0.1, 3.0))
        if kills < KILLS:
            kills += _kill_one(here, chance)
            _allow(tmp_path, (kills + 1) * CASES_A_KILL, recordings)
        else:
            (tmp_path / "budget").unlink(missing_ok=True)
        _reap()
        if not alive(here) and launch_progress(launch)[0].missing:
            with contextlib.suppress(ConfigError):  # a task that was just starting outlived its supervisor
                launch, _ = resume(here)
                start_detached(here)
    assert kills == KILLS
    _wait_until_over(here)
    forget_tasks(here, launch)
    _whole(RunDir(launch.jobs[0].run_dir), [case.test_case_id for case in cases_of(launch.jobs[0])])


def _wait_until_over(here: LaunchDir) -> None:
    deadline = time.monotonic() + 120
    while alive(here):
        assert time.monotonic() < deadline
        time.sleep(0.1)
        _reap()


def _whole(run_dir: RunDir, wanted: list[str]) -> None:
    """Every case once, its record and its sound of one length, and no other file but what the killed had begun."""
    names = sorted(path.name for path in run_dir.recordings.iterdir() if not path.name.startswith("."))
    assert names == sorted([f"{tid}.rec.json" for tid in wanted] + [f"{tid}.stereo.wav" for tid in wanted])
    for tid in wanted:
        record = read_recording(run_dir.rec(tid))
        assert (record.test_case_id, record.status) == (tid, "ok")
        with wave.open(str(run_dir.wav(tid))) as sound:
            assert (sound.getnframes(), sound.getnchannels()) == (record.samples, 2)
