"""Parakeet through NeMo, which lives in a process of its own: under this interpreter or, since it is large, another."""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsbif.audio.resample import resample
from dsbif.audio.wav import Samples, write_pcm16
from dsbif.errors import ConfigError

PARAKEET_HZ = 16_000
_CHILD = Path(__file__).with_name("asr_child.py")
_CLOSE_S = 60.0
_LAST_WORDS = 300


class Parakeet:
    """Turns speech into text; greedy decoding, so that the same sound gives the same words on the same machine.

    Args:
        model: a name of the hub, or the path of a ``.nemo`` file.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        batch: utterances at once.
        python: the interpreter that has NeMo; None for this one.
        log: where everything goes that NeMo prints.

    Raises:
        ConfigError: no such file or interpreter, no NeMo there, or the model cannot be loaded.
    """

    def __init__(self, model: str, device: str, batch: int, python: Path | None, log: Path) -> None:
        if model.endswith(".nemo") and not Path(model).is_file():
            raise ConfigError(f"transcript.model names {model}, which does not exist.")
        self._python, self._log = str(python or sys.executable), log
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [self._python, "-u", str(_CHILD), "--model", model, "--device", device, "--batch", str(batch)]
        with log.open("ab") as said:
            try:
                self._child = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, encoding="utf-8"
                )
            except OSError as error:
                raise ConfigError(f"transcript.python names {self._python}, which cannot be run: {error}.") from error
        try:
            name = Path(model).name if model.endswith(".nemo") else model
            self.engine = f"{name} {self._ready(model)}"
            """Model and package, as they are stored with a transcript."""
        except BaseException:
            self.close()
            raise

    def transcribe(self, monos: Sequence[Samples], rate_hz: int) -> list[str]:
        """The words of each stretch of speech, float32 [n], in order.

        Raises:
            ConfigError: the process ended, or NeMo failed.
        """
        if not monos:
            return []
        with tempfile.TemporaryDirectory(prefix="dsbif-asr-") as folder:
            paths = [Path(folder) / f"{number:05d}.wav" for number in range(len(monos))]
            for path, mono in zip(paths, monos, strict=True):
                write_pcm16(path, resample(mono, rate_hz, PARAKEET_HZ), PARAKEET_HZ)
            answer = self._ask({"wavs": [str(path) for path in paths]})
        texts = answer.get("texts")
        if not isinstance(texts, list) or len(texts) != len(monos):
            reason = answer.get("failed", f"{len(monos)} utterances were sent, the answer was {str(answer)[:80]}")
            raise ConfigError(f"{self.engine} could not transcribe: {reason}. Everything it said is in {self._log}.")
        return [str(text).strip() for text in texts]

    def close(self) -> None:
        """End the process; may be called twice."""
        if self._child.stdin and not self._child.stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # it is gone already
                self._child.stdin.close()
        try:
            self._child.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        if self._child.stdout:
            self._child.stdout.close()

    def _ready(self, model: str) -> str:
        answer = self._answer()
        if "missing" in answer:
            raise ConfigError(
                f'{self._python} has no NeMo ({answer["missing"]}): pip install "dsbif[factor]", or name an '
                "interpreter that has it with transcript.python=…"
            )
        if "ready" not in answer:
            raise ConfigError(f"{model} cannot be loaded: {answer.get('failed', answer)}. See {self._log}.")
        return str(answer["ready"])

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._child.stdin
        with contextlib.suppress(BrokenPipeError):  # how it ended is said on reading
            print(json.dumps(request), file=self._child.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._child.stdout
        line = self._child.stdout.readline()
        if line.endswith("\n"):
            return dict(json.loads(line))
        status = self._child.wait()
        said = self._log.read_text(encoding="utf-8", errors="replace").strip()[-_LAST_WORDS:]
        raise ConfigError(
            f"the recogniser's process ended with status {status}; its last words, in {self._log}: {said or 'none'}"
        )
