"""``python -m dsbif.run``: compose the configuration, walk the corridor, print the table.

Kept thin: Hydra calls it, and what it calls knows no Hydra. Exit status: 0 when every case is scored, 1 when one is
not, 2 for a command or configuration that cannot be used, 130 on Ctrl-C.
"""

import importlib
import os
import signal
import sys
from types import FrameType

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from dsbif.config import from_omegaconf
from dsbif.corridor import Outcome, run
from dsbif.errors import ConfigError, DsbifError
from dsbif.files import CONF_DIR
from dsbif.hydra_errors import explain
from dsbif.report.effects_tables import compared
from dsbif.report.tables import across_runs, run_table

OK, UNSCORED, USAGE = 0, 1, 2
_outcomes: list[Outcome] = []
_refused: list[str] = []


@hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="config")
def _task(config: DictConfig) -> None:
    """One job; in a multirun an error of one job leaves the others alone."""
    console = Console()
    try:
        outcome = run(from_omegaconf(config))
    except DsbifError as error:
        _refused.append(str(error))
        print(f"dsbif: {error}", file=sys.stderr)
        return
    _outcomes.append(outcome)
    _show(outcome, console)


def _show(outcome: Outcome, console: Console) -> None:
    if outcome.summary is not None:
        console.print(run_table(outcome.summary))
        console.print(f"recordings  {outcome.run_dir.recordings}", soft_wrap=True, highlight=False)
        console.print(f"results     {outcome.run_dir.summary}", soft_wrap=True, highlight=False)
    for hint in outcome.hints:
        console.print(hint, style="dim", soft_wrap=True, highlight=False)


def main() -> int:
    """Run the command line in ``sys.argv``; returns the exit status."""
    # With it Hydra lets exceptions through, so that ours and its own are told apart and shown as one paragraph.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    signal.signal(signal.SIGTERM, _terminated)
    # Hydra's parser takes -m only before the first KEY=VALUE; people put it anywhere.
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda word: word not in ("-m", "--multirun"))
    try:
        _use_launchers()
        _task()
    except DsbifError as error:  # of a launcher; what a job raises is kept by the job
        print(f"dsbif: {error}", file=sys.stderr)
        return USAGE
    except (HydraException, OmegaConfBaseException) as error:
        print(f"dsbif: {explain(error, CONF_DIR)}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("\ndsbif: stopped. What is recorded is kept; the same command goes on from here.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `| head` has seen enough
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        return OK
    if len(_outcomes) > 1:
        summaries = [outcome.summary for outcome in _outcomes if outcome.summary]
        Console().print(across_runs(summaries), *compared(summaries))
    return _status()


def _use_launchers() -> None:
    """Let Hydra know the launchers; a multirun takes the local one where none is named.

    ``launch`` stands above this module and is an installation's own choice: it is looked up by name.
    """
    words = [word.partition("=")[0].lstrip("+") for word in sys.argv[1:]]
    multirun = {"-m", "--multirun"} & set(words)
    if "hydra/launcher" in words or multirun:
        importlib.import_module("launch.plugin").register()
        if not multirun:
            sys.argv.insert(1, "-m")
        elif "hydra/launcher" not in words:
            sys.argv.append("hydra/launcher=local")
    elif only := [word for word in words if word == "shards" or word.startswith("launch.")]:
        raise ConfigError(
            f"{only[0]}=… is a launcher's, and no launcher is named: add hydra/launcher=slurm, or hydra/launcher=local "
            "for this machine."
        )


def _status() -> int:
    if _refused:
        return USAGE
    whole = all(outcome.summary is None or outcome.summary.complete for outcome in _outcomes)
    judged = not any(outcome.judge_failed for outcome in _outcomes)
    return OK if whole and judged else UNSCORED


def _terminated(signum: int, frame: FrameType | None) -> None:
    """Leave as a terminated program does, after cleaning up half-written files."""
    raise SystemExit(128 + signum)


if __name__ == "__main__":
    sys.exit(main())
