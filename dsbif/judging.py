"""The judging stage: what a language judge is shown of a run, and what it said."""

from collections.abc import Sequence
from dataclasses import dataclass

from dsbif.bench.case import Case
from dsbif.bench.roles import ROLES_DIR, Role, load_roles
from dsbif.config import RunConfig
from dsbif.items import item_of
from dsbif.judge.calls import judge_cases
from dsbif.judge.prompt import JudgeItem
from dsbif.progress import progress
from dsbif.report.language import Language
from dsbif.rundir import RunDir
from dsbif.score.measure import Measurement, Unscored
from dsbif.session.recording import Transcript
from dsbif.transcripts import Transcripts, read_chosen


@dataclass(frozen=True, slots=True)
class _Said:
    case: Case
    measured: Measurement
    chosen: Transcript | None


def judge(
    config: RunConfig,
    run_dir: RunDir,
    cases: Sequence[Case],
    measured: Sequence[Measurement | Unscored],
    transcripts: Transcripts,
) -> Language | None:
    """Have every measured case judged; None where the configuration names no judge.

    Raises:
        ConfigError: the judge's key, package, address or model is wrong.
        JudgeError: the judge gave no answer to many cases in a row.
    """
    if config.judge.provider == "none":
        return None
    roles = load_roles(config.paths.roles or ROLES_DIR)
    items = [
        _item(roles[case.role], run_dir, _Said(case, found, transcripts.get(case.test_case_id)))
        for case, found in zip(cases, measured, strict=True)
        if isinstance(found, Measurement)
    ]
    with progress(f"{config.judge.name} judges") as report:
        judgements = judge_cases(items, config.judge, run_dir.path, report)
    return Language(config.judge.name, len(cases), tuple(judgements), config.judge.allow_mixed)


def _item(role: Role, run_dir: RunDir, said: _Said) -> JudgeItem:
    case = said.case
    recording = read_chosen(run_dir.rec(case.test_case_id), case, said.measured.duration_s, said.chosen)
    return item_of(role, case, recording.transcript, bool(said.measured.agent_spans))
