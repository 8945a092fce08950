"""User audio for cases: one WAV a turn, content-addressed, rendered once and shared.

A turn's file name carries a hash of everything that makes its sound (engine, voice, texts, pauses, renderer), so an
edited script renders one conversation anew, a second build reads side files only, and several builds may share a
folder. Nothing depends on the number of workers.
"""

import json
import multiprocessing
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dsbif.audio.wav import WAV_HEADER_BYTES, write_pcm16
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.grid import CaseKey, audio_key
from dsbif.bench.levels import EXPECTED_WINNER
from dsbif.bench.probes import PROBES
from dsbif.bench.roles import Role
from dsbif.bench.windows import WindowMode, trigger_window
from dsbif.build.render import RENDER_VERSION, render_turn
from dsbif.build.script import Line, Script
from dsbif.build.voices import RATE_HZ, Engine, VoiceSettings, make_engine, voice_for
from dsbif.errors import CaseError, ConfigError
from dsbif.files import sha256_of, stable_hash, write_json
from dsbif.spans import Span

Progress = Callable[[int, int, str], None]
_ALONE = 3
"""With fewer turns than this to render, starting worker processes costs more than it saves."""


@dataclass(frozen=True, slots=True)
class Build:
    """Where user audio goes and who speaks it."""

    voice: VoiceSettings
    corpus_dir: Path
    assets_dir: Path
    workers: int = 1


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One turn to be spoken: ``stem`` names its files inside the corpus folder."""

    stem: str
    voice: str
    lines: tuple[Line, ...]

    def wav(self, corpus_dir: Path) -> Path:
        """The waveform."""
        return corpus_dir / f"{self.stem}.wav"

    def side(self, corpus_dir: Path) -> Path:
        """What is in the waveform; written last, so a turn with a side file is whole."""
        return corpus_dir / f"{self.stem}.json"


def build_cases(
    keys: Sequence[CaseKey],
    roles: Mapping[str, Role],
    scripts: Mapping[str, Script],
    build: Build,
    window_mode: WindowMode,
    progress: Progress,
) -> list[Case]:
    """The cases of ``keys``, in their order, with every user turn rendered.

    Raises:
        CaseError: a case has no script.
        ConfigError: the engine, a voice or a model is missing.
    """
    engine = _engine(build.voice, build.assets_dir)
    requests = {key: _requests(key, _script_of(key, scripts), build.voice, engine.identity) for key in keys}
    distinct = {request.stem: request for pair in requests.values() for request in pair}
    _render_missing(build, list(distinct.values()), progress)
    turns = {stem: _read_turn(build.corpus_dir, request) for stem, request in distinct.items()}
    return [
        _case(key, roles[key.role], scripts[key.conversation_id], requests[key], turns, window_mode) for key in keys
    ]


def _script_of(key: CaseKey, scripts: Mapping[str, Script]) -> Script:
    if key.conversation_id not in scripts:
        raise CaseError(f"no script is written for {key.conversation_id}; write it, or leave its cases out.")
    return scripts[key.conversation_id]


def _requests(
    key: CaseKey, script: Script, settings: VoiceSettings, engine_identity: str
) -> tuple[TurnRequest, TurnRequest]:
    # The L4b variant of R2_B keeps its conversation's voice: it is the same person.
    speaker = voice_for(audio_key(key).removesuffix("-L4b"), settings.voices)
    turns = ((Line("turn1", text=script.turn1),), script.turn2_for(key))
    first, second = (
        TurnRequest(
            f"audio/{_owner(key, number)}.{_content(lines, speaker, engine_identity)}.t{number}", speaker, lines
        )
        for number, lines in enumerate(turns, 1)
    )
    return first, second


def _owner(key: CaseKey, turn: int) -> str:
    """Whose turn it is, for people: the L4b variant shares turn 1 with its conversation."""
    return audio_key(key).removesuffix("-L4b") if turn == 1 else audio_key(key)


def _content(lines: Sequence[Line], voice: str, engine_identity: str) -> str:
    spoken = [[line.name, line.text, line.pause_s] for line in lines]
    return stable_hash([RENDER_VERSION, engine_identity, voice, spoken])[:12]


def _render_missing(build: Build, requests: Sequence[TurnRequest], progress: Progress) -> None:
    todo = [request for request in requests if not _is_whole(request, build.corpus_dir)]
    if len(todo) < _ALONE or build.workers == 1:
        for done, request in enumerate(todo, 1):
            render_request(build, request)
            progress(done, len(todo), request.stem)
        return
    # Longest first, so that no worker is left with a long turn at the end.
    todo.sort(key=lambda request: (-sum(len(line.text) for line in request.lines), request.stem))
    try:
        _render_in_workers(build, todo, progress)
    except BrokenProcessPool as error:
        missing = sum(not _is_whole(request, build.corpus_dir) for request in todo)
        raise ConfigError(
            f"a worker that spoke user audio was killed, out of memory perhaps; {missing} of {len(todo)} turns are "
            f"missing. What is done is kept: run the same command again, with fewer workers than {build.workers}."
        ) from error


def _render_in_workers(build: Build, todo: Sequence[TurnRequest], progress: Progress) -> None:
    context = multiprocessing.get_context("spawn")
    workers = min(build.workers, len(todo))
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_leave_ctrl_c_to_the_parent) as pool:
        futures = {pool.submit(render_request, build, request): request for request in todo}
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                progress(done, len(todo), futures[future].stem)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _leave_ctrl_c_to_the_parent() -> None:
    """A terminal sends it to every process; a worker finishes its turn, and the parent says what happened."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def render_request(build: Build, request: TurnRequest) -> None:
    """Speak one turn into its files."""
    rendered = render_turn(request.lines, _engine(build.voice, build.assets_dir), request.voice)
    wav = request.wav(build.corpus_dir)
    write_pcm16(wav, rendered.samples, RATE_HZ)
    segments = [
        {
            "name": segment.name,
            "kind": segment.kind,
            "text": segment.text,
            "start_samples": round(segment.span.start_s * RATE_HZ),
            "end_samples": round(segment.span.end_s * RATE_HZ),
        }
        for segment in rendered.segments
    ]
    side = {"voice": request.voice, "samples": len(rendered.samples), "sha256": sha256_of(wav), "segments": segments}
    write_json(request.side(build.corpus_dir), side)


@cache
def _engine(settings: VoiceSettings, assets: Path) -> Engine:
    """One engine a process: loading one takes a second."""
    return make_engine(settings, assets)


def _read_turn(corpus_dir: Path, request: TurnRequest) -> UserTurn:
    path = request.side(corpus_dir)
    try:
        side = json.loads(path.read_text(encoding="utf-8"))
        segments = tuple(
            TimedSegment(
                item["name"],
                item["kind"],
                item["text"],
                Span(item["start_samples"] / RATE_HZ, item["end_samples"] / RATE_HZ),
            )
            for item in side["segments"]
        )
        return UserTurn(f"{request.stem}.wav", side["sha256"], side["samples"], segments)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CaseError(
            f"the side file {path} cannot be used ({error}); remove it to have the turn spoken anew."
        ) from error


def _case(
    key: CaseKey,
    role: Role,
    script: Script,
    requests: tuple[TurnRequest, TurnRequest],
    turns: Mapping[str, UserTurn],
    window_mode: WindowMode,
) -> Case:
    turn1, turn2 = (turns[request.stem] for request in requests)
    spans = {segment.name: segment.span for segment in turn2.segments}
    return Case(
        test_case_id=key.test_case_id,
        conversation_id=key.conversation_id,
        role=key.role,
        role_name=role.key,
        probe=key.probe,
        instance=key.instance,
        level=key.level,
        expected_action=key.action,
        l4_expected=EXPECTED_WINNER.get(key.level),
        system_prompt=role.prompt_for(key),
        voice=requests[0].voice,
        turn1=turn1,
        turn2=turn2,
        barge_in_after_s=PROBES[key.probe].barge_in_after_s,
        window=trigger_window(key.probe, key.action, window_mode, spans),
        window_mode=window_mode,
        readback=script.readback,
    )


def _is_whole(request: TurnRequest, corpus_dir: Path) -> bool:
    """Both files are there and the waveform is as long as its side file says; a broken side file is told on reading."""
    wav, side = request.wav(corpus_dir), request.side(corpus_dir)
    if not (side.is_file() and wav.is_file()):
        return False
    try:
        samples = int(json.loads(side.read_text(encoding="utf-8"))["samples"])
    except (ValueError, KeyError, TypeError):
        return True
    return wav.stat().st_size == WAV_HEADER_BYTES + 2 * samples
