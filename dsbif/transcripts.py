"""Whose words are scored and judged: the agent's own, or a recogniser's that hears its channel.

What a recogniser writes down is kept in ``transcripts.{recogniser}.jsonl`` beside the recordings, with a hash of what
it was made from (samples, turn 2's onset, model, detector); where that has not changed it is not made again. The
records themselves are left as they are: scoring and judging lay the chosen transcript over them.

Conventions
-----------
* A piece is an utterance as the scorer hears it (the detector's spans, gaps under 0.3 s closed) and stands at its
  onset. An utterance that runs into turn 2 is cut at turn 2's onset, since READBACK counts from there.
* Each utterance is heard with 0.15 s around it, half the shortest gap.
* A case whose audio cannot be trusted has no transcript; it has no verdict either.
"""

import json
import multiprocessing
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dsbif.audio.asr_parakeet import Parakeet
from dsbif.audio.asr_whisper import Whisper
from dsbif.audio.silero import VadSettings, speech_spans
from dsbif.audio.wav import Samples, duration_s, read_wav
from dsbif.bench.case import Case
from dsbif.build.assets import locate
from dsbif.config import RunConfig, TranscriptConfig
from dsbif.errors import CaseError
from dsbif.files import sha256_of, stable_hash, write_jsonl
from dsbif.progress import Report, progress
from dsbif.rundir import RunDir
from dsbif.score.audio_check import fault
from dsbif.score.measure import MERGE_GAP_S
from dsbif.session.foreign import read_any_recording
from dsbif.session.pcm import SAMPLE_RATE_HZ
from dsbif.session.recording import Recording, TextPiece, Transcript, seconds
from dsbif.spans import Span, merge

Transcripts = Mapping[str, Transcript]
"""By case, where something else than the record's own transcript was chosen."""
AROUND_S = 0.15
_WRITE_EVERY = 32
_ALONE = 4
"""With fewer cases than this, starting processes costs more than it saves."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A case to transcribe; ``made_from`` is the hash of all that its words depend on."""

    test_case_id: str
    wav: Path
    recording: Recording
    wav_sha256: str
    made_from: str


def read_chosen(path: Path, case: Case, wav_duration_s: float, chosen: Transcript | None) -> Recording:
    """A case's record with the transcript that was chosen for it; None leaves the record's own.

    Raises:
        CaseError: the record cannot be used.
    """
    recording = read_any_recording(path, case, wav_duration_s)
    return recording if chosen is None else replace(recording, transcript=chosen)


def transcribe(config: RunConfig, run_dir: RunDir, cases: Sequence[Case]) -> Transcripts:
    """Have every recorded case transcribed whose own words are not wanted; returns what was chosen.

    Raises:
        ConfigError: the recogniser cannot be had, or failed; what it had written down is kept.
        CaseError: an earlier file of transcripts cannot be read.
    """
    choice = config.transcript
    if choice.recogniser is None:
        return {}
    path = run_dir.path / f"transcripts.{choice.recogniser}.jsonl"
    rows = _read(path)
    jobs = list(_jobs(run_dir, cases, choice))
    todo = [job for job in jobs if rows.get(job.test_case_id, {}).get("made_from") != job.made_from]
    for job in todo:
        rows.pop(job.test_case_id, None)  # of audio that is no more
    if todo:
        with progress(f"{config.model.name} {config.level.name} is transcribed") as report:
            _fill(rows, path, todo, _heard(config, run_dir, todo), report)
    return {tid: _transcript(rows[tid], path) for tid in (job.test_case_id for job in jobs) if tid in rows}


def _fill(
    rows: dict[str, dict[str, Any]],
    path: Path,
    todo: Sequence[_Job],
    heard: Generator[Transcript | None],
    report: Report,
) -> None:
    """Add a row as each case is heard; what there is by then is written whatever happens."""
    done = 0
    try:
        with closing(heard):
            for job, transcript in zip(todo, heard, strict=True):
                if transcript is not None:
                    rows[job.test_case_id] = _row(job, transcript)
                done += 1
                if done % _WRITE_EVERY == 0:
                    write_jsonl(path, rows.values())
                report(done, len(todo), job.test_case_id)
    finally:
        if done:
            write_jsonl(path, rows.values())


def _jobs(run_dir: RunDir, cases: Iterable[Case], choice: TranscriptConfig) -> Iterator[_Job]:
    how = [choice.recogniser, choice.model, asdict(VadSettings()), MERGE_GAP_S, AROUND_S]
    for case in cases:
        tid = case.test_case_id
        wav, rec = run_dir.wav(tid), run_dir.rec(tid)
        if not (wav.is_file() and rec.is_file()):
            continue
        try:
            recording = read_any_recording(rec, case, duration_s(wav))
        except CaseError:
            continue  # measuring lists it
        own = recording.transcript.source != "none" and recording.transcript.text
        if recording.status == "agent_error" or (choice.prefer_native and own):
            continue
        digest = sha256_of(wav)
        yield _Job(tid, wav, recording, digest, stable_hash([digest, recording.turn2_onset_samples, how])[:16])


def _heard(config: RunConfig, run_dir: RunDir, todo: Sequence[_Job]) -> Generator[Transcript | None]:
    choice = config.transcript
    if choice.recogniser == "parakeet":
        log = run_dir.path / "logs" / "parakeet.log"
        with closing(Parakeet(str(choice.model), choice.device, choice.batch, choice.python, log)) as parakeet:
            yield from (_by_parakeet(parakeet, job) for job in todo)
        return
    one = partial(_by_whisper, locate(str(choice.model), config.paths.assets))
    if config.workers == 1 or len(todo) < _ALONE:
        yield from map(one, todo)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(config.workers, len(todo)), mp_context=context) as pool:
        yield from pool.map(one, todo)


def _by_whisper(model_dir: Path, job: _Job) -> Transcript | None:
    whisper = Whisper(model_dir)
    found = utterances(job.wav, job.recording)
    if found is None:
        return None
    pieces, rate_hz = found
    texts = [whisper.transcribe(mono, rate_hz) for _, mono in pieces]
    return _joined([onset_s for onset_s, _ in pieces], texts, whisper.engine)


def _by_parakeet(parakeet: Parakeet, job: _Job) -> Transcript | None:
    found = utterances(job.wav, job.recording)
    if found is None:
        return None
    pieces, rate_hz = found
    texts = parakeet.transcribe([mono for _, mono in pieces], rate_hz)
    return _joined([onset_s for onset_s, _ in pieces], texts, parakeet.engine)


def utterances(wav: Path, recording: Recording) -> tuple[list[tuple[float, Samples]], int] | None:
    """What the agent said, as (onset in session seconds, float32 [n]) an utterance, and the rate.

    None where the audio cannot be trusted.
    """
    try:
        stereo, rate_hz = read_wav(wav)
    except CaseError:
        return None
    if fault(stereo, rate_hz, recording.duration_s):
        return None
    agent = np.ascontiguousarray(stereo[:, 1])
    pieces = []
    for span in merge(speech_spans(agent, rate_hz), MERGE_GAP_S):
        pieces += [(part, heard) for part, heard in _parts(span, recording.turn2_onset_s)]
    return [
        (part.start_s, agent[max(0, round(heard.start_s * rate_hz)) : round(heard.end_s * rate_hz)])
        for part, heard in pieces
    ], rate_hz


def _parts(span: Span, cut_s: float | None) -> Iterator[tuple[Span, Span]]:
    """An utterance, cut where turn 2 begins, each part with the stretch in which it is heard."""
    around = Span(span.start_s - AROUND_S, span.end_s + AROUND_S)
    if cut_s is None or not span.start_s < cut_s < span.end_s:
        yield span, around
        return
    yield Span(span.start_s, cut_s), Span(around.start_s, cut_s)
    yield Span(cut_s, span.end_s), Span(cut_s, around.end_s)


def _joined(onsets_s: Sequence[float], texts: Sequence[str], engine: str) -> Transcript:
    # A piece at sample 0 would read as one that carries no time.
    pieces = (
        TextPiece(max(1, round(onset_s * SAMPLE_RATE_HZ)), text)
        for onset_s, text in zip(onsets_s, texts, strict=True)
        if text
    )
    return Transcript("asr", tuple(pieces), engine)


def _row(job: _Job, transcript: Transcript) -> dict[str, Any]:
    return {
        "test_case_id": job.test_case_id,
        "source": transcript.source,
        "engine": transcript.engine,
        "wav_sha256": job.wav_sha256,
        "made_from": job.made_from,
        "text": transcript.text,
        "pieces": [
            {"time_samples": piece.time_samples, "time_s": seconds(piece.time_samples), "text": piece.text}
            for piece in transcript.pieces
        ],
    }


def _transcript(row: Mapping[str, Any], path: Path) -> Transcript:
    try:
        pieces = tuple(TextPiece(int(piece["time_samples"]), str(piece["text"])) for piece in row["pieces"])
        return Transcript("asr", pieces, str(row["engine"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CaseError(_spoilt(path, f"case {row.get('test_case_id')}: {error!r}")) from error


def _read(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        return {}
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {str(row["test_case_id"]): row for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise CaseError(_spoilt(path, repr(error))) from error


def _spoilt(path: Path, fault_found: str) -> str:
    return f"{path} cannot be used ({fault_found}). Remove it to have the recordings transcribed again."
