"""espeak-ng: a formant synthesiser, three hundred times real time and the same on every machine; for tests.

The library keeps one state a process, so calls go through a lock. It is loaded from the ``espeakng-loader`` package
and needs nothing from the system.
"""

import ctypes
import threading
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from dsbif.audio.resample import resample
from dsbif.audio.wav import Samples
from dsbif.errors import AgentError, ConfigError

_RETRIEVAL = 1  # AUDIO_OUTPUT_RETRIEVAL: samples go to the callback
_UTF8 = 1
_RATE = 1  # espeakRATE
_WORDS_PER_MINUTE = 165
_VARIANTS = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5")
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
_lock = threading.Lock()


class Espeak:
    """American English with espeak-ng's voice variants, named ``en-us+m1`` and so on."""

    def __init__(self, speed: float = 1.0) -> None:
        self._library, self._rate_hz = _load()
        self._words_per_minute = round(_WORDS_PER_MINUTE * speed)
        self.voices = tuple(f"en-us+{variant}" for variant in _VARIANTS)
        self.identity = f"espeak:{version('espeakng-loader')}:{self._words_per_minute} wpm"

    def speak(self, text: str, voice: str) -> Samples:
        """Float32 mono at 24 kHz.

        Raises:
            AgentError: the library refused the voice or the text.
        """
        pieces: list[bytes] = []

        def collect(samples: Any, count: int, events: Any) -> int:
            if samples and count > 0:
                pieces.append(ctypes.string_at(samples, count * 2))
            return 0

        callback = _Callback(collect)
        data = text.encode() + b"\0"
        with _lock:
            self._library.espeak_SetSynthCallback(callback)
            status = self._library.espeak_SetVoiceByName(voice.encode())
            status = status or self._library.espeak_SetParameter(_RATE, self._words_per_minute, 0)
            status = status or self._library.espeak_Synth(data, len(data), 0, 1, 0, _UTF8, None, None)
            status = status or self._library.espeak_Synchronize()
        if status:
            raise AgentError(f"espeak-ng refused voice {voice!r} or the text {text[:60]!r} (status {status}).")
        pcm = np.frombuffer(b"".join(pieces), "<i2").astype(np.float32) / np.float32(32_768)
        return resample(pcm, self._rate_hz, 24_000)


@cache
def _load() -> tuple[Any, int]:
    try:
        import espeakng_loader
    except ImportError as error:
        raise ConfigError(f'voice=espeak needs a package: pip install "dsbif[speech]" ({error})') from error
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int, ctypes.c_uint, ctypes.c_uint,
        ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    rate_hz = library.espeak_Initialize(_RETRIEVAL, 0, espeakng_loader.get_data_path().encode(), 0)
    if rate_hz <= 0:
        raise ConfigError(
            f"espeak-ng did not start (status {rate_hz}); reinstall: pip install --force-reinstall espeakng-loader"
        )
    return library, int(rate_hz)
