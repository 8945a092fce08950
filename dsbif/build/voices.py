"""Speech synthesisers behind one small interface. A voice that is not there is an error, never another voice."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dsbif.audio.wav import Samples
from dsbif.bench.roles import stable_pick
from dsbif.errors import ConfigError

RATE_HZ = 24_000


@dataclass(frozen=True, slots=True)
class VoiceSettings:
    """Which engine speaks, with which voices, how fast (1.0 is the engine's usual pace)."""

    engine: str
    voices: tuple[str, ...]
    speed: float = 1.0


class Engine(Protocol):
    """A synthesiser. The same text, voice and identity always give the same samples."""

    identity: str
    """Engine, versions, model hashes and settings: what changes its sound, for cache keys."""
    voices: tuple[str, ...]
    """Every voice it has."""

    def speak(self, text: str, voice: str) -> Samples:
        """Float32 mono at 24 kHz, with whatever silence the engine puts around it."""


def _kokoro(settings: VoiceSettings, assets: Path) -> Engine:
    from dsbif.build.engine_kokoro import Kokoro

    return Kokoro(assets, settings.speed)


def _espeak(settings: VoiceSettings, assets: Path) -> Engine:
    from dsbif.build.engine_espeak import Espeak

    return Espeak(settings.speed)


ENGINES: Mapping[str, Callable[[VoiceSettings, Path], Engine]] = {"kokoro": _kokoro, "espeak": _espeak}


def make_engine(settings: VoiceSettings, assets: Path) -> Engine:
    """The engine of the settings; fetches its models on first use.

    Raises:
        ConfigError: unknown engine or voice, or a missing package or model.
    """
    if settings.engine not in ENGINES:
        raise ConfigError(f"voice.engine is '{settings.engine}'; known: {', '.join(ENGINES)}.")
    engine = ENGINES[settings.engine](settings, assets)
    unknown = [voice for voice in settings.voices if voice not in engine.voices]
    if unknown:
        raise ConfigError(
            f"voice.voices names {', '.join(unknown)}, which {settings.engine} does not have; "
            f"it has: {', '.join(engine.voices)}."
        )
    return engine


def voice_for(audio_key: str, voices: tuple[str, ...]) -> str:
    """The voice of a conversation: sha1 of its audio key, modulo the number of voices.

    Source: DSB-IFEval, the user audio.

    >>> voice_for("R1-C2-i1", ("a", "b", "c"))
    'b'
    """
    return voices[stable_pick(audio_key, len(voices))]
