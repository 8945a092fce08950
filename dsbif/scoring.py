"""The scoring stage: recordings → measurements → verdicts, several processes hearing at once.

A measurement is kept with a hash of what it was made from (record, samples, transcript, case, detector, rules); where
that has not changed it is not made again. Verdicts are made anew each time: they cost microseconds.
"""

import json
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from dsbif.audio.silero import VadSettings
from dsbif.audio.wav import duration_s
from dsbif.bench.case import Case
from dsbif.bench.manifest import case_line
from dsbif.config import RunConfig
from dsbif.errors import CaseError
from dsbif.files import sha256_of, stable_hash, write_jsonl
from dsbif.progress import Report, progress
from dsbif.rundir import RunDir
from dsbif.score import RULES_VERSION
from dsbif.score.heard import BadAudio
from dsbif.score.measure import MERGE_GAP_S, Measurement, Reason, Unscored, measure, measurement_line, read_measurement
from dsbif.score.rows import ResultRow, inventory, make_row, write_rows
from dsbif.score.thresholds import Thresholds
from dsbif.score.vad import hear
from dsbif.score.verdict import judge_case
from dsbif.session.recording import Transcript
from dsbif.transcripts import Transcripts, read_chosen

_ALONE = 16
"""With fewer recordings than this to hear, starting processes costs more than it saves."""


def score(
    config: RunConfig, run_dir: RunDir, cases: Sequence[Case], corpus: Path, transcripts: Transcripts
) -> tuple[list[ResultRow], list[Measurement | Unscored]]:
    """Measure what is not measured, judge everything, write both files; rows and measurements in manifest order.

    Raises:
        ConfigError: a threshold is unknown or no number.
        CaseError: the results do not match the manifest.
    """
    thresholds = Thresholds.from_mapping(config.thresholds)
    with progress(f"{config.model.name} {config.level.name} measures") as report:
        measured = measure_all(run_dir, corpus, cases, transcripts, config.workers, report)
    rows = [
        make_row(case, config.model.name, found, judge_case(case, found, thresholds))
        for case, found in zip(cases, measured, strict=True)
    ]
    rows = inventory(cases, rows)
    write_rows(run_dir.verdicts, rows)
    return rows, measured


def measure_all(
    run_dir: RunDir, corpus: Path, cases: Sequence[Case], transcripts: Transcripts, workers: int, report: Report
) -> list[Measurement | Unscored]:
    """The measurement of every case, in order; keeps ``measurements.jsonl``."""
    kept = _kept(run_dir)
    chosen = [transcripts.get(case.test_case_id) for case in cases]
    sources = [_source(run_dir, case, transcript) for case, transcript in zip(cases, chosen, strict=True)]
    todo = [(case, said) for case, said, source in zip(cases, chosen, sources, strict=True) if source not in kept]
    fresh: dict[str, Measurement | Unscored] = {}
    found_all = _hear_all(run_dir, corpus, todo, workers)
    for done, ((case, _), found) in enumerate(zip(todo, found_all, strict=True), 1):
        fresh[case.test_case_id] = found
        report(done, len(todo), case.test_case_id)
    measured = [fresh.get(case.test_case_id) or kept[source] for case, source in zip(cases, sources, strict=True)]
    write_jsonl(run_dir.measurements, map(_line, cases, sources, measured))
    return measured


def _hear_all(run_dir: RunDir, corpus: Path, todo: Sequence[tuple[Case, Transcript | None]], workers: int) -> Any:
    one = partial(measure_case, run_dir, corpus)
    cases, chosen = [case for case, _ in todo], [transcript for _, transcript in todo]
    if workers == 1 or len(todo) < _ALONE:
        yield from map(one, cases, chosen)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(todo)), mp_context=context) as pool:
        yield from pool.map(one, cases, chosen, chunksize=4)


def measure_case(run_dir: RunDir, corpus: Path, case: Case, chosen: Transcript | None = None) -> Measurement | Unscored:
    """Hear and measure one recording, with another transcript than its own where one was chosen."""
    rec = run_dir.rec(case.test_case_id)
    if not rec.is_file():
        return Unscored(Reason.MISSING, "the case has no recording; run again to make it")
    try:
        recording = read_chosen(rec, case, duration_s(run_dir.wav(case.test_case_id)), chosen)
    except CaseError as error:
        return Unscored(Reason.BAD_AUDIO, str(error))
    if recording.status == "agent_error":
        return measure(case, recording, BadAudio("not heard"))
    return measure(case, recording, hear(run_dir.wav(case.test_case_id), case, recording, corpus))


def _source(run_dir: RunDir, case: Case, chosen: Transcript | None) -> str:
    """A hash of everything that a measurement is made from."""
    files = [run_dir.rec(case.test_case_id), run_dir.wav(case.test_case_id)]
    hashes = [sha256_of(path) if path.is_file() else "absent" for path in files]
    said = [] if chosen is None else [asdict(chosen)]
    return stable_hash([hashes, case_line(case), asdict(VadSettings()), MERGE_GAP_S, RULES_VERSION, *said])[:16]


def _line(case: Case, source: str, measured: Measurement | Unscored) -> dict[str, Any]:
    head = {"test_case_id": case.test_case_id, "source": source, "rules_version": RULES_VERSION}
    if isinstance(measured, Unscored):
        return {**head, "unscored": asdict(measured)}
    return {**head, "measured": measurement_line(measured)}


def _kept(run_dir: RunDir) -> dict[str, Measurement]:
    """Earlier measurements by what they were made from. Unscored ones are always looked at again."""
    if not run_dir.measurements.is_file():
        return {}
    kept = {}
    for number, line in enumerate(run_dir.measurements.read_text(encoding="utf-8").splitlines(), 1):
        where = f"{run_dir.measurements}:{number}"
        try:
            raw = json.loads(line)
            if "measured" in raw:
                kept[str(raw["source"])] = read_measurement(raw["measured"], where)
        except (ValueError, KeyError, TypeError) as error:
            raise CaseError(f"{where}: {error}. Remove the file to have the recordings measured again.") from error
    return kept
