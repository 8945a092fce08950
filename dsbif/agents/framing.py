"""Frames over pipes: a JSON header and float32 samples, so that an agent can live under another interpreter.

A frame is ``DSBW``, the header's length (uint32) and the payload's (uint64), both in bytes and little-endian, then the
header as UTF-8 JSON and the payload as little-endian float32. Imports next to nothing: both sides use it.
"""

from __future__ import annotations

import json
import os
import select
import struct
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

PROTOCOL = 1
"""Raised with every change of what the messages mean; both sides name theirs in the first frame."""
MOST_HEADER_BYTES = 16 << 20
MOST_PAYLOAD_BYTES = 1 << 30
_MAGIC = b"DSBW"
_PREFIX = struct.Struct("<4sIQ")
_LOOK_S = 0.5

Floats = NDArray[np.float32]


class FrameError(Exception):
    """What came is no frame, or a frame that would not be taken."""


class EndError(Exception):
    """The other side is gone; ``clean``: between two frames, not within one."""

    def __init__(self, message: str, clean: bool) -> None:
        super().__init__(message)
        self.clean = clean


class LateError(Exception):
    """The other side took or gave nothing in time."""


def pack(header: Mapping[str, Any], pcm: Floats | None = None) -> list[memoryview]:
    """One frame, as pieces to be written one after the other; ``pcm`` float32 of any shape.

    Raises:
        FrameError: it is larger than the other side would take.
    """
    words = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    samples = np.zeros(0, np.float32) if pcm is None else np.ascontiguousarray(pcm, "<f4").reshape(-1)
    _check_sizes(len(words), samples.nbytes)
    pieces = [memoryview(_PREFIX.pack(_MAGIC, len(words), samples.nbytes) + words)]
    if len(samples):
        pieces.append(samples.data.cast("B"))
    return pieces


def unpack(read: Callable[[int], bytearray]) -> tuple[dict[str, Any], Floats]:
    """The next frame: its header and its samples, float32 [n].

    Args:
        read: gives exactly as many bytes as asked for, or raises ``EndError``.

    Raises:
        FrameError: what comes is no frame, or too large.
        EndError: there is no more; not clean where a frame had begun.
    """
    magic, header_bytes, payload_bytes = _PREFIX.unpack(read(_PREFIX.size))
    if magic != _MAGIC:
        raise FrameError(f"a frame begins with {bytes(magic)!r}; wanted {_MAGIC!r}")
    _check_sizes(header_bytes, payload_bytes)
    if payload_bytes % 4:
        raise FrameError(f"a payload of {payload_bytes} bytes is no float32")
    try:
        words = read(header_bytes)
        payload = read(payload_bytes) if payload_bytes else bytearray()
    except EndError as end:
        raise EndError(str(end), clean=False) from end
    try:
        header = json.loads(words.decode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise FrameError(f"a header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise FrameError(f"a header is {type(header).__name__}; wanted an object")
    return header, np.frombuffer(payload, "<f4").astype(np.float32, copy=False)


def _check_sizes(header_bytes: int, payload_bytes: int) -> None:
    if header_bytes > MOST_HEADER_BYTES or payload_bytes > MOST_PAYLOAD_BYTES:
        raise FrameError(
            f"a frame of {header_bytes} + {payload_bytes} bytes; at most {MOST_HEADER_BYTES} + {MOST_PAYLOAD_BYTES} "
            "are taken"
        )


class Channel:
    """Frames over two pipe ends, which it owns.

    Args:
        reading: file descriptor that the other side writes to.
        writing: file descriptor that the other side reads from.
        alive: asked now and then while waiting; a process that left its pipes to others is gone too.
    """

    def __init__(self, reading: int, writing: int, alive: Callable[[], bool] = lambda: True) -> None:
        self._reading, self._writing, self._alive = reading, writing, alive
        self._open = True
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(reading, select.POLLIN)
        self._writable.register(writing, select.POLLOUT)

    def send(self, header: Mapping[str, Any], pcm: Floats | None = None, timeout_s: float | None = None) -> None:
        """Write one frame.

        Raises:
            EndError: nobody reads any more. LateError: it was not taken in time. FrameError: it is too large.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        for piece in pack(header, pcm):
            rest = piece
            while rest:
                self._wait(self._writable, deadline)
                try:
                    rest = rest[os.write(self._writing, rest) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise EndError(f"nobody reads ({error})", clean=False) from error

    def receive(self, timeout_s: float | None = None) -> tuple[dict[str, Any], Floats]:
        """Read one frame.

        Raises:
            EndError: the other side is gone. LateError: nothing whole came in time. FrameError: it is none.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        return unpack(lambda size: self._exactly(size, deadline))

    def close(self) -> None:
        """Close both ends; may be called twice."""
        if self._open:
            self._open = False
            os.close(self._reading)
            os.close(self._writing)

    def _exactly(self, size: int, deadline: float | None) -> bytearray:
        taken = bytearray(size)
        view, at = memoryview(taken), 0
        while at < size:
            self._wait(self._readable, deadline)
            try:
                piece = os.readv(self._reading, [view[at:]])
            except BlockingIOError:
                continue
            except OSError as error:
                raise EndError(f"nobody writes ({error})", clean=False) from error
            if not piece:
                raise EndError(f"the stream ended {size - at} bytes short", clean=at == 0)
            at += piece
        return taken

    def _wait(self, ready: select.poll, deadline: float | None) -> None:
        while True:
            left_s = _LOOK_S if deadline is None else min(_LOOK_S, deadline - monotonic())
            if ready.poll(max(0.0, left_s) * 1000):
                return
            if not self._alive():
                raise EndError("the process has ended", clean=False)
            if deadline is not None and monotonic() >= deadline:
                raise LateError
