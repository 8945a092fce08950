"""``python -m dsbif.judge.checkup judge=openai [judge.KEY=VALUE …] [out=runs/checkup] [at_least=0.8]``.

Has a judge judge a small labelled set of ours and says how often it finds what we wrote. The judge is named as for a
run, and its settings are those of a run. What is judged is kept in OUT and not paid again; ``judge.dry_run=true``
writes prompts and an estimate and calls nothing. Leaves ``checkup.{name}.json`` in OUT. Exit status: 0; 1 where an item
was not judged, or where the accuracy of classes or of labels is under ``at_least``; 2 where the judge cannot be used.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from dsbif.door import nearest
from dsbif.errors import ConfigError, DsbifError, JudgeError
from dsbif.files import write_json
from dsbif.judge.calls import judge_cases
from dsbif.judge.checkup_set import read_set
from dsbif.judge.plan import estimate
from dsbif.judge.settings import JudgeSettings
from dsbif.judge.words import settings_from
from dsbif.progress import progress
from dsbif.report.checkup import Checkup, checkup, checkup_json, checkup_table

DEFAULTS = {"out": "runs/checkup", "at_least": "0"}


def run_checkup(settings: JudgeSettings, out: Path) -> Checkup:
    """Judge the set and hold it against its labels.

    Raises:
        ConfigError: the judge names nobody, or its key, package, address or model is wrong.
        JudgeError: the judge gave no answer to many items in a row.
    """
    if settings.provider == "none":
        raise ConfigError("judge=none judges nothing; name the judge to check, such as judge=openai.")
    items = read_set()
    with progress(f"{settings.name} is checked") as report:
        judgements = judge_cases([one.item for one in items], settings, out, report)
    return checkup(items, judgements, settings)


def parse(words: Sequence[str]) -> tuple[JudgeSettings, Path, float]:
    """The judge, the folder and the least accuracy, from ``KEY=VALUE`` words.

    Raises:
        ConfigError: an unknown key or a value that cannot be used.
    """
    values, of_judge = dict(DEFAULTS), []
    for word in words:
        key, equals, value = word.partition("=")
        if key == "judge" or key.startswith("judge."):
            of_judge.append(word)
        elif equals and key in values and value:
            values[key] = value
        else:
            near = nearest(key, [*values, "judge"])
            raise ConfigError(f"'{word}' is no setting of python -m dsbif.judge.checkup.{near}")
    try:
        at_least = float(values["at_least"])
    except ValueError:
        at_least = math.nan
    if not 0 <= at_least <= 1:
        raise ConfigError(f"at_least={values['at_least']}: wanted a share from 0 to 1.")
    return settings_from(of_judge), Path(values["out"]), at_least


def main(words: Sequence[str]) -> int:
    """Check a judge; returns the exit status."""
    if any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return 0
    try:
        settings, out, at_least = parse(words)
        found = run_checkup(settings, out)
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 1 if isinstance(error, JudgeError) else 2
    except KeyboardInterrupt:
        print("\ndsbif: stopped. What is judged is kept; the same command goes on from here.", file=sys.stderr)
        return 130
    console = Console()
    if settings.dry_run:
        _tell_estimate(settings, out, console)
        return 0
    path = out / f"checkup.{settings.name}.json"
    write_json(path, checkup_json(found))
    console.print(checkup_table(found))
    console.print(f"results  {path}", soft_wrap=True, highlight=False)
    return int(not found.complete or min(found.accuracies, default=0.0) < at_least)


def _tell_estimate(settings: JudgeSettings, out: Path, console: Console) -> None:
    cost = estimate([one.item for one in read_set()], settings, out)
    price = "of unknown price" if cost.cost_usd is None else f"{cost.cost_usd:.2f} USD at most"
    console.print(
        f"{cost.cases} items are left: about {cost.input_tokens} tokens in, {cost.output_tokens} out at most, {price}. "
        f"Nothing was called; the prompts are {out / f'judge-prompts.{settings.name}.jsonl'}",
        soft_wrap=True,
        highlight=False,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
