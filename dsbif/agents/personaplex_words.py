"""PersonaPlex's system prompt as its model was trained to read it, and the name of its voice."""

from __future__ import annotations

_TAG = "<system>"


def wrapped(prompt: str) -> str:
    """The prompt between the model's tags; the empty one stays empty, so that at L0 no text at all is injected.

    Source: the wrapping of NVIDIA's server, which also leaves a prompt alone that has its tags already.

    >>> wrapped(" You are a nurse. "), wrapped("<system> Be kind. <system>"), wrapped("")
    ('<system> You are a nurse. <system>', '<system> Be kind. <system>', '')
    """
    text = prompt.strip()
    if not text or (text.startswith(_TAG) and text.endswith(_TAG)):
        return text
    return f"{_TAG} {text} {_TAG}"


def check_voice(voice: str) -> None:
    """A voice is a file's name in the folder of voices.

    Raises:
        ValueError: it is empty, or a path.
    """
    if not voice or "/" in voice:
        raise ValueError(f"voice is '{voice}'; wanted the name of a file among the voices, such as NATF0.pt")
