"""Sound as one Ogg/Opus stream at 24 kHz, the way Moshi's server and those that grew out of it speak it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.agents.sockets import package
from dsbif.errors import AgentError
from dsbif.session.pcm import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from dsbif.agents.sockets import Peer
    from dsbif.session.pcm import Pcm

PACKET_SAMPLES = 960
"""What the encoder puts into one packet, 40 ms; it keeps what is less, and has no way to be emptied."""
DELAY_SAMPLES = 240
"""More than the codec's own delay, 6.5 ms as measured with sphn 0.2.1."""
_SLICE_BYTES = 512
"""What the decoder is given at once: sphn 0.2.1 fails on about ten seconds in one piece."""


class OpusWriter:
    """Float32 in, the stream's next bytes out.

    Raises:
        ConfigError: the package is missing.
    """

    def __init__(self) -> None:
        self._stream: Any = package("sphn", "live").OpusStreamWriter(SAMPLE_RATE_HZ)

    def push(self, pcm: Pcm) -> bytes:
        """Take samples, float32 [n]; return the bytes of the packets that are full by now."""
        data = self._stream.append_pcm(np.ascontiguousarray(pcm, np.float32))
        return b"" if data is None else bytes(data)


class OpusReader:
    """The stream's bytes in, cut anywhere; float32 out.

    Raises:
        ConfigError: the package is missing.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stream: Any = package("sphn", "live").OpusStreamReader(SAMPLE_RATE_HZ)

    def push(self, data: bytes) -> Pcm:
        """Take the next bytes; return the samples that are whole by now, float32 [n].

        Raises:
            AgentError: they are no Ogg/Opus.
        """
        try:
            slices = (data[start : start + _SLICE_BYTES] for start in range(0, len(data), _SLICE_BYTES))
            pieces = [np.asarray(self._stream.append_bytes(piece), np.float32).reshape(-1) for piece in slices]
        except Exception as error:  # noqa: BLE001 - the decoder tells nonsense by several errors
            raise AgentError(f"{self._peer.name} sent sound that is no Ogg/Opus: {self._peer.clean(error)}.") from None
        return np.concatenate([np.zeros(0, np.float32), *pieces])
