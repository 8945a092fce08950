"""The recording stage: missing cases through the agent, in one process or several.

A worker gets plain data and makes its own agent. A case counts as done when its ``rec.json`` is there; a worker that
dies takes nothing else with it, and its cases are tried once more, alone.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dsbif.agents.factory import Workshop, make_agent, needed_assets
from dsbif.audio.wav import read_wav, write_pcm16
from dsbif.bench.case import Case, UserTurn
from dsbif.build.assets import locate
from dsbif.build.voices import Engine, VoiceSettings, make_engine
from dsbif.config import ModelConfig
from dsbif.errors import CaseError
from dsbif.files import sha256_of
from dsbif.progress import Report
from dsbif.rundir import RunDir
from dsbif.session.agent import LiveAgent
from dsbif.session.drive import Agent, drive
from dsbif.session.pcm import SAMPLE_RATE_HZ, Pcm
from dsbif.session.recording import Recording, Transcript, write_recording
from dsbif.session.running import Episode, Stage, Take, case_seed
from dsbif.session.user import Pacing
from dsbif.session.watch import SileroWatch


@dataclass(frozen=True, slots=True)
class RecordJob:
    """Everything a worker needs, as plain data."""

    model: ModelConfig
    voice: VoiceSettings
    seed: int
    run_dir: Path
    corpus: Path
    assets: Path

    @property
    def pacing(self) -> Pacing:
        """The silences of the user's side."""
        return Pacing(**self.model.pacing.model_dump())

    @property
    def logs(self) -> Path:
        """The folder of what agents' own processes say."""
        return self.run_dir / "logs"


def record(job: RecordJob, cases: Sequence[Case], workers: int, report: Report) -> None:
    """Record every case that has no record yet.

    Raises:
        ConfigError: the agent cannot be made.
        CaseError: a case's user audio is missing or not the manifest's.
    """
    RunDir(job.run_dir).forget_errors()
    missing = set(RunDir(job.run_dir).missing(case.test_case_id for case in cases))
    todo = [case for case in cases if case.test_case_id in missing]
    if not todo:
        return
    for asset in needed_assets(job.model.settings):
        locate(asset, job.assets)
    workers = min(workers, job.model.processes or workers)
    if workers == 1 or len(todo) == 1:
        done = iter(range(1, len(todo) + 1))
        record_batch(job, todo, lambda tid: report(next(done), len(todo), tid))
        return
    batches = _batches(todo, workers, job.model.rows)
    lost = _run_pool(job, batches, workers, report, len(todo))
    for case in lost:
        if _run_pool(job, [[case]], 1, lambda *_: None, 1):
            write_lost(job, case, "the worker process died twice on this case")


def _batches(todo: Sequence[Case], workers: int, rows: int) -> list[list[Case]]:
    """Batches that keep every row busy and every worker fed to the end."""
    size = max(1, min(rows * 4, -(-len(todo) // (workers * 4))))
    return [list(todo[start : start + size]) for start in range(0, len(todo), size)]


def _run_pool(job: RecordJob, batches: Sequence[list[Case]], workers: int, report: Report, total: int) -> list[Case]:
    """Run batches in worker processes; returns the cases whose worker died."""
    done, lost = 0, []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(batches)), mp_context=context, initializer=_one_thread) as pool:
        running: dict[Future[list[str]], list[Case]] = {
            pool.submit(_batch_in_worker, job, batch): batch for batch in batches
        }
        try:
            for future in as_completed(running):
                try:
                    done += len(future.result())
                    report(done, total, running[future][-1].test_case_id)
                except BrokenProcessPool:
                    missing = set(RunDir(job.run_dir).missing(case.test_case_id for case in running[future]))
                    lost += [case for case in running[future] if case.test_case_id in missing]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return lost


def _one_thread() -> None:
    """A worker a core: libraries must not start threads of their own."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


def _batch_in_worker(job: RecordJob, cases: list[Case]) -> list[str]:
    done: list[str] = []
    record_batch(job, cases, done.append)
    return done


def record_batch(job: RecordJob, cases: Sequence[Case], on_done: Callable[[str], None]) -> None:
    """Record cases in this process, one agent for all of them."""
    run_dir = RunDir(job.run_dir)

    def keep(take: Take) -> None:
        tid = take.recording.test_case_id
        write_pcm16(run_dir.wav(tid), take.stereo, SAMPLE_RATE_HZ)
        write_recording(run_dir.rec(tid), take.recording)
        on_done(tid)

    agent = agent_of(job)
    stage = Stage(job.pacing, SileroWatch, job.seed, job.model.on_interrupt)
    if isinstance(agent, LiveAgent):
        _agent.cache_clear()  # its client belongs to the event loop that ends with these cases
    drive(agent, stage, _episodes(job, cases), keep, job.model.rows)


def agent_of(job: RecordJob) -> Agent:
    """The job's agent, one a process and configuration: making one may load gigabytes.

    Raises:
        ConfigError: it cannot be made.
    """
    return _agent(job.model.model_dump_json(), job.voice, job.assets, job.corpus, job.logs)


@cache
def _agent(model_json: str, voice: VoiceSettings, assets: Path, corpus: Path, logs: Path) -> Agent:
    model = ModelConfig.model_validate_json(model_json)

    @cache
    def engine() -> Engine:
        return make_engine(voice, assets)

    workshop = Workshop(engine, voice.engine, assets, corpus / "lines", logs)
    return make_agent(model.agent, model.rows, model.settings, workshop)


def _episodes(job: RecordJob, cases: Sequence[Case]) -> Iterator[Episode]:
    for case in cases:
        yield Episode(case, _turn(job.corpus, case.turn1), _turn(job.corpus, case.turn2))


def _turn(corpus: Path, turn: UserTurn) -> Pcm:
    path = corpus / turn.audio
    if not path.is_file() or sha256_of(path) != turn.sha256:
        raise CaseError(
            f"the user audio {path} is missing or is not what the manifest names (sha256 {turn.sha256[:12]}…); "
            "run once more with stage=build, or remove it to have it built again."
        )
    pcm, rate_hz = read_wav(path)
    if rate_hz != SAMPLE_RATE_HZ or pcm.shape[1] != 1:
        raise CaseError(f"{path} has {pcm.shape[1]} channels at {rate_hz} Hz; user audio is mono at 24000 Hz.")
    return pcm[:, 0]


def write_lost(job: RecordJob, case: Case, what: str) -> None:
    """A case that kills whoever works on it is an outcome too."""
    recording = Recording(
        test_case_id=case.test_case_id,
        conversation_id=case.conversation_id,
        model=job.model.name,
        status="agent_error",
        error=f"{what} (killed, out of memory, or a crash in native code)",
        samples=0,
        turn2_onset_samples=None,
        turn2_by="not-reached",
        window_turn2=case.window,
        transcript=Transcript("none"),
        seed=case_seed(case, job.seed),
    )
    write_recording(RunDir(job.run_dir).rec(case.test_case_id), recording)
