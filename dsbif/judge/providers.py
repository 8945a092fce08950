"""The services that can judge: OpenAI, whatever speaks its protocol, and Anthropic."""

import os
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from dsbif.errors import ConfigError
from dsbif.judge.endpoint import Answer, Clock, Endpoint, Provider
from dsbif.judge.prompt import Messages
from dsbif.judge.settings import JudgeSettings

_HOSTS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
"""Named here, so that no stray variable of the environment changes who judges."""


class _In(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _ChatMessage(_In):
    content: str | None = None
    refusal: str | None = None


class _Choice(_In):
    message: _ChatMessage
    finish_reason: str | None = None


class _ChatBody(_In):
    choices: tuple[_Choice, ...] = Field(min_length=1)
    model: str | None = None
    usage: dict[str, Any] | None = None


class ChatProvider(Endpoint):
    """OpenAI, and whatever speaks its protocol."""

    def __init__(self, settings: JudgeSettings, key: str, clock: Clock) -> None:
        """Connect lazily.

        Raises:
            ConfigError: the client's package is missing.
        """
        super().__init__(settings, key, clock)
        try:
            from openai import OpenAI
        except ImportError as error:
            raise ConfigError(f'this judge needs a package: pip install "dsbif[judge]" ({error})') from error
        base_url = settings.base_url or _HOSTS["openai"]
        # The client wants a key: any word will do for servers that want none.
        client: Any = OpenAI(base_url=base_url, api_key=key or "none", timeout=settings.timeout_s, max_retries=0)
        self._create = client.chat.completions.with_streaming_response.create
        # OpenAI's newer models know only the newer name, older servers only the older one.
        limit = "max_completion_tokens" if settings.provider == "openai" else "max_tokens"
        self._fixed: dict[str, Any] = {"model": settings.model, limit: settings.max_tokens}
        if settings.temperature is not None:
            self._fixed["temperature"] = settings.temperature
        if settings.json_mode:
            self._fixed["response_format"] = {"type": "json_object"}

    def ask(self, messages: Messages) -> Answer:
        """One chat completion."""
        return self.call(self._create, {**self._fixed, "messages": list(messages)}, self._read)

    def _read(self, found: Any) -> Answer:
        body = _ChatBody.model_validate(found)
        choice, usage = body.choices[0], body.usage or {}
        refusal = choice.message.refusal
        return Answer(
            self.clean(refusal or choice.message.content or ""),
            refused=bool(refusal) or choice.finish_reason == "content_filter",
            truncated=choice.finish_reason == "length",
            model=self.clean(body.model or ""),
            input_tokens=_count(usage.get("prompt_tokens")),
            output_tokens=_count(usage.get("completion_tokens")),
        )


class _Block(_In):
    type: str
    text: str | None = None


class _MessageBody(_In):
    content: tuple[_Block, ...]
    stop_reason: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None


class AnthropicProvider(Endpoint):
    """Anthropic's messages. There is no JSON mode; the reader finds the object."""

    def __init__(self, settings: JudgeSettings, key: str, clock: Clock) -> None:
        """Connect lazily.

        Raises:
            ConfigError: the client's package is missing.
        """
        super().__init__(settings, key, clock)
        try:
            from anthropic import Anthropic
        except ImportError as error:
            raise ConfigError(f'this judge needs a package: pip install "dsbif[judge]" ({error})') from error
        base_url = settings.base_url or _HOSTS["anthropic"]
        client: Any = Anthropic(base_url=base_url, api_key=key, timeout=settings.timeout_s, max_retries=0)
        self._create = client.messages.with_streaming_response.create
        self._fixed: dict[str, Any] = {"model": settings.model, "max_tokens": settings.max_tokens}
        if settings.temperature is not None:
            # Not every version of the client has it as an argument; all send what stands here.
            self._fixed["extra_body"] = {"temperature": settings.temperature}

    def ask(self, messages: Messages) -> Answer:
        """One message."""
        system, user = messages
        turn = [{"role": "user", "content": user["content"]}]
        return self.call(self._create, {**self._fixed, "system": system["content"], "messages": turn}, self._read)

    def _read(self, found: Any) -> Answer:
        body = _MessageBody.model_validate(found)
        usage = body.usage or {}
        return Answer(
            self.clean("".join(block.text or "" for block in body.content if block.type == "text")),
            refused=body.stop_reason == "refusal",
            truncated=body.stop_reason == "max_tokens",
            model=self.clean(body.model or ""),
            input_tokens=_count(usage.get("input_tokens")),
            output_tokens=_count(usage.get("output_tokens")),
        )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def read_key(settings: JudgeSettings) -> str:
    """The key from the environment; the empty string where a compatible server wants none.

    Raises:
        ConfigError: it is missing, or cannot be sent in a header. The message never holds it.
    """
    name = settings.api_key_env
    key = os.environ.get(name, "").strip()
    if not key and settings.provider != "compatible":
        raise ConfigError(f"the judge {settings.provider} needs a key: set the variable {name}, or use judge=none.")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(f"the variable {name} holds blanks or characters that no key has; set it again.")
    return key


def make_provider(settings: JudgeSettings, clock: Clock) -> Provider:
    """The endpoint of the settings, nothing called yet.

    Args:
        settings: the judge's.
        clock: monotonic seconds.

    Raises:
        ConfigError: no key, no package, or ``provider: none``, which judges nothing.
    """
    if settings.provider == "none":
        raise ConfigError("judge=none judges nothing; choose judge=openai, judge=anthropic or judge=compatible.")
    kind = AnthropicProvider if settings.provider == "anthropic" else ChatProvider
    return kind(settings, read_key(settings), clock)
