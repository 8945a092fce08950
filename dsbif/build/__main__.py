"""``python -m dsbif.build``: all user audio, the manifest of every case, word times and a report.

Settings, each KEY=VALUE: ``voice=kokoro|espeak``, ``levels=all|L1,L2``, ``subset=full|quick`` (instance 1 only),
``corpus=data/corpus``, ``assets=data/assets``, ``workers=auto``, ``windows=causal|paper``,
``aligner=auto|pocketsphinx|mms|none``, ``scripts=FOLDER``, ``roles=FOLDER``. What is built is not built again.
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
from dsbif.build.words import ALIGNERS, align_corpus
from dsbif.door import nearest
from dsbif.errors import CaseError, ConfigError, DsbifError
from dsbif.files import CONF_DIR, write_json
from dsbif.progress import progress

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
        values[key] = value
    levels = tuple(Level) if values["levels"] == "all" else tuple(
        Level(_one_of("levels", name, tuple(Level))) for name in values["levels"].split(",")
    )  # fmt: skip
    return BuildSettings(
        build=Build(
            _voice(values["voice"]), Path(values["corpus"]), Path(values["assets"]), _workers(values["workers"])
        ),
        levels=levels,
        first_only=_one_of("subset", values["subset"], ("full", "quick")) == "quick",
        windows=WindowMode(_one_of("windows", values["windows"], ("causal", "paper"))),
        aligner=_aligner(values["aligner"], values["voice"]),
        scripts=Path(values["scripts"]) if values["scripts"] else SCRIPTS_DIR,
        roles=Path(values["roles"]) if values["roles"] else ROLES_DIR,
    )


def _one_of(key: str, value: str, valid: Sequence[str]) -> str:
    if value not in valid:
        raise ConfigError(f"{key}={value}: there is no such value.{nearest(value, valid)}")
    return value


def _aligner(value: str, voice: str) -> str:
    """``auto``: pocketsphinx, but for espeak, of whose speech it fits only half."""
    if value == "auto":
        return "none" if voice == "espeak" else "pocketsphinx"
    return _one_of("aligner", value, tuple(ALIGNERS))


def _workers(value: str) -> int:
    if value == "auto":
        return os.cpu_count() or 1
    if not value.isdigit() or not 1 <= int(value) <= 1024:
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
    """
    scripts = load_corpus(settings.scripts)
    with progress("user audio") as told:
        keys = _keys(settings, set(scripts))
        cases = build_cases(keys, load_roles(settings.roles), scripts, settings.build, settings.windows, told)
    corpus = settings.build.corpus_dir
    write_manifest(corpus / "manifest.jsonl", cases)
    with progress("word times") as told:
        flagged = align_corpus(corpus, cases, settings.aligner, settings.build.workers, told)
    found = report(corpus, cases, flagged)
    write_json(corpus / "report.json", found)
    return cases, found


def _keys(settings: BuildSettings, written: set[str]) -> list[CaseKey]:
    keys = [key for level in settings.levels for key in cases_at(level)]
    keys = [key for key in keys if key.conversation_id in written and (key.instance == 1 or not settings.first_only)]
    if not keys:
        raise CaseError(f"{settings.scripts} holds no conversation of the levels asked for.")
    return keys


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the corpus; 1 if a pause or a length is wrong, 2 where it cannot be built."""
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
    console = Console()
    console.print(report_table(found))
    console.print(f"manifest  {settings.build.corpus_dir / 'manifest.jsonl'}", soft_wrap=True, highlight=False)
    return 1 if found["wrong_pauses"] or found["missed_targets"] else 0


if __name__ == "__main__":
    sys.exit(main())
