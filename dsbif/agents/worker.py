"""An agent in a process of its own, the parent's side: starts the child, speaks with it, and says how it ended.

The child runs under an interpreter of the user's choice (``model.python``), which needs numpy and what the agent
needs, nothing of dsbif's. Of this process's import path it gets what a script's folder or PYTHONPATH put there, never
installed packages, which are another interpreter's; dsbif itself is the same on both sides.

Everything the child prints is in one file. A child that ends, or does not answer in time, is an ``AgentLostError`` with
its last words; the next ``start`` or ``reply`` then gets a fresh one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsbif.agents.framing import PROTOCOL, Channel, EndError, FrameError, LateError
from dsbif.agents.target import Target
from dsbif.agents.worker_child import emissions_from_wire, failure_from_wire
from dsbif.errors import AgentError, AgentLostError, ConfigError
from dsbif.session.agent import AgentFacts, Emission, LockstepAgent, Note, Reply, TurnAgent

if TYPE_CHECKING:
    from dsbif.agents.framing import Floats
    from dsbif.session.pcm import Pcm

_PACKAGE = Path(__file__).resolve().parent.parent
_LAST_LINES = 5
_LAST_CHARACTERS = 600
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_BOOT = """
import sys
extra, package, reading, writing, parent = %s
sys.path[:] = extra + [path for path in sys.path if path]
if sys.version_info < (3, 10):
    sys.exit("dsbif's workers need Python 3.10 or newer; this is " + sys.version.split()[0])
import importlib.util
spec = importlib.util.spec_from_file_location("dsbif", package + "/__init__.py", submodule_search_locations=[package])
sys.modules["dsbif"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from dsbif.agents.worker_child import main
main(reading, writing, parent)
"""
"""What the child runs. dsbif is loaded from its own folder, whatever else lies in the folder around it."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a child may take, in seconds: to make the agent, to answer anything else, to close."""

    start_s: float = 1800.0
    step_s: float = 300.0
    close_s: float = 30.0


def start_worker(
    python: str, target: Target, logs: Path, patience: Patience | None = None
) -> LockstepAgent | TurnAgent:
    """The agent, made in a process of its own.

    Args:
        python: the interpreter: a path, or a name that is looked for in PATH.
        target: what to make there.
        logs: the folder of the file that gets everything the process prints.
        patience: how long it may take.

    Raises:
        ConfigError: no such interpreter, it cannot run a worker, or the agent cannot be made there or is a live one.
    """
    child = _Child(_interpreter(python), target, logs, patience or Patience())
    ready = child.begin()
    if ready["kind"] == "lockstep":
        return LockstepWorker(child, ready)
    if ready["kind"] == "turn":
        return TurnWorker(child, ready)
    child.close()
    if ready["kind"] == "live":
        raise ConfigError(
            f"{target.agent} is a live agent, a small client that needs no other interpreter: leave model.python out."
        )
    raise ConfigError(
        f"{target.agent} is no agent: it has neither start, step and stop (lockstep) nor reply (turn), or lacks facts "
        "or close. See docs/own-agent.md."
    )


def _interpreter(python: str) -> str:
    found = shutil.which(python)
    if found is None or Path(found).is_dir():
        raise ConfigError(
            f"model.python names {python}, which is no interpreter that can be run; wanted a path such as "
            ".venv-moshi/bin/python."
        )
    return found


class LockstepWorker:
    """A lockstep agent in a child process."""

    def __init__(self, child: _Child, ready: dict[str, Any]) -> None:
        self._child = child
        self.facts = child.facts(ready)
        self.rows = int(ready["rows"])
        self.frame_samples = int(ready["frame_samples"])
        self.equal_start = bool(ready["equal_start"])

    def start(self, row: int, prompt: str, seed: int) -> None:
        """Begin a case in a row; in a fresh process where the last one is gone."""
        if not self._child.running:
            self._child.begin()
        self._child.ask({"op": "start", "row": row, "prompt": prompt, "seed": seed})

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        """Hear one frame of every row, float32 [rows, frame_samples]."""
        header, audio = self._child.ask({"op": "step", "active": list(map(bool, active))}, pcm)
        return emissions_from_wire(header["rows"], audio)

    def stop(self, row: int) -> None:
        """End the row's case."""
        if self._child.running:
            self._child.ask({"op": "stop", "row": row})

    def close(self) -> None:
        """End the process."""
        self._child.close()


class TurnWorker:
    """A turn agent in a child process."""

    def __init__(self, child: _Child, ready: dict[str, Any]) -> None:
        self._child = child
        self.facts = child.facts(ready)

    def reply(self, prompt: str, user: Pcm, seed: int) -> Reply:
        """Answer the user's side; in a fresh process where the last one is gone."""
        if not self._child.running:
            self._child.begin()
        header, pcm = self._child.ask({"op": "reply", "prompt": prompt, "seed": seed}, user)
        notes = [Note(name, text) for name, text in header["notes"]]
        return Reply(pcm, header["text"], header["compute_s"], notes)

    def close(self) -> None:
        """End the process."""
        self._child.close()


class _Child:
    """One process at a time, and what is known of it."""

    def __init__(self, python: str, target: Target, logs: Path, patience: Patience) -> None:
        self._python, self._target, self._patience = python, target, patience
        self.log = logs / f"worker-{target.agent.rpartition(':')[2].rpartition('.')[2]}-{os.getpid()}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._began_at = 0
        self._runtime = ""

    @property
    def running(self) -> bool:
        """Whether there is a process to ask."""
        return self._channel is not None

    def facts(self, ready: dict[str, Any]) -> AgentFacts:
        """The agent's facts, and under what it runs."""
        told = ready["facts"]
        versions = {**told["versions"], "worker": self._runtime}
        return AgentFacts(told["name"], told["conditioning"], told["transcript"], versions)

    def begin(self) -> dict[str, Any]:
        """Start a process and have the agent made; returns the child's ``ready``.

        Raises:
            ConfigError: it cannot be run, speaks another protocol, or the agent cannot be made.
        """
        self._spawn()
        target = self._target
        try:
            self._greet()
            request = {
                "op": "make",
                "agent": target.agent,
                "settings": dict(target.settings),
                "settings_class": target.settings_class,
                "rows": target.rows,
            }
            header, _ = self._exchange(request, None, self._patience.start_s)
        except AgentLostError as error:
            raise ConfigError(f"{target.agent} could not be made under {self._python}: {error}") from error
        if header["op"] == "failed":
            self.end()
            failure = failure_from_wire(header)
            if isinstance(failure, ConfigError):
                raise failure
            raise ConfigError(
                f"{target.agent} could not be made under {self._python}: {header['type']}: {header['text']}. "
                f"Everything it said is in {self.log}."
            )
        return header

    def ask(self, request: dict[str, Any], pcm: Floats | None = None) -> tuple[dict[str, Any], Floats]:
        """Send a request and return its answer.

        Raises:
            AgentError: the agent raised. ``AgentLostError`` where the process ended or did not answer in time.
        """
        if self._channel is None:
            raise AgentLostError(f"{self._name} has ended; everything it said is in {self.log}.")
        header, audio = self._exchange(request, pcm, self._patience.step_s)
        if header["op"] == "failed":
            raise failure_from_wire(header)
        return header, audio

    def close(self) -> None:
        """Let the agent close, then end the process; may be called twice."""
        if self._channel is not None:
            with contextlib.suppress(AgentError):
                self._exchange({"op": "close"}, None, self._patience.close_s)
        self.end()

    def end(self) -> int | None:
        """End the process, whatever it does; returns its exit status."""
        channel, process = self._channel, self._process
        self._channel = self._process = None
        if channel is not None:
            channel.close()
        if process is None:
            return None
        try:
            return process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    @property
    def _name(self) -> str:
        return f"the process of {self._target.agent}"

    def _spawn(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        words = json.dumps([_own_paths(), str(_PACKAGE), theirs_in, theirs_out, os.getpid()])
        try:
            with self.log.open("ab") as said:
                self._began_at = said.tell()
                self._process = subprocess.Popen(
                    [self._python, "-u", "-c", _BOOT % words],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    pass_fds=(theirs_in, theirs_out),
                    env=_environment(),
                )
        except OSError as error:
            os.close(ours_in)
            os.close(ours_out)
            raise ConfigError(f"model.python names {self._python}, which cannot be run: {error}.") from error
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        process = self._process
        self._channel = Channel(ours_in, ours_out, alive=lambda: process.poll() is None)

    def _greet(self) -> None:
        header, _ = self._receive(self._patience.start_s)
        python, numpy = header.get("python", "?"), header.get("numpy", "?")
        if header.get("op") != "hello" or header.get("protocol") != PROTOCOL:
            self.end()
            raise ConfigError(
                f"{self._python} (Python {python}, numpy {numpy}) speaks worker protocol {header.get('protocol')}, "
                f"this process speaks {PROTOCOL}: another dsbif is in its way; install the same version in both."
            )
        self._runtime = f"python {python}, numpy {numpy}"

    def _exchange(self, request: dict[str, Any], pcm: Floats | None, timeout_s: float) -> tuple[dict[str, Any], Floats]:
        assert self._channel is not None
        try:
            self._channel.send(request, pcm, timeout_s)
        except EndError:
            pass  # what it said last, if anything, is still to be read
        except LateError:
            raise self._lost(f"took nothing for {timeout_s:g} s") from None
        return self._receive(timeout_s)

    def _receive(self, timeout_s: float) -> tuple[dict[str, Any], Floats]:
        assert self._channel is not None
        try:
            return self._channel.receive(timeout_s)
        except LateError:
            raise self._lost(f"did not answer within {timeout_s:g} s") from None
        except EndError:
            raise self._lost("") from None
        except FrameError as error:
            raise self._lost(f"answered with no frame ({error})") from error

    def _lost(self, what: str) -> AgentLostError:
        if what and self._process is not None:
            self._process.kill()
        status = self.end()
        return AgentLostError(
            f"{self._name} {what or _ending(status)}; its last words, in {self.log}: {self._last_words()}"
        )

    def _last_words(self) -> str:
        """The last lines since this process began; no value of a variable that looks like a secret."""
        with self.log.open("rb") as said:
            size = said.seek(0, os.SEEK_END)
            said.seek(max(self._began_at, size - 8 * _LAST_CHARACTERS))
            text = said.read().decode("utf-8", "replace")
        for name, value in os.environ.items():
            if len(value) >= 8 and name.upper().endswith(_SECRET_NAMES):
                text = text.replace(value, "***")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " | ".join(lines[-_LAST_LINES:])[-_LAST_CHARACTERS:] or "none"


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _own_paths() -> list[str]:
    """What is on this import path besides the standard library and installed packages, as absolute paths."""
    library = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    kept = []
    for entry in sys.path:
        path = Path(entry).absolute()
        inside = path.resolve()
        installed = {"site-packages", "dist-packages"} & set(inside.parts)
        standard = inside in library or inside.parent in library
        if path.is_dir() and not installed and not standard and str(path) not in kept:
            kept.append(str(path))
    return kept


def _environment() -> dict[str, str]:
    """This process's, less what would turn another interpreter into this one."""
    mine = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    return {name: value for name, value in os.environ.items() if name not in mine}
