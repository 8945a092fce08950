"""What an agent is about to say, played out frame by frame: the part that must stop at once when it is told to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dsbif.session.agent import AgentAudio, AgentText, Emission
from dsbif.session.pcm import Pcm


@dataclass(frozen=True, slots=True)
class Utterance:
    """Spoken pieces, said back to back; the text of a piece is reported when its audio has been played."""

    pieces: Sequence[tuple[str, Pcm]]

    @classmethod
    def word_by_word(cls, text: str, pcm: Pcm) -> "Utterance":
        """An utterance whose words are reported as they are said, time shared out by their letters.

        What is cut off is then not in the transcript. Within an utterance the times are approximate.
        """
        words = text.split()
        ends = np.cumsum([len(word) + 1 for word in words])
        cuts = [0, *(int(len(pcm) * end / ends[-1]) for end in ends)]
        return cls([(word, pcm[start:stop]) for word, start, stop in zip(words, cuts[:-1], cuts[1:], strict=True)])


class Playback:
    """Plays utterances at their times on one session clock, in samples at 24 kHz."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, str, Pcm]] = []

    @property
    def busy(self) -> bool:
        """Whether anything is being said or about to be."""
        return bool(self._queue)

    def schedule(self, at: int, utterance: Utterance) -> None:
        """Say an utterance from sample ``at`` on, or right after what is already queued."""
        if self._queue:
            last_at, _, last_pcm = self._queue[-1]
            at = max(at, last_at + len(last_pcm))
        for text, pcm in utterance.pieces:
            self._queue.append((at, text, pcm))
            at += len(pcm)

    def stop(self) -> None:
        """Forget everything that has not been played."""
        self._queue.clear()

    def pull(self, now: int, samples: int) -> list[Emission]:
        """What is played in [now, now + samples): at most one audio emission, and the texts that are complete."""
        out = np.zeros(samples, np.float32)
        played = 0
        texts: list[Emission] = []
        while self._queue:
            at, text, pcm = self._queue[0]
            if at >= now + samples:
                break
            start, stop = max(at, now), min(at + len(pcm), now + samples)
            out[start - now : stop - now] = pcm[start - at : stop - at]
            played = stop - now
            if at + len(pcm) > now + samples:
                break
            texts.append(AgentText(text))
            self._queue.pop(0)
        return [AgentAudio(out[:played]), *texts] if played else texts
