"""Upload runs that were tracked offline.

``python -m dsbif.track push RUN [RUN …]``: run directories, or folders that hold some (``runs``). What is uploaded
already is not uploaded again. Exit status 0; 2 if one could not be uploaded: nothing is lost, the same command tries
again.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from dsbif.door import nearest
from dsbif.errors import ConfigError, DsbifError
from dsbif.report.push import is_pushed, offline_log, push

OK, USAGE, INTERRUPTED = 0, 2, 130


def find_tracked(paths: Sequence[Path]) -> list[Path]:
    """Run directories that were tracked, in the order of their names within each folder.

    Raises:
        ConfigError: a path holds none.
    """
    found: list[Path] = []
    for path in paths:
        runs = [path] if (path / "wandb").is_dir() else sorted(one.parent for one in path.glob("*/wandb"))
        if not runs:
            raise ConfigError(f"{path} is no tracked run and holds none; a tracked run has a folder wandb.")
        found += runs
    return found


def push_all(runs: Sequence[Path]) -> list[str]:
    """Upload what is not uploaded; returns what could not be."""
    failed = []
    for run in runs:
        try:
            log = offline_log(run)
            if is_pushed(log):
                print(f"{run.name}: uploaded before")
                continue
            push(log)
            print(f"{run.name}: uploaded")
        except DsbifError as error:
            failed.append(str(error))
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Upload runs."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return OK if words else USAGE
    try:
        if words[0] != "push":
            raise ConfigError(f"'{words[0]}' is no command of python -m dsbif.track.{nearest(words[0], ['push'])}")
        if len(words) == 1:
            raise ConfigError("python -m dsbif.track push needs a run directory, or a folder of them such as runs.")
        failed = push_all(find_tracked([Path(word) for word in words[1:]]))
    except DsbifError as error:
        failed = [str(error)]
    except KeyboardInterrupt:
        print("\ndsbif: stopped. The same command goes on from here.", file=sys.stderr)
        return INTERRUPTED
    for line in failed:
        print(f"dsbif: {line}", file=sys.stderr)
    return USAGE if failed else OK


if __name__ == "__main__":
    sys.exit(main())
