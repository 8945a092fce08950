"""``python -m dsbif.judge.agree RUN [first second] [judge.allow_mixed=true]``: how far the judges of a run agree.

RUN is a run directory, or its name under ``runs``. Judges are named as their files are, ``judgements.{name}.jsonl``, a
person too (``person-ann``); without names every pair is compared. Prints Spearman and mean difference of PAS and
Cohen's kappa of the conflict labels, each with its count, and leaves ``agreement.json`` in the run. Exit status: 0; 2
where there is nothing to compare.
"""

import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dsbif.bench.levels import Level
from dsbif.bench.manifest import read_manifest
from dsbif.door import nearest
from dsbif.errors import ConfigError, DsbifError
from dsbif.files import write_json
from dsbif.judge.store import Judgement, judgements_file, read_judgements
from dsbif.report.agreement import LABELS, Agreement, agreement_json, compare

USAGE = "usage: python -m dsbif.judge.agree RUN [first second] [judge.allow_mixed=true]"
RESULT = "agreement.json"


def agree(run: Path, chosen: Sequence[str] = (), allow_mixed: bool = False) -> list[Agreement]:
    """Compare the judges of a run, two by two.

    Args:
        run: the run directory.
        chosen: two names; none for every pair that is there.
        allow_mixed: whether a file that several judges wrote may be used.

    Raises:
        ConfigError: there are no two judges, a name is unknown, or one file holds different judges' words.
        CaseError: the run has no manifest.
        JudgeError: a file of judgements is broken.
    """
    levels = {case.test_case_id: case.level for case in read_manifest(run / "manifest.jsonl")}
    there = sorted(path.name[len("judgements.") : -len(".jsonl")] for path in run.glob("judgements.*.jsonl"))
    for name in chosen:
        if name not in there:
            raise ConfigError(f"{run} has no judgements.{name}.jsonl.{nearest(name, there)}")
    names = list(dict.fromkeys(chosen)) or there
    if len(names) < 2:
        found = ", ".join(there) or "none"
        raise ConfigError(f"two judges are wanted; {run} has: {found}. Have it judged by another one (stage=judge).")
    judged = {name: _of_cases(run, name, levels, allow_mixed) for name in names}
    return [compare(judged[a], judged[b], (a, b), levels) for a, b in combinations(names, 2)]


def _of_cases(run: Path, name: str, levels: Mapping[str, Level], allow_mixed: bool) -> dict[str, Judgement]:
    path = judgements_file(run, name)
    found = {case: judgement for case, judgement in read_judgements(path)[0].items() if case in levels}
    asked = sorted({judgement.asked for judgement in found.values()})
    if len(asked) > 1 and not allow_mixed:
        raise ConfigError(
            f"{path} holds the words of {len(asked)} different judges ({'; '.join(asked)}). Judge the run to its end "
            "with one of them (stage=judge), or say judge.allow_mixed=true."
        )
    return found


def _show(agreement: Agreement, console: Console) -> None:
    table = Table(show_edge=False, pad_edge=False, title=f"{agreement.first} and {agreement.second}")
    table.title_justify = "left"
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_column("pairs", justify="right")
    pairs = f"{len(agreement.scores)} of {agreement.n}"
    table.add_row("PAS, Spearman", _number(agreement.spearman, 2), pairs)
    table.add_row(f"PAS, mean of {agreement.second} − {agreement.first}", _number(agreement.mean_difference, 1), pairs)
    table.add_row("PAS, mean distance", _number(agreement.mean_distance, 1, sign=False), pairs)
    if agreement.n_conflict:
        labelled = f"{len(agreement.labels)} of {agreement.n_conflict}"
        table.add_row("conflict label, Cohen's κ", _number(agreement.kappa, 2), labelled)
        table.add_row("conflict label, the same", str(agreement.crossed.right), labelled)
    console.print(Text(""), table)
    if agreement.left_out:
        told = ", ".join(f"{n} {reason}" for reason, n in agreement.left_out.items())
        console.print(Text(f"left out: {told}"), soft_wrap=True)
    if agreement.labels:
        console.print(Text(""), _crossed(agreement))


def _number(value: float | None, digits: int, sign: bool = True) -> str:
    return "–" if value is None else f"{value:{'+' if sign else ''}.{digits}f}"


def _crossed(agreement: Agreement) -> Table:
    table = Table(f"{agreement.first} ↓  {agreement.second} →", show_edge=False, pad_edge=False)
    for label in LABELS:
        table.add_column(label, justify="right")
    for label in LABELS:
        table.add_row(label, *(str(agreement.crossed.count(label, other)) for other in LABELS))
    return table


def run_path(word: str) -> Path:
    """A run directory by its path, or by its name under ``runs``."""
    path = Path(word)
    return Path("runs") / path if path.parent == Path() and not path.is_dir() else path


def main(words: Sequence[str]) -> int:
    """Compare, print and write; returns the exit status."""
    if any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return 0
    permission = "judge.allow_mixed="
    plain = [word for word in words if not word.startswith(permission)]
    if len(plain) not in (1, 3) or any("=" in word for word in plain):
        print(f"dsbif: {USAGE}", file=sys.stderr)
        return 2
    run = run_path(plain[0])
    try:
        found = agree(run, plain[1:], allow_mixed=f"{permission}true" in words)
        write_json(run / RESULT, {"pairs": [agreement_json(agreement) for agreement in found]})
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    console = Console()
    for agreement in found:
        _show(agreement, console)
    console.print(f"\nresults  {run / RESULT}", soft_wrap=True, highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
