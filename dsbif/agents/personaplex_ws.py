"""PersonaPlex over its own server (NVIDIA's fork of ``moshi.server``), by websocket; on the wire it is Moshi's.

Voice and prompt travel in the address, and both keys must be there. The server reads them to its model, a frame a
token, before it says that it is ready: that takes seconds, and the session's clock starts after it. A ``seed`` in the
address ends the connection, in the server of February 2026, and is never sent.

That server also fails on an empty prompt, our L0; ``model.empty_prompt`` says what to send there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlencode

import numpy as np

from dsbif.agents.moshi_ws import PATH, MoshiSession, MoshiWsSettings, check_server, dial, versions
from dsbif.agents.personaplex_words import check_voice, wrapped
from dsbif.agents.sockets import Peer
from dsbif.errors import AgentError, AgentLostError
from dsbif.session.agent import AgentFacts, Note


@dataclass(frozen=True, slots=True)
class PersonaplexWsSettings(MoshiWsSettings):
    """The keys of ``conf/model/personaplex.yaml`` under ``conf/model/transport/personaplex-ws.yaml``."""

    voice: str = field(kw_only=True)
    empty_prompt: str = field(kw_only=True)
    voices: str | None = None

    def __post_init__(self) -> None:
        check_server(self)
        check_voice(self.voice)


class PersonaplexWs:
    """A connection for each session.

    Args:
        settings: the agent's keys.
        rows: how many sessions the driver runs at once; the server takes one.

    Raises:
        ConfigError: a package is missing.
    """

    def __init__(self, settings: PersonaplexWsSettings, rows: int = 1) -> None:
        self._settings = settings
        self._peer = Peer("PersonaPlex's server", settings.base_url)
        self.facts = AgentFacts("personaplex", "full", "native", versions())

    async def open(self, prompt: str, seed: int) -> MoshiSession:
        """Connect with voice and prompt, and wait until the server has read them to its model; no seed is sent.

        Raises:
            AgentError: it refused. ``AgentLostError`` where it cannot be reached, fails, or is not ready in time.
        """
        text = prompt or self._settings.empty_prompt
        query = urlencode({"voice_prompt": self._settings.voice, "text_prompt": text})
        url = f"{self._settings.base_url.rstrip('/')}{PATH}?{query}"
        try:
            socket = await dial(self._peer, url, self._settings)
        except AgentLostError:
            raise
        except AgentError as error:
            raise AgentError(f"{error} {self._advice(text)}") from None
        return MoshiSession(socket, self._peer, (Note("prompt", wrapped(text)),), np.zeros(0, np.float32))

    def _advice(self, text: str) -> str:
        """The server gives no reason where it fails: what it is known to fail on."""
        if not text:
            return (
                "NVIDIA's server fails on an empty prompt: use transport=own, which takes it, or set "
                "model.empty_prompt, or have the server set text_prompt_tokens to [] instead of None."
            )
        return f"Is {self._settings.voice} among the server's voices?"

    async def close(self) -> None:
        """Nothing is kept between sessions."""
