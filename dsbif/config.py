"""The typed schema of ``conf/``: OmegaConf comes in once, frozen values go on.

Only this module, ``run`` and ``launch`` know Hydra.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dsbif.bench.grid import ROLE_IDS
from dsbif.bench.levels import Level
from dsbif.bench.probes import PROBES
from dsbif.bench.windows import WindowMode
from dsbif.door import explain, nearest
from dsbif.errors import ConfigError
from dsbif.files import CONF_DIR, stable_hash
from dsbif.judge.settings import JudgeSettings


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _cpu_count(value: object) -> object:
    return (os.cpu_count() or 1) if value == "auto" else value


def _all_probes(value: object) -> object:
    return tuple(PROBES) if value == "all" else value


def _own_window(value: object) -> object:
    """A run chooses between two readings; a release brings its own windows along."""
    if value not in ("causal", "paper"):
        raise ValueError("Input should be 'causal' or 'paper'")
    return value


def _as_text(value: object) -> object:
    return None if value is None else str(value)


class PacingConfig(_Frozen):
    """Silences of the user's side, in seconds; the last three are of agents that report when an answer is complete."""

    gap_s: Annotated[float, Field(ge=0, le=600)]
    trailing_s: Annotated[float, Field(ge=0, le=600)]
    onset_timeout_s: Annotated[float, Field(gt=0, le=600)]
    answer_timeout_s: Annotated[float, Field(ge=0, le=600)] = 0.0
    final_timeout_s: Annotated[float, Field(ge=0, le=600)] = 0.0
    flush_s: Annotated[float, Field(ge=0, le=600)] = 0.0


class ModelConfig(BaseModel):
    """One ``conf/model/*.yaml``. Keys beyond these belong to the agent, which checks them itself.

    ``rows``: sessions at once in a process. ``processes``: the most that the agent's server bears, None for any.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]
    agent: str
    rows: Annotated[int, Field(ge=1, le=512)]
    conditioning: Literal["full", "partial", "none", "auto"]
    pacing: PacingConfig
    on_interrupt: Literal["keep", "truncate"] = "keep"
    processes: Annotated[int, Field(ge=1)] | None = None

    @property
    def settings(self) -> Mapping[str, Any]:
        """The agent's own keys."""
        return dict(self.model_extra or {})


class TransportConfig(_Frozen):
    """How the model is reached; ``own`` is what its configuration names."""

    name: str


class LevelConfig(_Frozen):
    """The prompt level."""

    name: Level


class RoleConfig(_Frozen):
    """Which roles take part."""

    ids: tuple[Literal["R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8"], ...]


class ProbeConfig(_Frozen):
    """Which probes take part."""

    ids: Annotated[tuple[str, ...], BeforeValidator(_all_probes)]


class VoiceConfig(_Frozen):
    """Who speaks the user's side."""

    engine: Literal["kokoro", "espeak"]
    speed: Annotated[float, Field(ge=0.5, le=2.0)]
    voices: Annotated[tuple[str, ...], Field(min_length=1)]


class TrackerConfig(_Frozen):
    """Where results are mirrored."""

    kind: Literal["wandb", "none"]
    mode: Literal["offline", "online", "disabled"]
    project: str
    entity: str | None
    group: str | None
    tags: tuple[str, ...]


class PathsConfig(_Frozen):
    """Folders."""

    runs: Path
    corpus: Path
    assets: Path
    roles: Path | None
    scripts: Path | None


class DataConfig(_Frozen):
    """Where cases come from."""

    kind: Literal["corpus", "archive", "official"]
    path: Path | None
    recordings: Path | None


class TranscriptConfig(_Frozen):
    """Whose words are scored and judged: the agent's own, or those of a recogniser that hears its channel.

    ``prefer_native``: the recogniser hears only agents that report nothing. ``model``: an asset for Whisper; a name of
    the hub or a ``.nemo`` file for Parakeet, which runs under ``python`` (None: this interpreter).
    """

    name: Literal["native", "whisper", "parakeet", "auto"]
    recogniser: Literal["whisper", "parakeet"] | None
    prefer_native: bool = False
    model: str | None = None
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    batch: Annotated[int, Field(ge=1, le=1024)] = 16
    python: Path | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What changes a verdict; empty where nothing but the agent's own words is used."""
        named = {"recogniser": self.recogniser, "model": self.model, "prefer_native": self.prefer_native}
        return {"transcript": named} if self.recogniser else {}


class RunConfig(_Frozen):
    """Everything one run needs."""

    model: ModelConfig
    transport: TransportConfig
    level: LevelConfig
    role: RoleConfig
    probe: ProbeConfig
    thresholds: dict[str, Any]
    voice: VoiceConfig
    data: DataConfig
    transcript: TranscriptConfig
    judge: JudgeSettings
    tracker: TrackerConfig
    paths: PathsConfig
    subset: Literal["quick", "full"]
    windows: Annotated[WindowMode, BeforeValidator(_own_window)]
    stage: Literal["all", "build", "record", "score", "judge"]
    workers: Annotated[int, Field(ge=1, le=1024), BeforeValidator(_cpu_count)]
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    run: Annotated[str | None, BeforeValidator(_as_text)]

    @property
    def names_cells(self) -> bool:
        """Whether the user asked for certain roles or probes instead of all."""
        return len(self.role.ids) < len(ROLE_IDS) or len(self.probe.ids) < len(PROBES)


def from_omegaconf(config: DictConfig) -> RunConfig:
    """Convert the composed configuration, once.

    Raises:
        ConfigError: a value of the wrong type or outside its range, an unknown probe or key.
    """
    if missing := sorted(OmegaConf.missing_keys(config)):
        raise ConfigError(f"{', '.join(f'{key}=…' for key in missing)} must be given.")
    raw = OmegaConf.to_container(config, resolve=True)
    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if key not in _OF_THE_LAUNCHER}
    try:
        run = RunConfig.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(f"the configuration cannot be used: {explain(error)}.") from error
    _check_transport(run)
    for probe in run.probe.ids:
        if probe not in PROBES:
            raise ConfigError(f"probe.ids names '{probe}', which is no probe.{nearest(probe, PROBES)}")
    return run


def _check_transport(run: RunConfig) -> None:
    """An overlay that does not exist is no error to Hydra; here it is."""
    asked, found = run.transport.name, run.model.settings.get("transport")
    if asked not in ("own", found):
        others = sorted(
            path.stem.removeprefix(f"{run.model.agent}-")
            for path in (CONF_DIR / "model" / "transport").glob(f"{run.model.agent}-*.yaml")
        )
        raise ConfigError(
            f"transport={asked}: {run.model.name} has no such way; it has: "
            f"{', '.join([*([str(found)] if found else []), *others]) or 'none but its own'}."
        )


_OF_THE_LAUNCHER = {"shards", "launch"}
"""Top-level keys that say how a multirun is spread; a run does not know of them."""
_NEVER_CHANGES_OUTPUT = {"rows", "device", "threads", "processes", "python", "api_key_env"}


def recording_identity(config: RunConfig) -> dict[str, Any]:
    """What changes a recording: the agent, its pacing, the user's voice and the seed; never workers, rows or device."""
    model = {k: v for k, v in config.model.model_dump(mode="json").items() if k not in _NEVER_CHANGES_OUTPUT}
    return {"model": model, "voice": config.voice.model_dump(mode="json"), "seed": config.seed}


def run_hash(config: RunConfig, cases: Mapping[str, str], versions: Mapping[str, str]) -> str:
    """Eight hex digits of everything that changes the output.

    Args:
        config: the run's.
        cases: case id → hash of its line in the manifest.
        versions: rules and format versions.
    """
    return stable_hash(
        {
            **recording_identity(config),
            **config.transcript.identity,
            "thresholds": config.thresholds,
            "windows": config.windows,
            "cases": dict(cases),
            "versions": dict(versions),
        }
    )[:8]
