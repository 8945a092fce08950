"""``conf/judge/*.yaml``: who judges, at what price, how patiently."""

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

Seconds = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class JudgeSettings(BaseModel):
    """One judge. ``name`` is in the name of its file, so that judges never mix.

    Source: DSB-IFEval, for temperature, tokens, attempts, back-off, time-out and calls in flight.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$", max_length=100)]
    provider: Literal["none", "openai", "anthropic", "compatible"]
    model: str | None = None
    base_url: str | None = None
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "OPENAI_API_KEY"
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    max_tokens: Annotated[int, Field(ge=1)] = 900
    json_mode: bool = True
    attempts: Annotated[int, Field(ge=1, le=20)] = 4
    backoff_s: Annotated[tuple[Seconds, ...], Field(min_length=1)] = (2.0, 4.0, 6.0)
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 90.0
    in_flight: Annotated[int, Field(ge=1, le=256)] = 8
    requests_per_minute: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    give_up_after: Annotated[int, Field(ge=1)] = 24
    usd_per_million_in: Price | None = None
    usd_per_million_out: Price | None = None
    retry_unusable: bool = False
    allow_mixed: bool = False
    dry_run: bool = False

    @model_validator(mode="after")
    def _complete(self) -> "JudgeSettings":
        if self.provider != "none" and not self.model:
            raise ValueError(f"provider '{self.provider}' needs a model; name the one that it serves")
        if self.provider == "compatible" and not self.base_url:
            raise ValueError("provider 'compatible' needs a base_url, e.g. http://127.0.0.1:8000/v1")
        if self.base_url is not None and (fault := _url_fault(self.base_url)):
            raise ValueError(fault)
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """What of the settings can change an answer, beside provider and model."""
        return {"temperature": self.temperature, "max_tokens": self.max_tokens, "json_mode": self.json_mode}

    def cost_usd(self, input_tokens: int, output_tokens: int) -> float | None:
        """The price of some tokens; None where the settings hold no prices."""
        if self.usd_per_million_in is None or self.usd_per_million_out is None:
            return None
        return (input_tokens * self.usd_per_million_in + output_tokens * self.usd_per_million_out) / 1e6


def _url_fault(value: str) -> str:
    """What is wrong with an address, without repeating it: it may hold a password."""
    try:
        parts = urlsplit(value)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        sound = False
    if not sound:
        return "base_url must begin with http:// or https:// and name a host"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "base_url must hold no user, password or query; keys come from the variable that api_key_env names"
    return ""
