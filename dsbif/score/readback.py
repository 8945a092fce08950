"""READBACK: how much of what was dictated the agent says back.

Conventions
-----------
* Coverage is of multisets: each dictated token counts as often as it was dictated, in any order. No edit distance.
* The transcript counts from turn 2's onset on where its pieces carry times that tell, else as a whole; the
  measurement says which.

Divergences from the paper
--------------------------
1. The target is the tokens that the script marks as dictated, chunk by chunk, and not the whole of the chunks: fillers
   are not asked for. Raises coverage.
2. Where nobody knows what the agent said (it reports nothing, and no recogniser was asked: ``transcript=native``), one
   that was silent has coverage 0 and one that spoke cannot be scored. The paper has every agent's words. Neutral: such
   a case leaves the denominator and is listed.
3. A recogniser's mishearings count against the agent. Lowers coverage; ``source`` and ``engine`` say where.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dsbif.bench.tokens import tokens
from dsbif.session.recording import Transcript


@dataclass(frozen=True, slots=True)
class Readback:
    """What was read back: ``matched`` of ``wanted`` tokens; ``scope`` is ``from-turn-2`` or ``whole``.

    ``source`` and ``engine``: whose transcript it was.
    """

    matched: int
    wanted: int
    source: str
    scope: str
    missing: tuple[str, ...] = ()
    engine: str = ""

    @property
    def coverage(self) -> float:
        """Share of the dictated tokens that were said, 0 to 1."""
        return self.matched / self.wanted


def readback(target: Sequence[str], transcript: Transcript, turn2_onset_samples: int) -> Readback:
    """Compare a dictation with a transcript.

    Args:
        target: the dictated tokens, chunk by chunk.
        transcript: what the agent said.
        turn2_onset_samples: session samples at 24 kHz.

    >>> from dsbif.session.recording import TextPiece
    >>> said = Transcript("native", (TextPiece(0, "Hello."), TextPiece(240_000, "So that is 4 1 7 Alder.")))
    >>> found = readback(["four one", "seven seven Alder"], said, turn2_onset_samples=120_000)
    >>> found.coverage, found.missing, found.scope
    (0.8, ('7',), 'from-turn-2')

    Raises:
        ValueError: the target has no token.
    """
    wanted = Counter(token for chunk in target for token in tokens(chunk))
    if not wanted:
        raise ValueError("a readback target needs at least one token")
    timed = any(piece.time_samples > 0 for piece in transcript.pieces)
    pieces = [piece for piece in transcript.pieces if not timed or piece.time_samples >= turn2_onset_samples]
    said = Counter(tokens(" ".join(piece.text for piece in pieces)))
    missing = wanted - said
    return Readback(
        matched=wanted.total() - missing.total(),
        wanted=wanted.total(),
        source=transcript.source,
        scope="from-turn-2" if timed else "whole",
        missing=tuple(sorted(missing.elements())),
        engine=transcript.engine,
    )
