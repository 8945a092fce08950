"""Compare finished runs: levels, effects of the prompt, gaps by role, shared audio, how firmly models are ranked.

``python -m dsbif.effects RUN [RUN …] [out=FILE] [judge.allow_mixed=true]``: run directories, or folders that hold some
(``runs``). Prints tables and, with ``out=``, writes the figures as JSON. Exit status 0; 1 if a run is not whole; 2
where runs cannot be compared.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from dsbif.bench.case import Case
from dsbif.bench.levels import Level
from dsbif.bench.manifest import read_manifest
from dsbif.door import nearest
from dsbif.errors import ConfigError, DsbifError
from dsbif.files import CONF_DIR, write_json
from dsbif.report.aggregate import Conditions, Summary
from dsbif.report.effects import Effects, effects
from dsbif.report.effects_tables import effects_json, effects_tables
from dsbif.report.language import read_language
from dsbif.report.ranking import Rescorable, rankings
from dsbif.report.tables import across_runs
from dsbif.rundir import RunDir
from dsbif.score.measure import Measurement, Reason, Unscored, read_measurement
from dsbif.score.rows import ResultRow, read_rows
from dsbif.score.thresholds import Thresholds
from dsbif.score.verdict import Verdict, judge_case

OK, UNSCORED, USAGE = 0, 1, 2
_CONDITIONS = ("model", "level", "windows", "listen_rule", "thresholds", "conditioning")
_WORDS = ("out", "judge.allow_mixed")


def effects_of(run_dirs: Sequence[Path], allow_mixed: bool = False) -> Effects:
    """Everything that can be said across scored runs, from their files; the sweep where two models can be ranked.

    Args:
        run_dirs: run directories.
        allow_mixed: whether PAS of different judges may stand side by side.

    Raises:
        ConfigError: a run is not scored, or they cannot be compared.
        CaseError: a file of a run cannot be read.
        JudgeError: likewise, of a judge.
    """
    found = effects([read_summary(path, allow_mixed) for path in run_dirs])
    models, refused = rescorable(run_dirs)
    return replace(found, rankings=rankings(models), missing=(*found.missing, *refused))


def read_summary(path: Path, allow_mixed: bool = False) -> Summary:
    """The figures of a scored run, from its files.

    Raises:
        ConfigError: it is not scored.
        CaseError: its verdicts cannot be read.
        JudgeError: its judgements cannot.
    """
    run_dir = RunDir(path)
    found = _summary(path)
    try:
        known = {name: str(found[name]) for name in _CONDITIONS}
        conditions = Conditions(**known, transcript=str(found.get("transcript", "unknown")))
        judge = (found.get("pas") or {}).get("judge")
    except (KeyError, AttributeError) as error:
        raise _unscored(path, error) from error
    rows = tuple(read_rows(run_dir.verdicts))
    return Summary(conditions, rows, read_language(path, judge, rows, allow_mixed))


def _summary(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(RunDir(path).summary.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unscored(path, error) from error
    if not isinstance(found, dict):
        raise _unscored(path, TypeError("summary.json holds no object"))
    return found


def _unscored(path: Path, error: Exception) -> ConfigError:
    return ConfigError(
        f"{path} is no scored run ({type(error).__name__}: {error}); score it with stage=score run={path}."
    )


def rescorable(run_dirs: Sequence[Path]) -> tuple[Mapping[str, Rescorable], list[str]]:
    """What the sweep needs of every model that has both L1 and L2; and why a model that has them is not swept.

    Raises:
        CaseError: a manifest, verdicts or measurements cannot be read.
    """
    parts: dict[str, list[tuple[Path, list[Case]]]] = {}
    for path in run_dirs:
        cases = [case for case in read_manifest(RunDir(path).manifest) if case.level in (Level.L1, Level.L2)]
        if cases:
            parts.setdefault(str(_summary(path)["model"]), []).append((path, cases))
    whole = {
        model: found for model, found in parts.items() if len({case.level for _, cases in found for case in cases}) == 2
    }
    if len(whole) < 2:
        return {}, []
    models, refused = {}, []
    for model, found in whole.items():
        try:
            models[model] = _rescorable(found)
        except DsbifError as error:
            refused.append(f"{model} is not in the sweep: {error}")
    return models, refused


def _rescorable(parts: Sequence[tuple[Path, list[Case]]]) -> Rescorable:
    cases: list[Case] = []
    measured: dict[str, Measurement | Unscored] = {}
    for path, own in parts:
        found = dict(_measured(RunDir(path).measurements))
        thresholds = _thresholds(path, own, found)
        cases += own
        measured |= found
    return Rescorable(tuple(cases), measured, thresholds)


def _measured(path: Path) -> Iterable[tuple[str, Measurement | Unscored]]:
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            raw = json.loads(line)
            lost = raw.get("unscored")
            found = Unscored(Reason(lost["reason"]), str(lost["detail"])) if lost else None
            yield str(raw["test_case_id"]), found or read_measurement(raw.get("measured"), f"{path}:{number}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read ({type(error).__name__}: {error}); score it again.") from error


def _thresholds(path: Path, cases: Sequence[Case], measured: Mapping[str, Measurement | Unscored]) -> Thresholds:
    """The thresholds that made the verdicts: the run's own configuration, or the named one where it was scored again.

    Raises:
        ConfigError: neither gives the verdicts that are there.
    """
    rows = {row.test_case_id: row for row in read_rows(RunDir(path).verdicts)}
    name = str(_summary(path)["thresholds"])
    for file, key in ((RunDir(path).config, "thresholds"), (CONF_DIR / "thresholds" / f"{name}.yaml", None)):
        try:
            raw = yaml.safe_load(file.read_text(encoding="utf-8"))
            thresholds = Thresholds.from_mapping(raw[key] if key else raw)
        except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError, ConfigError):
            continue  # the other one may do; where none does, that is said below
        if all(_same(rows.get(c.test_case_id), c, measured.get(c.test_case_id), thresholds) for c in cases):
            return thresholds
    raise ConfigError(
        f"the measurements and thresholds in {path} do not give its verdicts; score it again (stage=score)"
    )


def _same(row: ResultRow | None, case: Case, measured: Measurement | Unscored | None, thresholds: Thresholds) -> bool:
    if row is None or measured is None:
        return False
    again = judge_case(case, measured, thresholds)
    return row.passed is (again.passed if isinstance(again, Verdict) else None)


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Run directories, in the order of their names within each folder.

    Raises:
        ConfigError: a path holds none.
    """
    runs: list[Path] = []
    for path in paths:
        found = [path] if RunDir(path).summary.is_file() else sorted(one.parent for one in path.glob("*/summary.json"))
        if not found:
            raise ConfigError(f"{path} is no scored run and holds none; a run has a summary.json once it is scored.")
        runs += found
    return list(dict.fromkeys(run.resolve() for run in runs))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare runs."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return OK if words else USAGE
    try:
        paths, settings = _read(words)
        found = effects_of(find_runs(paths), allow_mixed=settings.get("judge.allow_mixed", "").lower() == "true")
        if "out" in settings:
            _write(Path(settings["out"]), found)
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return USAGE
    Console().print(across_runs(found.levels), *effects_tables(found), sep="\n")
    return OK if all(summary.complete for summary in found.levels) else UNSCORED


def _read(words: Sequence[str]) -> tuple[list[Path], Mapping[str, str]]:
    """Paths and settings; a path that is there is a path, even with = in its name."""
    paths, settings = [], {}
    for word in words:
        key, is_setting, value = word.partition("=")
        if Path(word).exists() or not is_setting:
            paths.append(Path(word))
        elif key in _WORDS:
            settings[key] = value
        else:
            raise ConfigError(f"'{word}' is no setting of python -m dsbif.effects.{nearest(key, _WORDS)}")
    if not paths:
        raise ConfigError("python -m dsbif.effects needs run directories, or a folder of them such as runs.")
    return paths, settings


def _write(path: Path, found: Effects) -> None:
    try:
        write_json(path, effects_json(found))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}. Name another file after out=.") from error


if __name__ == "__main__":
    sys.exit(main())
