"""The two channels of a session on one clock: ch0 the user, ch1 the agent, 24 kHz.

Agent audio is placed at ``max(arrival, cursor)``: a burst collapses to real-time playback and no sample is lost. What
is still queued when the session ends is kept, and the user's channel is then silent beside it.

Source: DSB-IFEval, the recording; the placement rule is the paper's.
"""

import numpy as np

from dsbif.session.pcm import FRAME_SAMPLES, Pcm
from dsbif.session.recording import AudioPlaced

_BLOCK = 24_000 * 30


class _Channel:
    """A growing float32 track."""

    def __init__(self) -> None:
        self._data = np.zeros(_BLOCK, np.float32)
        self.end = 0

    def write(self, position: int, pcm: Pcm) -> None:
        stop = position + len(pcm)
        if stop > len(self._data):
            grown = np.zeros(max(stop, len(self._data) * 2), np.float32)
            grown[: len(self._data)] = self._data
            self._data = grown
        self._data[position:stop] = pcm
        self.end = max(self.end, stop)

    def cut(self, stop: int) -> None:
        if stop < self.end:
            self._data[stop : self.end] = 0
            self.end = stop

    def read(self, start: int, stop: int) -> Pcm:
        out = np.zeros(stop - start, np.float32)
        inside = self._data[start : min(stop, self.end)]
        out[: len(inside)] = inside
        return out


class Tape:
    """Records one session."""

    def __init__(self) -> None:
        self._user = _Channel()
        self._agent = _Channel()
        self._placed: list[AudioPlaced] = []

    @property
    def placed(self) -> tuple[AudioPlaced, ...]:
        """Where the agent's audio went; back-to-back frames that arrived just in time are joined into one entry."""
        return tuple(self._placed)

    @property
    def agent_end(self) -> int:
        """The sample after the agent's last."""
        return self._agent.end

    def user(self, pcm: Pcm) -> None:
        """Append to the user's channel."""
        self._user.write(self._user.end, pcm)

    def agent(self, arrival: int, pcm: Pcm) -> int:
        """Place agent audio that arrived at sample ``arrival``; returns its position."""
        position = max(arrival, self._agent.end)
        if not len(pcm):
            return position
        self._agent.write(position, pcm)
        last = self._placed[-1] if self._placed else None
        on_time = position == arrival
        if last and on_time and last.arrival_samples == last.position_samples and _end(last) == position:
            self._placed[-1] = AudioPlaced(last.arrival_samples, last.position_samples, last.samples + len(pcm))
        else:
            self._placed.append(AudioPlaced(arrival, position, len(pcm)))
        return position

    def drop_queued(self, now: int) -> int:
        """Forget agent audio that would be played at or after sample ``now``; returns how many samples."""
        dropped = max(0, self._agent.end - now)
        self._agent.cut(now)
        kept = [item for item in self._placed if item.position_samples < now]
        if kept and _end(kept[-1]) > now:
            last = kept[-1]
            kept[-1] = AudioPlaced(last.arrival_samples, last.position_samples, now - last.position_samples)
        self._placed = kept
        return dropped

    def played(self, start: int, stop: int) -> Pcm:
        """The agent's channel between two samples, silence where nothing was placed."""
        return self._agent.read(start, stop)

    def stereo(self) -> Pcm:
        """Both channels, float32 [samples, 2], equally long, a whole number of 20 ms frames."""
        end = max(self._user.end, self._agent.end)
        end += -end % FRAME_SAMPLES
        return np.stack([self._user.read(0, end), self._agent.read(0, end)], axis=1)


def _end(item: AudioPlaced) -> int:
    return item.position_samples + item.samples
