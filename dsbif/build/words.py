"""When each word is said: metadata for people and pages, never a scoring boundary.

Boundaries that scoring uses are segment boundaries, known from construction. Words inside a segment are aligned by
force against the segment's own audio and shifted to turn time. pocketsphinx fits Kokoro's speech (35 of 35 segments
tried) and about half of espeak-ng's, which is why ``aligner=auto`` leaves espeak's alone.

A turn with a segment that does not fit its text is spoken again, up to three times, for an engine may say it otherwise.
Ours give the same samples for the same text; then the segment is flagged at once, and the flag says so. Lines of
``words.jsonl`` are kept by the hash of their audio, what was flagged included, until the aligner or its dictionary
changes; lines of turns that an earlier build made stay as long as their audio does, so join them by ``audio``.
"""

import json
import multiprocessing
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dsbif.audio.resample import resample
from dsbif.audio.wav import Samples, read_wav
from dsbif.bench.case import Case, UserTurn
from dsbif.build.corpus import Build, TurnRequest, render_request
from dsbif.build.script import Line
from dsbif.build.voices import RATE_HZ
from dsbif.errors import CaseError, ConfigError
from dsbif.files import sha256_of, write_jsonl

Progress = Callable[[int, int, str], None]
RETRIES = 3
"""How often a turn that cannot be aligned is spoken again."""
_SPHINX_HZ = 16_000
_FRAME_S = 0.01
_PRONUNCIATIONS = Path(__file__).parent / "pronunciations.txt"


class UnknownWordError(CaseError):
    """The dictionary lacks a word: no other take of the audio would help."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word and where it is, in seconds; named as in the benchmark's own files."""

    word: str
    start: float
    end: float


def spelled(text: str) -> list[str]:
    """The words of a text as a dictionary spells them.

    >>> spelled("It's two-thirds, I'd say.")
    ["it's", 'two', 'thirds', "i'd", 'say']
    """
    return re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower())


def align_pocketsphinx(samples: Samples, text: str) -> tuple[Word, ...]:
    """Two-pass forced alignment of a text with float32 [n] at 24 kHz.

    Raises:
        ConfigError: pocketsphinx is not installed.
        CaseError: the audio does not fit the text; UnknownWordError where a word has no pronunciation.
    """
    decoder, words = _decoder(), spelled(text)
    if unknown := [word for word in words if decoder.lookup_word(word) is None]:
        raise UnknownWordError(f"no pronunciation of {', '.join(unknown)}; add it to {_PRONUNCIATIONS.name}")
    pcm = (np.clip(resample(samples, RATE_HZ, _SPHINX_HZ), -1, 1) * 32_767).astype("<i2").tobytes()
    try:
        decoder.set_align_text(" ".join(words))
        _listen(decoder, pcm)
        found = [Word(item.word, item.start_frame, item.end_frame + 1) for item in decoder.seg()]
    except (RuntimeError, TypeError) as error:  # TypeError: it found no path through the audio, and gives None
        _decoder.cache_clear()  # after a failure the decoder fails on everything that follows
        raise CaseError(f"pocketsphinx cannot fit the audio to {text[:60]!r}") from error
    found = [item for item in (_refined(decoder, pcm) or found) if not item.word.startswith("<")]
    if len(found) != len(words):
        raise CaseError(f"pocketsphinx found {len(found)} of {len(words)} words of {text[:60]!r}")
    return tuple(
        Word(word, round(item.start * _FRAME_S, 3), round(item.end * _FRAME_S, 3))
        for word, item in zip(words, found, strict=True)
    )


def _refined(decoder: Any, pcm: bytes) -> list[Word]:
    """The second pass, phone by phone; nothing where it does not succeed, and the first pass stands."""
    try:
        decoder.set_alignment()
        _listen(decoder, pcm)
        return [Word(item.name, item.start, item.start + item.duration) for item in decoder.get_alignment()]
    except (RuntimeError, TypeError):
        _decoder.cache_clear()
        return []


def _listen(decoder: Any, pcm: bytes) -> None:
    decoder.start_utt()
    decoder.process_raw(pcm, full_utt=True)
    decoder.end_utt()


def _pocketsphinx() -> Any:
    try:
        from pocketsphinx import Decoder
    except ImportError as error:
        raise ConfigError(f'aligner=pocketsphinx needs a package: pip install "dsbif[align]" ({error})') from error
    return Decoder


@cache
def _decoder() -> Any:
    decoder = _pocketsphinx()(lm=None, loglevel="FATAL")
    for line in _PRONUNCIATIONS.read_text(encoding="utf-8").splitlines():
        word, _, phones = line.partition(" ")
        if phones and not line.startswith("#"):
            decoder.add_word(word, phones, False)
    return decoder


def align_mms(samples: Samples, text: str) -> tuple[Word, ...]:
    """Forced alignment by torchaudio's MMS model, where torchaudio imports and a hub can be reached.

    Raises:
        ConfigError: torchaudio is missing or does not fit the installed torch.
        CaseError: the audio does not fit the text.
    """
    bundle, model, tokenizer, aligner = _mms()
    import torch

    words = spelled(text)
    audio = torch.from_numpy(resample(samples, RATE_HZ, bundle.sample_rate)).unsqueeze(0)
    try:
        with torch.inference_mode():
            emission, _ = model(audio)
            spans = aligner(emission[0], tokenizer([word.replace("'", "") for word in words]))
    except (RuntimeError, KeyError, IndexError) as error:
        raise CaseError(f"MMS cannot fit the audio to {text[:60]!r} ({error})") from error
    frame_s = audio.size(1) / emission.size(1) / bundle.sample_rate
    return tuple(
        Word(word, round(span[0].start * frame_s, 3), round(span[-1].end * frame_s, 3))
        for word, span in zip(words, spans, strict=True)
    )


def _mms_bundle() -> Any:
    try:
        from torchaudio.pipelines import MMS_FA
    except (ImportError, OSError) as error:
        raise ConfigError(
            "aligner=mms needs torchaudio beside a torch that it was built for: "
            f'pip install "torch==2.9.*" "torchaudio==2.9.*" ({error})'
        ) from error
    return MMS_FA


@cache
def _mms() -> tuple[Any, Any, Any, Any]:
    bundle = _mms_bundle()
    return bundle, bundle.get_model(), bundle.get_tokenizer(), bundle.get_aligner()


ALIGNERS: Mapping[str, Callable[[Samples, str], tuple[Word, ...]] | None] = {
    "pocketsphinx": align_pocketsphinx,
    "mms": align_mms,
    "none": None,
}


def aligner_identity(aligner: str) -> str:
    """Aligner, version and dictionary: what changes its word times. Cheap, so that a missing package is told at once.

    Raises:
        ConfigError: the aligner's package is missing.
    """
    if aligner == "pocketsphinx":
        _pocketsphinx()
        return f"pocketsphinx {version('pocketsphinx')} {sha256_of(_PRONUNCIATIONS)[:8]}"
    if aligner == "mms":
        _mms_bundle()
        return f"mms torchaudio {version('torchaudio')}"
    return aligner


def align_corpus(
    build: Build, cases: Sequence[Case], aligner: str, reread: Callable[[], Sequence[Case]], progress: Progress
) -> tuple[Sequence[Case], list[str]]:
    """Align every turn of a corpus into ``words.jsonl``.

    Args:
        build: where the audio is, who spoke it and how many processes may work.
        cases: what to align.
        aligner: a key of ``ALIGNERS``; ``none`` leaves ``words.jsonl`` as it is.
        reread: gives the cases anew after turns were spoken again.
        progress: told of every turn.

    Returns:
        The cases as they now are, and what could not be aligned, by turn.

    Raises:
        ConfigError: the aligner's package is missing, or a worker was killed.
    """
    if ALIGNERS[aligner] is None:
        return cases, []
    path = build.corpus_dir / "words.jsonl"
    identity = aligner_identity(aligner)
    kept = _kept(path, identity)
    try:
        for left in reversed(range(RETRIES + 1)):
            owners = {turn.audio: (turn, case.voice) for case in cases for turn in (case.turn1, case.turn2)}
            todo = [turn for audio, (turn, _) in sorted(owners.items()) if _is_stale(kept.get(audio), turn)]
            for done, line in enumerate(_align_all(build, todo, aligner), 1):
                kept[line["audio"]] = {**line, "aligner": identity}
                progress(done, len(todo), line["audio"])
            unfit = [owners[turn.audio] for turn in todo if kept[turn.audio]["unfit"]]
            changed = [turn for turn, voice in unfit if left and _speaks_otherwise(build, voice, turn, kept)]
            if not changed:
                break
            cases = reread()
        for turn, _ in unfit if not left else ():
            line = kept[turn.audio]
            line["flagged"] = [
                f"{fault}; {RETRIES} more takes of the turn fitted no better" for fault in line["flagged"]
            ]
    finally:  # what was aligned before Ctrl-C is kept
        lines = [line for audio, line in sorted(kept.items()) if (build.corpus_dir / audio).is_file()]
        write_jsonl(path, lines)
    return cases, [f"{audio}: {fault}" for audio in sorted(owners) for fault in kept[audio]["flagged"]]


def _is_stale(line: Mapping[str, Any] | None, turn: UserTurn) -> bool:
    return line is None or line["sha256"] != turn.sha256 or line["segments"] != _segments(turn)


def _speaks_otherwise(build: Build, voice: str, turn: UserTurn, kept: Mapping[str, dict[str, Any]]) -> bool:
    """Have a turn spoken again; where the same samples come, its flags say so."""
    lines = [
        Line(part.name, text=part.text) if part.kind == "speech" else Line(part.name, pause_s=part.span.duration_s)
        for part in turn.segments
    ]
    request = TurnRequest(turn.audio.removesuffix(".wav"), voice, tuple(lines))
    render_request(build, request)
    if sha256_of(request.wav(build.corpus_dir)) != turn.sha256:
        return True
    line = kept[turn.audio]
    line["flagged"] = [
        f"{fault}; spoken again, {build.voice.engine} gives the same samples" for fault in line["flagged"]
    ]
    return False


def _align_all(build: Build, todo: Sequence[UserTurn], aligner: str) -> Iterator[dict[str, Any]]:
    one = partial(align_turn, build.corpus_dir, aligner)
    if build.workers == 1 or len(todo) < build.workers * 4:
        yield from map(one, todo)
        return
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(build.workers, mp_context=context, initializer=_leave_ctrl_c_to_the_parent) as pool:
            try:
                yield from pool.map(one, todo, chunksize=4)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenProcessPool as error:
        raise ConfigError(
            "a worker that aligned words was killed, out of memory perhaps. What is done is kept: run the same "
            f"command again, with fewer workers than {build.workers}."
        ) from error


def _leave_ctrl_c_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def align_turn(corpus: Path, aligner: str, turn: UserTurn) -> dict[str, Any]:
    """The line of one turn: segments and words in turn time, what was flagged, and segments that another take may mend.

    Raises:
        CaseError: the audio is missing or cannot be read.
        ConfigError: the aligner's package is missing.
    """
    align = ALIGNERS[aligner]
    samples = read_wav(corpus / turn.audio)[0][:, 0]
    words: list[dict[str, Any]] = []
    flagged: list[str] = []
    unfit: list[str] = []
    for segment in turn.segments:
        if segment.kind != "speech" or align is None:
            continue
        start_s = segment.span.start_s
        part = samples[round(start_s * RATE_HZ) : round(segment.span.end_s * RATE_HZ)]
        try:
            words += [_placed(word, segment.name, start_s) for word in align(part, segment.text)]
        except CaseError as error:
            flagged.append(f"{segment.name}: {error}")
            unfit += [] if isinstance(error, UnknownWordError) else [segment.name]
    return {
        "audio": turn.audio,
        "sha256": turn.sha256,
        "aligner": aligner,
        "segments": _segments(turn),
        "words": words,
        "flagged": flagged,
        "unfit": unfit,
    }


def _placed(word: Word, segment: str, at_s: float) -> dict[str, Any]:
    return {
        "word": word.word, "start": round(at_s + word.start, 3), "end": round(at_s + word.end, 3), "segment": segment,
    }  # fmt: skip


def _segments(turn: UserTurn) -> list[dict[str, Any]]:
    return [
        {"name": part.name, "kind": part.kind, "text": part.text, "start": round(part.span.start_s, 6),
         "end": round(part.span.end_s, 6)}
        for part in turn.segments
    ]  # fmt: skip


def _kept(path: Path, identity: str) -> dict[str, dict[str, Any]]:
    """Earlier lines of this aligner, by audio; a broken file is made anew."""
    try:
        lines: Iterable[Any] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {
            line["audio"]: line
            for line in lines
            if line["aligner"] == identity and {"sha256", "segments", "words", "flagged", "unfit"} <= line.keys()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
