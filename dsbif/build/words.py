"""When each word is said: metadata for people and pages, never a scoring boundary.

Boundaries that scoring uses are segment boundaries, known from construction. Words inside a segment are aligned by
force against the segment's own audio and shifted to turn time. pocketsphinx fits Kokoro's speech (35 of 35 segments
tried) and about half of espeak-ng's, which is why ``aligner=auto`` leaves espeak's alone.

A segment that cannot be aligned is flagged by name. It is not spoken again: both engines of ours give the same samples
for the same text, so that a second try would fail as the first did.
"""

import json
import multiprocessing
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from dsbif.audio.resample import resample
from dsbif.audio.wav import Samples, read_wav
from dsbif.bench.case import Case, UserTurn
from dsbif.build.voices import RATE_HZ
from dsbif.errors import CaseError, ConfigError
from dsbif.files import write_jsonl

Progress = Callable[[int, int, str], None]
_SPHINX_HZ = 16_000
_FRAME_S = 0.01
_PRONUNCIATIONS = Path(__file__).parent / "pronunciations.txt"


@dataclass(frozen=True, slots=True)
class Word:
    """One word and where it is, in seconds."""

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
        CaseError: a word has no pronunciation, or the audio does not fit the text.
    """
    decoder, words = _decoder(), spelled(text)
    if unknown := [word for word in words if decoder.lookup_word(word) is None]:
        raise CaseError(f"no pronunciation of {', '.join(unknown)}; add it to {_PRONUNCIATIONS.name}")
    pcm = (np.clip(resample(samples, RATE_HZ, _SPHINX_HZ), -1, 1) * 32_767).astype("<i2").tobytes()
    try:
        decoder.set_align_text(" ".join(words))
        _listen(decoder, pcm)
        found = [Word(item.word, item.start_frame, item.end_frame + 1) for item in decoder.seg()]
    except (RuntimeError, TypeError) as error:
        _decoder.cache_clear()  # after a failure the decoder fails on everything that follows
        raise CaseError(f"pocketsphinx cannot fit the audio to {text[:60]!r} ({error})") from error
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


@cache
def _decoder() -> Any:
    try:
        from pocketsphinx import Decoder
    except ImportError as error:
        raise ConfigError(f'aligner=pocketsphinx needs a package: pip install "dsbif[align]" ({error})') from error
    decoder = Decoder(lm=None, loglevel="FATAL")
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


@cache
def _mms() -> tuple[Any, Any, Any, Any]:
    try:
        from torchaudio.pipelines import MMS_FA as BUNDLE
    except (ImportError, OSError) as error:
        raise ConfigError(
            f"aligner=mms needs torchaudio beside a torch that it was built for (torch 2.9 and torchaudio 2.9): {error}"
        ) from error
    return BUNDLE, BUNDLE.get_model(), BUNDLE.get_tokenizer(), BUNDLE.get_aligner()


ALIGNERS: Mapping[str, Callable[[Samples, str], tuple[Word, ...]] | None] = {
    "pocketsphinx": align_pocketsphinx,
    "mms": align_mms,
    "none": None,
}


def align_corpus(corpus: Path, cases: Sequence[Case], aligner: str, workers: int, progress: Progress) -> list[str]:
    """Align every turn of a corpus into ``words.jsonl``; returns what could not be aligned, by turn.

    A turn whose audio has not changed is not aligned again.

    Raises:
        ConfigError: the aligner's package is missing.
    """
    if ALIGNERS[aligner] is None:
        return []
    path = corpus / "words.jsonl"
    kept = _kept(path, aligner)
    turns = {turn.audio: turn for case in cases for turn in (case.turn1, case.turn2)}
    todo = [turn for _, turn in sorted(turns.items()) if turn.sha256 not in kept]
    fresh = {}
    for done, line in enumerate(_align_all(corpus, todo, aligner, workers), 1):
        fresh[line["sha256"]] = line
        progress(done, len(todo), line["audio"])
    lines = [{**(fresh | kept)[turn.sha256], "audio": audio} for audio, turn in sorted(turns.items())]
    write_jsonl(path, lines)
    return [f"{line['audio']}: {fault}" for line in lines for fault in line["flagged"]]


def _align_all(corpus: Path, todo: Sequence[UserTurn], aligner: str, workers: int) -> Any:
    one = partial(align_turn, corpus, aligner)
    if workers == 1 or len(todo) < workers * 4:
        yield from map(one, todo)
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(one, todo, chunksize=4)


def align_turn(corpus: Path, aligner: str, turn: UserTurn) -> dict[str, Any]:
    """The line of one turn: words in turn time, and what was flagged."""
    align = ALIGNERS[aligner]
    samples = read_wav(corpus / turn.audio)[0][:, 0]
    words: list[dict[str, Any]] = []
    flagged: list[str] = []
    for segment in turn.segments:
        if segment.kind != "speech" or align is None:
            continue
        start_s, end_s = segment.span.start_s, segment.span.end_s
        part = samples[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)]
        try:
            found = align(part, segment.text)
        except CaseError as error:
            flagged.append(f"{segment.name}: {error}")
            continue
        for word in found:
            times = {"start": round(start_s + word.start, 3), "end": round(start_s + word.end, 3)}
            words.append({"word": word.word, **times, "segment": segment.name})
    return {"audio": turn.audio, "sha256": turn.sha256, "aligner": aligner, "words": words, "flagged": flagged}


def _kept(path: Path, aligner: str) -> dict[str, dict[str, Any]]:
    """Earlier lines by the hash of their audio; what was flagged is tried again, a broken file is made anew."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {line["sha256"]: line for line in lines if line["aligner"] == aligner and not line["flagged"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
