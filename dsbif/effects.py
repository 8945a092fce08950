"""Compare finished runs: levels, effects of the prompt, gaps by role, shared audio.

``python -m dsbif.effects RUN [RUN …] [out=FILE]``: run directories, or folders that hold some (``runs``). Prints tables
and, with ``out=``, writes the figures as JSON. Exit status 0; 1 if a run is not whole; 2 where runs cannot be compared.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from dsbif.errors import ConfigError, DsbifError
from dsbif.files import write_json
from dsbif.report.aggregate import Conditions, Summary
from dsbif.report.effects import effects, effects_json
from dsbif.report.effects_tables import effects_tables
from dsbif.report.language import read_language
from dsbif.report.tables import across_runs
from dsbif.rundir import RunDir
from dsbif.score.rows import read_rows

OK, UNSCORED, USAGE = 0, 1, 2
_CONDITIONS = ("model", "level", "windows", "listen_rule", "thresholds", "conditioning")


def read_summary(path: Path) -> Summary:
    """The figures of a scored run, from its files.

    Raises:
        ConfigError: it is not scored.
        CaseError: its verdicts cannot be read.
    """
    run_dir = RunDir(path)
    try:
        found = json.loads(run_dir.summary.read_text(encoding="utf-8"))
        conditions = Conditions(**{name: str(found[name]) for name in _CONDITIONS})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is no scored run ({type(error).__name__}: {error}); score it with stage=score run={path}."
        ) from error
    rows = tuple(read_rows(run_dir.verdicts))
    return Summary(conditions, rows, read_language(path, (found.get("pas") or {}).get("judge"), rows))


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
    out = [word.removeprefix("out=") for word in words if word.startswith("out=")]
    try:
        paths = [Path(word) for word in words if not word.startswith("out=")]
        if wrong := [str(path) for path in paths if "=" in path.name]:
            raise ConfigError(f"'{wrong[0]}' is no setting of python -m dsbif.effects. Valid: out.")
        summaries = [read_summary(path) for path in find_runs(paths)]
        found = effects(summaries)
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return USAGE
    if out:
        write_json(Path(out[-1]), effects_json(found))
    Console().print(across_runs(summaries), *effects_tables(found), sep="\n")
    return OK if all(summary.complete for summary in summaries) else UNSCORED


if __name__ == "__main__":
    sys.exit(main())
