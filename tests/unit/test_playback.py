import numpy as np

from dsbif.agents.playback import Playback, Utterance
from dsbif.session.agent import AgentAudio, AgentText, Emission


def _play(playback: Playback, start: int, stop: int, frame: int = 480) -> tuple[np.ndarray, list[tuple[int, str]]]:
    track, texts = np.zeros(stop - start, np.float32), []
    for now in range(start, stop, frame):
        for emission in playback.pull(now, frame):
            if isinstance(emission, AgentAudio):
                track[now - start : now - start + len(emission.pcm)] = emission.pcm
            elif isinstance(emission, AgentText):
                texts.append((now, emission.text))
    return track, texts


def test_an_utterance_begins_at_its_sample_and_keeps_every_one() -> None:
    playback = Playback()
    speech = np.arange(1, 1001, dtype=np.float32)
    playback.schedule(700, Utterance([("hello", speech)]))
    track, texts = _play(playback, 0, 2400)
    assert np.array_equal(track[700:1700], speech)
    assert np.count_nonzero(track) == 1000
    assert texts == [(1440, "hello")]
    assert not playback.busy


def test_a_text_is_reported_when_its_audio_has_been_played() -> None:
    playback = Playback()
    playback.schedule(0, Utterance([("one", np.ones(960, np.float32)), ("two", np.ones(960, np.float32))]))
    _, texts = _play(playback, 0, 1440)
    assert texts == [(480, "one")]
    assert playback.busy


def test_what_is_stopped_is_neither_heard_nor_reported() -> None:
    playback = Playback()
    playback.schedule(0, Utterance([("one", np.ones(4800, np.float32))]))
    _play(playback, 0, 960)
    playback.stop()
    track, texts = _play(playback, 960, 4800)
    assert not track.any()
    assert texts == []
    assert not playback.busy


def test_a_second_utterance_follows_the_first() -> None:
    playback = Playback()
    playback.schedule(0, Utterance([("one", np.ones(480, np.float32))]))
    playback.schedule(100, Utterance([("two", np.full(480, 2, np.float32))]))
    track, _ = _play(playback, 0, 1440)
    assert track.tolist() == [1.0] * 480 + [2.0] * 480 + [0.0] * 480


def test_nothing_is_emitted_before_its_time() -> None:
    playback = Playback()
    playback.schedule(10_000, Utterance([("later", np.ones(10, np.float32))]))
    silence: list[Emission] = []
    assert playback.pull(0, 480) == silence
    assert playback.busy


def test_words_are_reported_as_they_are_said_and_what_is_cut_off_is_not() -> None:
    playback = Playback()
    playback.schedule(0, Utterance.word_by_word("one four seven", np.ones(4800, np.float32)))
    _, texts = _play(playback, 0, 2400)
    assert [text for _, text in texts] == ["one"]
    playback.stop()
    assert _play(playback, 2400, 4800)[1] == []


def test_an_utterance_word_by_word_keeps_every_sample_and_word() -> None:
    speech = np.arange(1, 5001, dtype=np.float32)
    utterance = Utterance.word_by_word(" five  five zero ", speech)
    assert [word for word, _ in utterance.pieces] == ["five", "five", "zero"]
    assert np.array_equal(np.concatenate([pcm for _, pcm in utterance.pieces]), speech)
