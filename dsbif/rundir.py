"""Every file of a run directory is a property of one small class."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from dsbif.errors import ConfigError
from dsbif.session.recording import read_recording


@dataclass(frozen=True, slots=True)
class RunDir:
    """A run directory. Files are the seams between stages: each is there whole, or not at all."""

    path: Path
    recordings_at: Path | None = None
    """Somebody else's recordings, in place of the run's own."""

    @property
    def config(self) -> Path:
        """The composed configuration, and what it was recorded with."""
        return self.path / "config.yaml"

    @property
    def manifest(self) -> Path:
        """The cases, one a line."""
        return self.path / "manifest.jsonl"

    @property
    def recordings(self) -> Path:
        """The folder of ``{tid}.stereo.wav`` and ``{tid}.rec.json``."""
        return self.recordings_at or self.path / "recordings"

    @property
    def measurements(self) -> Path:
        """Durations, one case a line; thresholds do not touch them."""
        return self.path / "measurements.jsonl"

    @property
    def verdicts(self) -> Path:
        """Pass, fail or unscored, one case a line."""
        return self.path / "verdicts.jsonl"

    @property
    def summary(self) -> Path:
        """Aggregates."""
        return self.path / "summary.json"

    def wav(self, test_case_id: str) -> Path:
        """Both channels of a case."""
        return self.recordings / f"{test_case_id}.stereo.wav"

    def rec(self, test_case_id: str) -> Path:
        """The record of a case, written after its WAV: a case with a record is whole."""
        return self.recordings / f"{test_case_id}.rec.json"

    def corpus(self) -> Path:
        """The folder of the user audio that the run was made with.

        Raises:
            ConfigError: the run does not say.
        """
        return Path(self._described("where the user audio lies", "corpus"))

    def model_name(self) -> str:
        """The name of the model that was recorded.

        Raises:
            ConfigError: the run does not say.
        """
        return self._described("which model was recorded", "model", "name")

    def _described(self, what: str, *keys: str) -> str:
        try:
            value = yaml.safe_load(self.config.read_text(encoding="utf-8"))
            for key in keys:
                value = value[key]
            return str(value)
        except (OSError, yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise ConfigError(f"{self.config} does not say {what} ({error}); make the run first.") from error

    def forget_errors(self) -> None:
        """Drop the records of cases whose agent failed, so that running again tries them again."""
        for path in sorted(self.recordings.glob("*.rec.json")):
            if read_recording(path).status == "agent_error":
                path.unlink()

    def missing(self, test_case_ids: Iterable[str]) -> list[str]:
        """The cases that have no record yet, in the given order."""
        there = {path.name for path in self.recordings.glob("*.rec.json")} if self.recordings.is_dir() else set()
        return [tid for tid in test_case_ids if f"{tid}.rec.json" not in there]
