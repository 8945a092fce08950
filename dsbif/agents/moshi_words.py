"""Moshi's text stream as whole words: at most a token a frame, each a word or a part of one, nothing between words."""

from __future__ import annotations

SILENT_TOKENS = (0, 3)
"""Text tokens that stand for no text: the end of a padding, and padding."""
_OPEN_SAMPLES = 2 * 1920
"""A word's parts come frame by frame; after two frames, 160 ms, without one it is whole."""


class Words:
    """Takes pieces and the sound beside them, and gives words.

    >>> words = Words()
    >>> [words.text(" Good"), words.text(" mor"), words.sound(1920), words.text("ning"), words.sound(3840)]
    ['', 'Good', '', '', 'morning']
    """

    def __init__(self) -> None:
        self._open = ""
        self._since = 0

    def text(self, piece: str) -> str:
        """Take a piece, which begins with a space where a word begins; return the word that it ends, or nothing."""
        self._since = 0
        if piece[:1].isspace():
            return self._whole(piece)
        self._open += piece
        return ""

    def sound(self, samples: int) -> str:
        """That much of the agent's channel has come; return the word that is whole by now, or nothing."""
        self._since += samples
        return self._whole("") if self._since >= _OPEN_SAMPLES else ""

    def _whole(self, begun: str) -> str:
        word, self._open = self._open.strip(), begun
        return word


def piece_text(piece: str) -> str:
    """A SentencePiece piece as text: its mark of a word's beginning is a space."""
    return piece.replace("▁", " ")
