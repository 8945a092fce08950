"""F-Actor's words: the narrative it is given, and its text stream with the tokens that only time the floor left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

FLOOR_TOKENS = (
    "[SILENCE_PAD]",
    "[UTTERANCE_PAD]",
    "[WORD_PAD]",
    "[BC]",
    "[INTER]",
    *(f"[INTERRUPT{count}]" for count in range(1, 21)),
    *(f"[BC{count}]" for count in range(1, 41)),
)
"""What stands in the text stream beside words: waiting, and marks of backchannels and interruptions."""
# The form of the prompt is the checkpoint's interface: it has seen no other. Source: maikezu/f-actor (Apache-2.0).
_NARRATIVE = (
    "Generate a dialogue between you ({agent}) and another speaker ({user}) based on the given narrative. Follow the "
    "specific behavior instructions for you.\n\nNarrative:\n- {narrative}\n\nYour behaviors:\n"
    "- backchannels: {backchannels}\n- interruptions: {interruptions}\n- starts the dialogue: {starts}\n\n"
    "Ensure that the dialogue reflects the behaviours of you.\n<|SOS|>"
)


class Tokenizer(Protocol):
    """Text to tokens and back; ``floor`` are the tokens that are no words."""

    floor: frozenset[int]

    def encode(self, prompt: str) -> Sequence[int]:
        """The prompt's tokens, with whatever the model begins with."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens that are words or parts of them."""

    def begins_word(self, token: int) -> bool:
        """Whether a new word begins with the token."""


def narrative(persona: str, names: tuple[str, str], counts: tuple[int, int], starts: bool) -> str:
    """The prompt, with the system prompt as the narrative; without one, the narrative is an empty item.

    Args:
        persona: the case's system prompt, word for word.
        names: of the agent and of the user.
        counts: how many backchannels and interruptions the agent is told to make.
        starts: whether it is told to speak first.
    """
    return _NARRATIVE.format(
        agent=names[0],
        user=names[1],
        narrative=persona,
        backchannels=counts[0],
        interruptions=counts[1],
        starts=starts,
    )


class Words:
    """Whole words from a stream of tokens: one is over when another begins or the floor token after it comes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._open: list[int] = []

    def push(self, token: int) -> str:
        """The word that this token ends; an empty string where it ends none."""
        if token in self._tokenizer.floor:
            return self._close()
        word = self._close() if self._tokenizer.begins_word(token) else ""
        self._open.append(token)
        return word

    def _close(self) -> str:
        word = self._tokenizer.decode(self._open).strip() if self._open else ""
        self._open = []
        return word
