"""An OpenAI-compatible chat endpoint, asked for JSON. The key goes into its header and into nothing that is kept."""

from dataclasses import dataclass
from typing import Any

from dsbif.build.author_prompt import Messages
from dsbif.errors import ConfigError

TIMEOUT_S = 120.0
_SHOWN = 200
_HOPELESS = {401: "it does not accept the key", 403: "it refuses the key", 404: "it has no such address or model"}
"""Answers that another try does not change, for any conversation."""


class NoAnswerError(Exception):
    """The endpoint gave no text this time; another try may help."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A text and, where the endpoint counts them, the tokens read and written for it."""

    text: str
    tokens_in: int | None
    tokens_out: int | None


class Endpoint:
    """One endpoint; safe for several threads."""

    def __init__(self, base_url: str, key: str) -> None:
        """Connect lazily.

        Args:
            base_url: for example ``http://127.0.0.1:8000/v1``.
            key: empty where none is set; local servers want none.

        Raises:
            ConfigError: the client's package is missing.
        """
        try:
            from openai import OpenAI
        except ImportError as error:
            raise ConfigError(f'an LLM endpoint needs a package: pip install "dsbif[cascade]" ({error})') from error
        self._base_url, self._key = base_url, key
        # The client wants a key: any word will do for servers that want none. Retries are the author's own.
        self._client: Any = OpenAI(base_url=base_url, api_key=key or "none", timeout=TIMEOUT_S, max_retries=0)

    def ask(self, model: str, temperature: float, messages: Messages) -> Reply:
        """One completion in JSON mode.

        Raises:
            NoAnswerError: nothing usable came; it names the endpoint.
            ConfigError: the endpoint refuses the key, or does not know the address or the model.
        """
        try:
            reply = self._client.chat.completions.create(
                model=model,
                messages=list(messages),
                temperature=temperature,
                response_format={"type": "json_object"},
            )
            text, usage = reply.choices[0].message.content or "", reply.usage
        except Exception as error:
            said = self._clean(" ".join(str(error).split()))[:_SHOWN]
            reason = _HOPELESS.get(getattr(error, "status_code", 0))
            if reason:
                raise ConfigError(
                    f"the endpoint {self._base_url} cannot be used with model '{model}': {reason} ({said}). "
                    "Check base_url, model, fallback_model and the variable that api_key_env names."
                ) from error
            raise NoAnswerError(
                f"the endpoint {self._base_url} gave no answer for model '{model}' ({type(error).__name__}: {said})"
            ) from error
        if not text.strip():
            raise NoAnswerError(f"the endpoint {self._base_url} sent an empty text for model '{model}'")
        return Reply(
            self._clean(text), getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
        )

    def _clean(self, text: str) -> str:
        """Text that can be kept: an endpoint that echoes its request must not put the key into a file."""
        text = text.encode("utf-8", "replace").decode()
        return text.replace(self._key, "***") if self._key else text
