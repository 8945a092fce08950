"""espeak-ng: a formant synthesiser, a hundred times real time and the same on every machine; for tests.

The library comes with the ``espeakng-loader`` package and needs nothing from the system. It carries state from one
utterance to the next (measured: the same call gives other samples each time, also after its own re-initialisation), so
every utterance gets a library loaded afresh, 25 ms each, and the C library's random numbers from a fixed seed. It is
loaded from a copy of our own, since another user of it in the process (Kokoro's phonemizer) would keep it loaded.
"""

import _ctypes
import ctypes
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import numpy as np

from dsbif.audio.resample import resample
from dsbif.audio.wav import Samples
from dsbif.errors import ConfigError

_RETRIEVAL = 1  # AUDIO_OUTPUT_RETRIEVAL: samples go to the callback
_UTF8 = 1
_RATE = 1  # espeakRATE
_SEED = 1
_WORDS_PER_MINUTE = 165
_VARIANTS = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f4")
"""The variants without breath noise: f2, f3 and f5 sound different in every process, whatever the seed."""
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
_lock = threading.Lock()


class Espeak:
    """American English with espeak-ng's voice variants, named ``en-us+m1`` and so on."""

    def __init__(self, speed: float = 1.0) -> None:
        _library_copy(os.getpid())
        self._words_per_minute = round(_WORDS_PER_MINUTE * speed)
        self.voices = tuple(f"en-us+{variant}" for variant in _VARIANTS)
        self.identity = f"espeak:{version('espeakng-loader')}:{self._words_per_minute} wpm:seed {_SEED}"

    def speak(self, text: str, voice: str) -> Samples:
        """Float32 mono at 24 kHz.

        Raises:
            ConfigError: the library refused the voice or the text.
        """
        pieces: list[bytes] = []

        def collect(samples: Any, count: int, events: Any) -> int:
            if samples and count > 0:
                pieces.append(ctypes.string_at(samples, count * 2))
            return 0

        callback = _Callback(collect)
        data = text.encode() + b"\0"
        with _lock, _fresh_library() as (library, rate_hz):
            library.espeak_SetSynthCallback(callback)
            status = library.espeak_SetVoiceByName(voice.encode())
            status = status or library.espeak_SetParameter(_RATE, self._words_per_minute, 0)
            status = status or library.espeak_Synth(data, len(data), 0, 1, 0, _UTF8, None, None)
            status = status or library.espeak_Synchronize()
        if status:
            raise ConfigError(f"espeak-ng refused voice {voice!r} or the text {text[:60]!r} (status {status}).")
        pcm = np.frombuffer(b"".join(pieces), "<i2").astype(np.float32) / np.float32(32_768)
        return resample(pcm, rate_hz, 24_000)


@contextmanager
def _fresh_library() -> Iterator[tuple[Any, int]]:
    """The library without a past, and its sampling rate in Hz."""
    path, data = _library_copy(os.getpid())
    library = ctypes.CDLL(str(path))
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int, ctypes.c_uint, ctypes.c_uint,
        ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    try:
        rate_hz = library.espeak_Initialize(_RETRIEVAL, 0, data.encode(), 0)
        if rate_hz <= 0:
            raise ConfigError(
                f"espeak-ng did not start (status {rate_hz}): pip install --force-reinstall espeakng-loader"
            )
        ctypes.CDLL(None).srand(_SEED)
        yield library, int(rate_hz)
        library.espeak_Terminate()
    finally:
        _ctypes.dlclose(library._handle)


@cache
def _library_copy(pid: int) -> tuple[Path, str]:
    """A copy of the library for this process, and its data folder."""
    try:
        import espeakng_loader
    except ImportError as error:
        raise ConfigError(f'voice=espeak needs a package: pip install "dsbif[speech]" ({error})') from error
    folder = tempfile.mkdtemp(prefix="dsbif-espeak-")
    # Not atexit, which worker processes of multiprocessing skip.
    Finalize(None, shutil.rmtree, args=(folder,), kwargs={"ignore_errors": True}, exitpriority=0)
    copy = shutil.copy(espeakng_loader.get_library_path(), folder)
    return Path(copy), str(espeakng_loader.get_data_path())
