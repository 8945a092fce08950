"""What the reference agent answers: an LLM behind an OpenAI-compatible endpoint, or a plain rule."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from dsbif.errors import AgentError, ConfigError


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a dialogue; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    text: str


class LlmSettings(BaseModel):
    """``model.llm``; with ``base_url`` null there is no LLM."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    base_url: str | None
    model: str | None
    api_key_env: str
    temperature: float
    max_tokens: int
    timeout_s: float


class Brain(Protocol):
    """Answers a dialogue."""

    conditioned: bool
    """Whether the system prompt has any effect."""

    def answer(self, dialogue: Sequence[Message]) -> str:
        """The next thing to say; the last message is the user's."""


class Repeater:
    """Says what it heard, and asks. Knows no persona: the system prompt reaches nobody."""

    conditioned = False

    def answer(self, dialogue: Sequence[Message]) -> str:
        """The user's last words, given back."""
        heard = dialogue[-1].text.strip()
        return f"You said, {heard.rstrip('.,!? ')}. Is that right?" if heard else "Sorry, I did not catch that."


class ChatEndpoint:
    """Asks an OpenAI-compatible chat endpoint. The key is read from the environment and kept nowhere."""

    conditioned = True

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        self._client = _client(settings)

    def answer(self, dialogue: Sequence[Message]) -> str:
        """One completion.

        Raises:
            AgentError: the endpoint refused, failed or sent nothing.
        """
        try:
            reply = self._client.chat.completions.create(
                model=self._settings.model,
                messages=[{"role": message.role, "content": message.text} for message in dialogue],
                temperature=self._settings.temperature,
                max_tokens=self._settings.max_tokens,
            )
            return " ".join((reply.choices[0].message.content or "").split())
        except Exception as error:
            raise AgentError(
                f"the endpoint {self._settings.base_url} gave no answer ({type(error).__name__}); "
                "check that it runs and that model.llm.model is served there."
            ) from error


def _client(settings: LlmSettings) -> Any:
    if not settings.model:
        raise ConfigError("model.llm.base_url is set and model.llm.model is not: name the model that it serves.")
    try:
        from openai import OpenAI
    except ImportError as error:
        raise ConfigError(f'an LLM endpoint needs a package: pip install "dsbif[cascade]" ({error})') from error
    # Local servers want no key, the client wants one: any word will do for them.
    key = os.environ.get(settings.api_key_env) or "none"
    return OpenAI(base_url=settings.base_url, api_key=key, timeout=settings.timeout_s, max_retries=2)


def make_brain(settings: LlmSettings) -> Brain:
    """The endpoint where one is named, else the rule."""
    return ChatEndpoint(settings) if settings.base_url else Repeater()
