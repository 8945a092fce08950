"""Frames: what goes in comes out, and what is no frame is refused before anything large is read."""

import json
import os
import struct
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dsbif.agents.framing import MOST_HEADER_BYTES, MOST_PAYLOAD_BYTES, Channel, EndError, FrameError, LateError, unpack
from dsbif.agents.framing import pack as pack_frame

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _bytes(header: dict[str, object], pcm: "np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None" = None) -> bytes:
    return b"".join(bytes(piece) for piece in pack_frame(header, pcm))


class _Source:
    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.asked = data, 0, 0

    def read(self, size: int) -> bytearray:
        self.asked += size
        taken = bytearray(self.data[self.at : self.at + size])
        if len(taken) < size:
            raise EndError(f"{size - len(taken)} bytes short", clean=not taken)
        self.at += size
        return taken


@given(
    st.dictionaries(st.text(), JSON, max_size=5),
    arrays(np.float32, st.integers(0, 300), elements=st.floats(width=32, allow_nan=True)),
)
def test_what_goes_in_comes_out(header: dict[str, object], pcm: "np.ndarray[tuple[int], np.dtype[np.float32]]") -> None:
    source = _Source(_bytes(header, pcm) + _bytes({"next": 1}))
    found, samples = unpack(source.read)
    assert found == header
    assert samples.tobytes() == pcm.tobytes()
    assert unpack(source.read)[0] == {"next": 1}


def test_the_bytes_are_as_the_docstring_says() -> None:
    assert _bytes({"op": "x"}, np.array([[1.0], [-0.5]], np.float32)) == (
        b"DSBW" + struct.pack("<IQ", 10, 8) + b'{"op":"x"}' + struct.pack("<ff", 1.0, -0.5)
    )


def test_a_strided_array_goes_out_in_order() -> None:
    every = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert unpack(_Source(_bytes({}, every[:, ::2])).read)[1].tolist() == [0, 2, 4, 6, 8, 10]


@given(st.integers(1, 33))
def test_a_truncated_frame_is_no_clean_end(cut: int) -> None:
    whole = _bytes({"op": "x"}, np.zeros(2, np.float32))
    assert len(whole) == 34
    with pytest.raises(EndError) as end:
        unpack(_Source(whole[:cut]).read)
    assert not end.value.clean


def test_the_end_between_frames_is_clean() -> None:
    with pytest.raises(EndError) as end:
        unpack(_Source(b"").read)
    assert end.value.clean


@pytest.mark.parametrize(("header", "payload"), [(MOST_HEADER_BYTES + 1, 0), (2, MOST_PAYLOAD_BYTES + 4)])
def test_an_oversize_frame_is_refused_before_it_is_read(header: int, payload: int) -> None:
    source = _Source(b"DSBW" + struct.pack("<IQ", header, payload) + b"{}")
    with pytest.raises(FrameError, match="at most 16777216 \\+ 1073741824 are taken"):
        unpack(source.read)
    assert source.asked == 16


def test_an_oversize_frame_is_not_sent() -> None:
    with pytest.raises(FrameError, match="at most"):
        pack_frame({"text": "x" * MOST_HEADER_BYTES})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"HTTP/1.1 400 Bad", "begins with b'HTTP'"),
        (b"DSBW" + struct.pack("<IQ", 2, 3) + b"{}abc", "3 bytes is no float32"),
        (b"DSBW" + struct.pack("<IQ", 2, 0) + b"{x", "no JSON"),
        (b"DSBW" + struct.pack("<IQ", 2, 0) + b"[]", "list; wanted an object"),
    ],
)
def test_what_is_no_frame_is_told(data: bytes, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        unpack(_Source(data).read)


def _pair() -> tuple[Channel, Channel]:
    (a, b), (c, d) = os.pipe(), os.pipe()
    return Channel(a, d), Channel(c, b)


def test_frames_larger_than_a_pipe_go_through() -> None:
    ours, theirs = _pair()
    large = np.arange(200_000, dtype=np.float32)
    sender = threading.Thread(target=ours.send, args=({"n": 1}, large))
    sender.start()
    header, samples = theirs.receive(60)
    sender.join(60)
    assert header == json.loads('{"n": 1}')
    assert np.array_equal(samples, large)
    for channel in (ours, theirs, ours):
        channel.close()


def test_waiting_ends() -> None:
    ours, theirs = _pair()
    with pytest.raises(LateError):
        ours.receive(0.01)
    with pytest.raises(LateError):
        ours.send({}, np.zeros(200_000, np.float32), 0.01)
    theirs.close()
    with pytest.raises(EndError):
        ours.receive(60)
    with pytest.raises(EndError):
        ours.send({}, None, 60)
    ours.close()


def test_a_process_that_left_its_pipes_to_others_is_gone() -> None:
    (a, b), (c, d) = os.pipe(), os.pipe()
    ours = Channel(a, d, alive=lambda: False)
    with pytest.raises(EndError, match="has ended"):
        ours.receive(None)
    ours.close()
    os.close(b)
    os.close(c)
