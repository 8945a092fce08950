"""The path one run walks: scripts → user audio and manifest → recordings → measurements → verdicts → summary.

Each stage reads the files that the one before it left and can run alone; what is there already is not done again.
"""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from dsbif import __version__
from dsbif.bench.case import Case
from dsbif.bench.grid import CaseKey
from dsbif.bench.manifest import case_line, read_manifest, write_manifest
from dsbif.bench.roles import ROLES_DIR, load_roles
from dsbif.build.archive import MANIFEST, unpack
from dsbif.build.corpus import Build, build_cases
from dsbif.build.official import read_official
from dsbif.build.script import SCRIPTS_DIR, Script, load_corpus
from dsbif.build.voices import VoiceSettings
from dsbif.config import RunConfig, recording_identity, run_hash
from dsbif.errors import CaseError, ConfigError, JudgeError
from dsbif.files import stable_hash, write_json, write_text
from dsbif.judging import judge
from dsbif.progress import progress
from dsbif.record import RecordJob, record
from dsbif.report.aggregate import Conditions, Summary, summary_json
from dsbif.report.track import TrackerSettings, track
from dsbif.rundir import RunDir
from dsbif.score import RULES_VERSION
from dsbif.score.measure import Measurement, Unscored
from dsbif.scoring import score
from dsbif.selection import select
from dsbif.session.foreign import read_any_recording
from dsbif.session.recording import REC_VERSION
from dsbif.transcripts import transcribe

_ON_RECORDINGS = ("score", "judge")
"""Stages that work on what was recorded; a judge is shown what was heard, so both hear where nobody has yet."""
_HEARD_BY_AGENT = ("system_prompt", "turn1", "turn2", "barge_in_after_s")
"""What of a case reaches the agent; the rest (window, target, expected action) may change under a recording."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to; ``summary`` is None where a stage before scoring was asked for."""

    run_dir: RunDir
    summary: Summary | None
    hints: tuple[str, ...] = ()
    judge_failed: bool = False


def run(config: RunConfig) -> Outcome:
    """Walk the corridor, or the one stage that was asked for."""
    config = _as_recorded(config)
    cases, corpus = _cases(config)
    run_dir = RunDir(_run_path(config, cases), config.data.recordings)
    if config.stage not in _ON_RECORDINGS or not run_dir.manifest.is_file():
        cases = _claim(run_dir, config, cases, corpus)
    if config.stage in ("all", "record"):
        job = _record_job(config, run_dir.path, corpus)
        with progress(f"{config.model.name} {config.level.name} records") as report:
            record(job, cases, config.workers, report)
    if config.stage in ("build", "record"):
        return Outcome(run_dir, None)
    return _score(config, run_dir, cases, corpus)


def record_job(config: RunConfig) -> RecordJob:
    """What records cases of a run that is built and named.

    Raises:
        ConfigError: it is not.
    """
    run_dir = RunDir(_named(config, config.run or ""))
    return _record_job(config, run_dir.path, run_dir.corpus())


def _record_job(config: RunConfig, run_dir: Path, corpus: Path) -> RecordJob:
    return RecordJob(config.model, _voice(config), config.seed, run_dir, corpus, config.paths.assets)


def _as_recorded(config: RunConfig) -> RunConfig:
    """A named run that is scored or judged again keeps its model's name, whatever the command says or leaves out."""
    if config.stage not in _ON_RECORDINGS or not config.run or config.data.kind != "corpus":
        return config
    name = RunDir(_named(config, config.run)).model_name()
    return config.model_copy(update={"model": config.model.model_copy(update={"name": name})})


def _cases(config: RunConfig) -> tuple[list[Case], Path]:
    """The cases of the run, and the folder that holds their user audio."""
    if config.stage in _ON_RECORDINGS and config.run and config.data.kind == "corpus":
        named = RunDir(_named(config, config.run))
        return read_manifest(named.manifest), named.corpus()
    keys = select(config)
    if config.data.kind == "corpus":
        return _build(config, keys), config.paths.corpus
    path = config.data.path
    if path is None:
        raise ConfigError(f"data={config.data.kind} needs data.path=…")
    if config.data.kind == "official":
        return _chosen(keys, read_official(path, load_roles(config.paths.roles or ROLES_DIR)), path), path
    home = unpack(path, config.paths.corpus / "archives")
    return _chosen(keys, read_manifest(home / MANIFEST), path), home


def _chosen(keys: tuple[CaseKey, ...], cases: list[Case], path: Path) -> list[Case]:
    wanted = {key.test_case_id for key in keys}
    found = [case for case in cases if case.test_case_id in wanted]
    if not found:
        raise ConfigError(
            f"{path} holds none of the {len(keys)} cases chosen; it has {len(cases)}. Choose another level."
        )
    return found


def _written(config: RunConfig, keys: tuple[CaseKey, ...], scripts: Mapping[str, Script]) -> tuple[CaseKey, ...]:
    """``subset=full`` is all that the corpus holds; anything smaller must be there whole."""
    there = tuple(key for key in keys if key.conversation_id in scripts)
    if config.subset == "full" and there:
        return there
    absent = [key.conversation_id for key in keys if key.conversation_id not in scripts]
    if absent:
        raise CaseError(
            f"no script is written for {', '.join(absent[:5])}{' …' if len(absent) > 5 else ''}; "
            f"looked in {config.paths.scripts or SCRIPTS_DIR}. Write it there, or choose other cases."
        )
    return there


def _run_path(config: RunConfig, cases: list[Case]) -> Path:
    if config.run:
        return _named(config, config.run)
    lines = {case.test_case_id: stable_hash(case_line(case)) for case in cases}
    versions = {"dsbif": __version__, "rules": RULES_VERSION, "rec": str(REC_VERSION)}
    return config.paths.runs / f"{config.model.name}-{config.level.name}-{run_hash(config, lines, versions)}"


def _named(config: RunConfig, run: str) -> Path:
    named = Path(run)
    return named if named.parent != Path() else config.paths.runs / named


def _voice(config: RunConfig) -> VoiceSettings:
    return VoiceSettings(engine=config.voice.engine, voices=config.voice.voices, speed=config.voice.speed)


def _build(config: RunConfig, keys: tuple[CaseKey, ...]) -> list[Case]:
    roles = load_roles(config.paths.roles or ROLES_DIR)
    scripts = load_corpus(config.paths.scripts or SCRIPTS_DIR)
    with progress("user audio") as report:
        build = Build(_voice(config), config.paths.corpus, config.paths.assets, config.workers)
        return build_cases(_written(config, keys, scripts), roles, scripts, build, config.windows, report)


def _claim(run_dir: RunDir, config: RunConfig, cases: list[Case], corpus: Path) -> list[Case]:
    """Make the directory this run's, or refuse it where it holds something else's recordings.

    Returns the cases as the manifest holds them, so that a later stage reads the same microseconds.

    Raises:
        ConfigError: the directory was recorded with another model, voice, seed, prompt or user audio.
    """
    changed = list(_changed_settings(run_dir, config)) + list(_changed_cases(run_dir, cases))
    if changed and run_dir.recordings.is_dir() and any(run_dir.recordings.glob("*.rec.json")):
        shown = "; ".join(changed[:6]) + (f"; and {len(changed) - 6} more" if len(changed) > 6 else "")
        raise ConfigError(
            f"{run_dir.path} was recorded differently: {shown}. Nothing was touched. Leave out run= to get a directory "
            "of its own, or name another one."
        )
    write_manifest(run_dir.manifest, cases)
    described = {
        **config.model_dump(mode="json"),
        "corpus": str(corpus.resolve()),
        "recorded_with": recording_identity(config),
    }
    write_text(run_dir.config, yaml.safe_dump(described, sort_keys=False, allow_unicode=True))
    return read_manifest(run_dir.manifest)


def _changed_settings(run_dir: RunDir, config: RunConfig) -> list[str]:
    if not run_dir.config.is_file():
        return []
    try:
        before = yaml.safe_load(run_dir.config.read_text(encoding="utf-8"))["recorded_with"]
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{run_dir.config} does not say what the run was recorded with ({error}); name another run directory."
        ) from error
    was, now = _flat(before), _flat(recording_identity(config))
    return [
        f"{key} was {was.get(key, 'absent')!r} and is {now.get(key, 'absent')!r}"
        for key in sorted(was.keys() | now.keys())
        if was.get(key) != now.get(key)
    ]


def _flat(value: object, prefix: str = "") -> dict[str, object]:
    if isinstance(value, dict):
        return {key: item for name, part in value.items() for key, item in _flat(part, f"{prefix}.{name}").items()}
    return {prefix.lstrip("."): value}


def _changed_cases(run_dir: RunDir, cases: list[Case]) -> list[str]:
    if not run_dir.manifest.is_file():
        return []
    before = {case.test_case_id: case_line(case) for case in read_manifest(run_dir.manifest)}
    found = []
    for case in cases:
        was, now = before.get(case.test_case_id), case_line(case)
        keys = [key for key in _HEARD_BY_AGENT if was is not None and was[key] != now[key]]
        if keys:
            found.append(f"{case.test_case_id} has another {' and '.join(keys)}")
    return found


def _score(config: RunConfig, run_dir: RunDir, cases: list[Case], corpus: Path) -> Outcome:
    transcripts = transcribe(config, run_dir, cases)
    rows, measured = score(config, run_dir, cases, corpus, transcripts)
    conditions = Conditions(
        model=config.model.name,
        level=_levels(cases),
        windows=", ".join(sorted({str(case.window_mode) for case in cases})),
        listen_rule=str(config.thresholds["listen_rule"]),
        thresholds=str(config.thresholds["name"]),
        conditioning=_conditioning(run_dir, cases),
        transcript=_whose_words(measured),
    )
    hints = []
    try:
        language = judge(config, run_dir, cases, measured, transcripts)
    except JudgeError as error:  # the floor is scored all the same
        language = None
        hints.append(f"dsbif: not judged: {error}")
    summary = Summary(conditions, tuple(rows), language)
    write_json(run_dir.summary, summary_json(summary))
    settings = TrackerSettings(**config.tracker.model_dump())
    hint = track(run_dir.path, summary, rows, config.model_dump(mode="json"), settings)
    return Outcome(run_dir, summary, (*hints, *([hint] if hint else [])), judge_failed=bool(hints))


def _levels(cases: list[Case]) -> str:
    return ", ".join(sorted({str(case.level) for case in cases}))


def _whose_words(measured: Iterable[Measurement | Unscored]) -> str:
    """A recogniser by its name, the agent's own by ``native``; of all cases that could be measured."""
    told = {one.transcript_engine or one.transcript_source for one in measured if isinstance(one, Measurement)}
    return ", ".join(sorted(told)) or "unknown"


def _conditioning(run_dir: RunDir, cases: list[Case]) -> str:
    """What the first readable record says; an agent is conditioned in all of its cases or in none."""
    for case in cases:
        with contextlib.suppress(CaseError):
            return read_any_recording(run_dir.rec(case.test_case_id), case, 0.0).conditioning
    return "unknown"
