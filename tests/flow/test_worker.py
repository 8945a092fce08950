"""Agents in a process of their own: the same results, and every way in which such a process can end."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from builders import EnergyWatch, a_case, a_turn
from command import dsbif
from conftest import REPOSITORY
from peers.worked import Worked, WorkedTurn

from dsbif.agents.target import Target
from dsbif.agents.worker import LockstepWorker, Patience, TurnWorker, start_worker
from dsbif.errors import AgentBusyError, AgentError, AgentLostError, ConfigError
from dsbif.session.agent import LockstepAgent, TurnAgent
from dsbif.session.lockstep import LockstepDriver
from dsbif.session.running import Episode, Stage, Take
from dsbif.session.turn import TurnDriver
from dsbif.session.user import Pacing

PACING = Pacing(gap_s=0.4, trailing_s=0.8, onset_timeout_s=1.0)
LOCKSTEP, TURN = "peers.worked:Worked", "peers.worked:WorkedTurn"
BRIEF = Patience(start_s=60, step_s=1.0, close_s=60)


def _episode(tid: str, prompt: str = "fine") -> Episode:
    case = a_case(test_case_id=tid, system_prompt=prompt, turn1=a_turn(9600), turn2=a_turn(12_000))
    rng = np.random.default_rng(sum(tid.encode()))
    turns = [(rng.standard_normal(samples) * 0.1).astype(np.float32) for samples in (9600, 12_000)]
    return Episode(case, *turns)


def _takes(agent: LockstepAgent, *episodes: Episode) -> dict[str, Take]:
    takes: list[Take] = []
    LockstepDriver(agent, Stage(PACING, EnergyWatch, seed=7), takes.append).run(episodes)
    return {take.recording.test_case_id: take for take in takes}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An interpreter that has numpy and nothing else."""
    home = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    installed = Path(np.__file__).parent.parent
    for name in ("numpy", "numpy.libs"):
        if (installed / name).is_dir():
            (packages / name).symlink_to(installed / name)
    yield str(home / "bin" / "python")
    shutil.rmtree(home)


def _lockstep(logs: Path, rows: int = 1, patience: Patience | None = None, **settings: object) -> LockstepWorker:
    agent = start_worker(sys.executable, Target(LOCKSTEP, settings, None, rows), logs, patience)
    assert isinstance(agent, LockstepWorker)
    assert isinstance(agent, LockstepAgent)
    return agent


def _log(logs: Path) -> str:
    (path,) = logs.iterdir()
    return path.read_bytes().decode("utf-8", "replace")


def test_it_gives_what_the_agent_gives_in_this_process(logs: Path, bare: str) -> None:
    episodes = [_episode("a"), _episode("bb"), _episode("ccc"), _episode("dddd", "print")]
    agent = start_worker(bare, Target(LOCKSTEP, {}, None, 3), logs)
    assert isinstance(agent, LockstepWorker)
    there, here = _takes(agent, *episodes), _takes(Worked(3), *episodes)
    for tid, take in there.items():
        assert np.array_equal(take.stereo, here[tid].stereo)
        for part in ("emissions", "transcript", "notes", "interruptions", "status", "samples", "conditioning"):
            assert getattr(take.recording, part) == getattr(here[tid].recording, part)
    assert there["a"].recording.transcript.pieces[0].text == "Wörd „x“\u2028 "
    versions = there["a"].recording.versions
    assert versions["loaded"] == ""
    assert versions["worker"] == f"python {sys.version.split()[0]}, numpy {np.__version__}"
    agent.close()
    agent.close()
    assert "DSBWDSBW" in _log(logs)
    assert "closed in good order" in _log(logs)
    with pytest.raises(ProcessLookupError):
        os.kill(int(versions["pid"]), 0)


def test_a_turn_agent_too(logs: Path, tmp_path: Path) -> None:
    agent = start_worker(sys.executable, Target(TURN, {"once": str(tmp_path / "once")}), logs)
    assert isinstance(agent, TurnWorker)
    assert isinstance(agent, TurnAgent)
    assert (agent.facts.name, agent.facts.conditioning) == ("worked-turn", "partial")
    user = np.arange(10_000, dtype=np.float32) / 10_000
    here, there = WorkedTurn().reply("hö", user, 3), agent.reply("hö", user, 3)
    assert np.array_equal(here.pcm, there.pcm)
    assert (there.text, there.compute_s, list(there.notes)) == ("hö 3", 0.25, list(here.notes))
    with pytest.raises(AgentBusyError, match="no session free") as busy:
        agent.reply("busy", user, 3)
    assert busy.value.retry_after_s == 1.5
    takes: list[Take] = []
    TurnDriver(agent, Stage(PACING, EnergyWatch), takes.append).run([_episode("a", "once-kill"), _episode("b")])
    assert [(take.recording.status, take.recording.flags) for take in takes] == [("ok", ("retried",)), ("ok", ())]
    agent.close()
    agent.close()


@pytest.mark.parametrize("way", ["kill", "hang"])
def test_a_process_that_goes_away_loses_no_case(way: str, logs: Path, tmp_path: Path) -> None:
    agent = _lockstep(logs, 2, BRIEF, once=str(tmp_path / "once"))
    first = agent.facts.versions["pid"]
    takes = _takes(agent, _episode("a", f"once-{way}"), _episode("bb"), _episode("ccc"))
    assert {tid: take.recording.status for tid, take in takes.items()} == dict.fromkeys(("a", "bb", "ccc"), "ok")
    assert takes["a"].recording.flags == ("retried",)
    whole = _takes(Worked(2), _episode("a"), _episode("bb"), _episode("ccc"))
    assert all(np.array_equal(take.stereo, whole[tid].stereo) for tid, take in takes.items())
    with pytest.raises(ProcessLookupError):
        os.kill(int(first), 0)
    agent.close()


def test_a_process_that_always_goes_away_loses_its_case_alone(logs: Path) -> None:
    takes = _takes(agent := _lockstep(logs), _episode("a", "kill"), _episode("bb"))
    record = takes["a"].recording
    assert (record.status, record.flags) == ("agent_error", ("retried",))
    (path,) = logs.iterdir()
    assert "the process of peers.worked:Worked was killed by SIGKILL" in record.error
    assert f"its last words, in {path}: " in record.error
    assert record.error.endswith("last words")
    assert takes["bb"].recording.status == "ok"
    agent.close()


def test_a_hang_is_told_with_its_time_limit(logs: Path) -> None:
    agent = _lockstep(logs, 1, BRIEF)
    agent.start(0, "hang", 0)
    frame = np.zeros((1, 960), np.float32)
    agent.step(frame, [True])
    agent.step(frame, [True])
    with pytest.raises(AgentLostError, match=r"did not answer within 1 s; its last words, in .*\.log: "):
        agent.step(frame, [True])
    with pytest.raises(AgentLostError, match="has ended"):
        agent.step(frame, [True])
    agent.stop(0)
    agent.start(0, "fine", 0)
    assert len(agent.step(frame, [True])[0]) == 2
    agent.close()


@pytest.mark.parametrize(("prompt", "message"), [("raise", "RuntimeError: row is bad"), ("own", "in its own words")])
def test_an_exception_fails_its_case_and_leaves_the_process(prompt: str, message: str, logs: Path) -> None:
    agent = _lockstep(logs, 2)
    takes = _takes(agent, _episode("a", prompt), _episode("bb"), _episode("ccc"))
    assert takes["a"].recording.error == message
    assert {takes[tid].recording.status for tid in ("bb", "ccc")} == {"ok"}
    assert {take.recording.versions["pid"] for take in takes.values()} == {agent.facts.versions["pid"]}
    assert "Traceback" in _log(logs)
    agent.close()


def test_an_exceptions_row_comes_along(logs: Path) -> None:
    agent = _lockstep(logs, 2)
    for row in range(2):
        agent.start(row, "raise" if row else "fine", 0)
    frame = np.zeros((2, 960), np.float32)
    agent.step(frame, [True, True])
    agent.step(frame, [True, True])
    with pytest.raises(AgentError, match="RuntimeError: row is bad") as raised:
        agent.step(frame, [True, True])
    assert raised.value.row == 1  # type: ignore[attr-defined]
    agent.close()


def test_last_words_hold_no_secret(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKED_API_KEY", "sk-5f1d8a77")
    agent = _lockstep(logs)
    agent.start(0, "leak", 0)
    frame = np.zeros((1, 960), np.float32)
    agent.step(frame, [True])
    agent.step(frame, [True])
    with pytest.raises(AgentLostError, match=r"ended with status 3; .*key \*\*\*$"):
        agent.step(frame, [True])


@pytest.mark.parametrize(
    ("fail", "message"),
    [
        ("config", "^pip install something$"),
        (
            "plain",
            r"could not be made under .*python.*: RuntimeError: out of memory\. Everything it said is in .*\.log",
        ),
        ("die", r"could not be made .* ended with status 7; .*dying words"),
        ("hang", r"could not be made .* did not answer within 5 s"),
    ],
)
def test_an_agent_that_cannot_be_made_says_why(fail: str, message: str, logs: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        _lockstep(logs, 1, Patience(start_s=5 if fail == "hang" else 60), fail=fail)


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("/no/such/python", "model.python names /no/such/python, which is no interpreter"),
        ("/etc/passwd", "model.python names /etc/passwd, which is no interpreter"),
        ("/bin/false", r"could not be made under /bin/false: .* ended with status 1"),
    ],
)
def test_what_is_no_interpreter_is_named(python: str, message: str, logs: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        start_worker(python, Target(LOCKSTEP), logs)


def _script(path: Path, body: str) -> str:
    """An interpreter of a kind: its first two descriptors beyond the error stream are the worker's."""
    path.write_text(f"#!{sys.executable}\nimport json, re, os, struct, sys\n{body}")
    path.chmod(0o755)
    return str(path)


def test_another_protocol_is_told_with_both_versions(tmp_path: Path, logs: Path) -> None:
    python = _script(
        tmp_path / "python",
        "writing = json.loads(re.search(r'= (\\[.*\\])\\n', sys.argv[-1])[1])[3]\n"
        'words = b\'{"op":"hello","protocol":99,"python":"3.12.1","numpy":"2.9.0"}\'\n'
        "os.write(writing, b'DSBW' + struct.pack('<IQ', len(words), 0) + words)\n",
    )
    with pytest.raises(
        ConfigError, match=r"\(Python 3\.12\.1, numpy 2\.9\.0\) speaks worker protocol 99, this process speaks 1"
    ):
        start_worker(python, Target(LOCKSTEP), logs)


def test_noise_is_no_frame(tmp_path: Path, logs: Path) -> None:
    python = _script(
        tmp_path / "python",
        "os.write(json.loads(re.search(r'= (\\[.*\\])\\n', sys.argv[-1])[1])[3], b'Segmentation fault')\n",
    )
    with pytest.raises(ConfigError, match="answered with no frame"):
        start_worker(python, Target(LOCKSTEP), logs)


def test_an_interpreter_without_numpy_is_told(tmp_path: Path, logs: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "empty")], check=True)
    with pytest.raises(ConfigError, match="No module named 'numpy'"):
        start_worker(str(tmp_path / "empty" / "bin" / "python"), Target(LOCKSTEP), logs)


@pytest.mark.parametrize(
    ("target", "message"),
    [("peers.own:LiveEcho", "is a live agent, a small client"), ("json:JSONEncoder", "is no agent")],
)
def test_only_lockstep_and_turn_agents_live_there(target: str, message: str, logs: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        start_worker(sys.executable, Target(target), logs)


def test_equal_start_is_passed_on(logs: Path) -> None:
    agent = _lockstep(logs, equal_start=True)
    assert agent.equal_start
    agent.close()


@pytest.mark.parametrize("when", ["idle", "in-a-step"])
def test_the_process_ends_with_its_parent(when: str, tmp_path: Path, logs: Path) -> None:
    found = tmp_path / "pid"
    parent = subprocess.Popen(
        [sys.executable, str(REPOSITORY / "tests" / "peers" / "held.py"), str(found), str(logs), when],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "tests")},
    )
    _until(found.exists)
    child = int(found.read_text())
    os.kill(child, 0)
    parent.send_signal(signal.SIGKILL)
    parent.wait(60)
    _until(lambda: not _lives(child))


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _until(true: "object") -> None:
    deadline = time.monotonic() + 60
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_run_under_another_interpreter(tmp_path: Path, bare: str) -> None:
    words = ("model=custom", "model.target=mine:Worked", f"+model.python={bare}", "model.rows=2", "role=R4")
    (tmp_path / "mine.py").write_text((REPOSITORY / "tests" / "peers" / "worked.py").read_text())
    done = dsbif(tmp_path, *words)
    assert "Traceback" not in done.stderr
    records = list(tmp_path.glob("runs/*/recordings/*.rec.json"))
    assert records
    assert all('"loaded": ""' in path.read_text() for path in records)
    assert list(tmp_path.glob("runs/*/logs/worker-Worked-*.log"))
    wrong = dsbif(tmp_path, *words[:2], "+model.python=nowhere", "role=R4", "run=other")
    assert wrong.returncode == 2
    assert "model.python names nowhere, which is no interpreter" in " ".join(wrong.stderr.split())


def test_time_limits_are_numbers(tmp_path: Path) -> None:
    words = ("model=custom", "model.target=peers.worked:Worked", f"+model.python={sys.executable}", "role=R4")
    done = dsbif(tmp_path, *words, "+model.step_timeout_s=never", PYTHONPATH=str(REPOSITORY / "tests"))
    assert done.returncode == 2
    assert "model.step_timeout_s is 'never'; wanted seconds above 0" in " ".join(done.stderr.split())
