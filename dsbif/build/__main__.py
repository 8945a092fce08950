"""``python -m dsbif.build``: all user audio, the manifest of every case, word times and a report.

Settings, each KEY=VALUE: ``voice=kokoro|espeak``, ``levels=all|L1,L2``, ``subset=full|quick`` (instance 1 only),
``corpus=data/corpus``, ``assets=data/assets``, ``workers=auto``, ``windows=causal|paper``,
``aligner=auto|pocketsphinx|mms|none`` (auto: none for espeak, else pocketsphinx), ``scripts=FOLDER``,
``roles=FOLDER``. What is built is not built again. Exit status: 0; 1 if the report finds a wrong turn, pause or length;
2 where the corpus cannot be built.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from dsbif.bench.case import Case
from dsbif.bench.grid import CaseKey, cases_at
from dsbif.bench.levels import Level
from dsbif.bench.manifest import write_manifest
from dsbif.bench.roles import ROLES_DIR, load_roles
from dsbif.bench.windows import WindowMode
from dsbif.build.corpus import Build, build_cases
from dsbif.build.report import report, report_table
from dsbif.build.script import SCRIPTS_DIR, load_corpus
from dsbif.build.voices import VoiceSettings
from dsbif.build.words import ALIGNERS, align_corpus, aligner_identity
from dsbif.door import nearest
from dsbif.errors import CaseError, ConfigError, DsbifError
from dsbif.files import CONF_DIR, write_json
from dsbif.progress import Report, progress

DEFAULTS: Mapping[str, str] = {
    "voice": "kokoro",
    "levels": "all",
    "subset": "full",
    "corpus": "data/corpus",
    "assets": "data/assets",
    "scripts": "",
    "roles": "",
    "workers": "auto",
    "windows": "causal",
    "aligner": "auto",
}


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """What is built, and how."""

    build: Build
    levels: tuple[Level, ...]
    first_only: bool
    windows: WindowMode
    aligner: str
    scripts: Path
    roles: Path


def parse(words: Sequence[str]) -> BuildSettings:
    """Settings from ``KEY=VALUE`` words.

    Raises:
        ConfigError: an unknown key or a value that cannot be used.
    """
    values = dict(DEFAULTS)
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in values:
            raise ConfigError(f"'{word}' is no setting of python -m dsbif.build.{nearest(key, values)}")
        if not value and key in ("corpus", "assets"):
            raise ConfigError(f"{word}: wanted a folder, such as {key}={DEFAULTS[key]}.")
        values[key] = value
    return BuildSettings(
        build=Build(
            _voice(values["voice"]), Path(values["corpus"]), Path(values["assets"]), _workers(values["workers"])
        ),
        levels=_levels(values["levels"]),
        first_only=_one_of("subset", values["subset"], ("full", "quick")) == "quick",
        windows=WindowMode(_one_of("windows", values["windows"], ("causal", "paper"))),
        aligner=_aligner(values["aligner"], values["voice"]),
        scripts=Path(values["scripts"]) if values["scripts"] else SCRIPTS_DIR,
        roles=Path(values["roles"]) if values["roles"] else ROLES_DIR,
    )


def _levels(value: str) -> tuple[Level, ...]:
    """Each level once, in the benchmark's order, so that no case is built twice."""
    if value == "all":
        return tuple(Level)
    asked = {_one_of("levels", name, ("all", *Level)) for name in value.split(",")}
    return tuple(level for level in Level if level in asked or "all" in asked)


def _one_of(key: str, value: str, valid: Sequence[str]) -> str:
    if value not in valid:
        raise ConfigError(f"{key}={value}: there is no such value.{nearest(value, valid)}")
    return value


def _aligner(value: str, voice: str) -> str:
    """``auto``: pocketsphinx, but for espeak, of whose speech it fits only half."""
    if _one_of("aligner", value, ("auto", *ALIGNERS)) == "auto":
        return "none" if voice == "espeak" else "pocketsphinx"
    return value


def _workers(value: str) -> int:
    if value == "auto":
        return os.cpu_count() or 1
    if not value.isdecimal() or not 1 <= int(value) <= 1024:
        raise ConfigError(f"workers={value}: wanted auto, or a number from 1 to 1024.")
    return int(value)


def _voice(name: str) -> VoiceSettings:
    """The voice group of the run's configuration, so that both speak alike."""
    folder = CONF_DIR / "voice"
    _one_of("voice", name, [path.stem for path in sorted(folder.glob("*.yaml"))])
    raw: dict[str, Any] = yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
    return VoiceSettings(engine=raw["engine"], voices=tuple(raw["voices"]), speed=raw["speed"])


def build(settings: BuildSettings) -> tuple[list[Case], dict[str, Any]]:
    """Build, align and report; leaves ``manifest.jsonl``, ``words.jsonl`` and ``report.json`` in the corpus folder.

    Raises:
        CaseError: a script is missing or a turn cannot be spoken.
        ConfigError: a voice, a model or a package is missing.
        OSError: the corpus folder cannot be written or the disk is full.
    """
    aligner_identity(settings.aligner)  # a missing package is told now, not after an hour of speech
    corpus = settings.build.corpus_dir
    corpus.mkdir(parents=True, exist_ok=True)
    scripts, roles = load_corpus(settings.scripts), load_roles(settings.roles)
    keys = _keys(settings, set(scripts))

    def speak(told: Report) -> list[Case]:
        return build_cases(keys, roles, scripts, settings.build, settings.windows, told)

    with progress("user audio") as told:
        cases = speak(told)
    write_manifest(corpus / "manifest.jsonl", cases)
    with progress("word times") as told:
        aligned, flagged = align_corpus(settings.build, cases, settings.aligner, lambda: speak(lambda *_: None), told)
    if aligned != cases:  # turns were spoken again
        cases = list(aligned)
        write_manifest(corpus / "manifest.jsonl", cases)
    with progress("report") as told:
        found = report(corpus, cases, flagged, told)
    write_json(corpus / "report.json", found)
    return cases, found


def _keys(settings: BuildSettings, written: set[str]) -> list[CaseKey]:
    keys = [key for level in settings.levels for key in cases_at(level)]
    keys = [key for key in keys if key.conversation_id in written and (key.instance == 1 or not settings.first_only)]
    if not keys:
        raise CaseError(f"{settings.scripts} holds no conversation of the levels asked for.")
    return keys


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the corpus; 1 if a turn, a pause or a length is wrong, 2 where it cannot be built."""
    words = sys.argv[1:] if arguments is None else arguments
    if any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return 0
    try:
        settings = parse(words)
        _, found = build(settings)
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ndsbif: stopped. What is built is kept; the same command goes on from here.", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"dsbif: {error}. What is built is kept; the same command goes on from here.", file=sys.stderr)
        return 2
    console = Console()
    console.print(report_table(found))
    console.print(f"manifest  {settings.build.corpus_dir / 'manifest.jsonl'}", soft_wrap=True, highlight=False)
    return 1 if found["wrong_turns"] or found["wrong_pauses"] or found["missed_targets"] else 0


if __name__ == "__main__":
    sys.exit(main())
