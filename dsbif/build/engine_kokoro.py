"""Kokoro-82M on a CPU: neural English speech at 24 kHz, the default voice of the user's side.

One thread an engine: the samples are the same at any thread count, and a process a core is faster than threads.
``af_nicole`` whispers, so that a detector hears it half of the time; the default configuration leaves it out.
"""

import logging
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dsbif.audio.wav import Samples
from dsbif.build.assets import asset_identity, known_assets, locate
from dsbif.errors import CaseError, ConfigError
from dsbif.files import stable_hash, whole_file

MODEL, VOICES = "kokoro-82m-int8", "kokoro-voices-en"
_STYLE_SHAPE = (510, 1, 256)
_lock = threading.Lock()
"""The phonemizer keeps one state a process."""


class Kokoro:
    """Kokoro through onnxruntime; voices are named ``{accent}{sex}_{name}``, accent ``a`` American, ``b`` British."""

    def __init__(self, assets: Path, speed: float = 1.0) -> None:
        model, styles = locate(MODEL, assets), locate(VOICES, assets)
        self.voices = tuple(sorted(Path(file).stem for file in known_assets()[VOICES].files))
        self._speed = speed
        self._engine = _load(model / "model.onnx", _packed(styles, self.voices))
        self.identity = (
            f"kokoro:{version('kokoro-onnx')}:espeakng-loader {version('espeakng-loader')}:speed {speed:g}:"
            f"{asset_identity(MODEL)}:{asset_identity(VOICES)}"
        )

    def speak(self, text: str, voice: str) -> Samples:
        """Float32 mono at 24 kHz.

        Raises:
            CaseError: the text has nothing that can be pronounced.
        """
        accent = "en-gb" if voice.startswith("b") else "en-us"
        try:
            with _lock:
                audio, _ = self._engine.create(text, voice=voice, speed=self._speed, lang=accent, trim=False)
        except ValueError as error:
            raise CaseError(f"voice {voice} cannot say {text!r}: {error}. Write the line otherwise.") from error
        return np.asarray(audio, np.float32)


def _packed(styles: Path, voices: tuple[str, ...]) -> Path:
    """The verified style tables in the one file that the library reads, named after their hashes."""
    digest = stable_hash(dict(known_assets()[VOICES].files))
    path = styles.parent / f"{styles.name}.{digest[:12]}.npz"
    if not path.is_file():
        tables = {voice: np.fromfile(styles / f"{voice}.bin", "<f4").reshape(_STYLE_SHAPE) for voice in voices}
        with whole_file(path) as temporary, temporary.open("wb") as out:
            np.savez(out, allow_pickle=False, **tables)
    return path


def _load(model: Path, styles: Path) -> Any:
    try:
        import onnxruntime
        from kokoro_onnx import Kokoro as Library
    except ImportError as error:
        raise ConfigError(f'voice=kokoro needs packages: pip install "dsbif[speech]" ({error})') from error
    logging.getLogger("phonemizer").setLevel(logging.ERROR)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return Library.from_session(session, str(styles))
