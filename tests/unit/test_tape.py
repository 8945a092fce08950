import numpy as np

from dsbif.session.recording import AudioPlaced
from dsbif.session.tape import Tape


def test_a_burst_is_placed_at_real_time_speed_and_nothing_is_lost() -> None:
    """Twenty seconds of speech that arrive within two."""
    tape = Tape()
    speech = np.arange(1, 480_001, dtype=np.float32) / 480_000
    for index in range(100):
        tape.user(np.zeros(480, np.float32))
        tape.agent(480 * (index + 1), speech[index * 4800 : (index + 1) * 4800])
    stereo = tape.stereo()
    assert len(stereo) == 480_480
    assert np.array_equal(stereo[480:480_480, 1], speech)
    assert len(tape.placed) == 100
    assert tape.placed[1] == AudioPlaced(arrival_samples=960, position_samples=5280, samples=4800)


def test_audio_that_comes_after_a_silence_is_placed_when_it_comes() -> None:
    tape = Tape()
    tape.agent(0, np.ones(480, np.float32))
    assert tape.agent(4800, np.ones(480, np.float32)) == 4800
    assert np.flatnonzero(tape.stereo()[:, 1]).tolist() == [*range(480), *range(4800, 5280)]


def test_odd_pieces_join_without_a_shift() -> None:
    tape = Tape()
    speech = np.linspace(-1, 1, 4810, dtype=np.float32)
    for start in range(0, 4810, 481):
        tape.agent(480, speech[start : start + 481])
    assert np.array_equal(tape.stereo()[480 : 480 + 4810, 1], speech)


def test_frames_that_come_just_in_time_make_one_entry() -> None:
    tape = Tape()
    for index in range(50):
        tape.agent(480 * index, np.ones(480, np.float32))
    assert tape.placed == (AudioPlaced(0, 0, 24_000),)


def test_channels_are_equally_long_also_when_one_never_speaks() -> None:
    tape = Tape()
    tape.user(np.ones(1000, np.float32))
    assert tape.stereo().shape == (1440, 2)
    assert not tape.stereo()[:, 1].any()


def test_a_long_session_keeps_its_first_sample() -> None:
    tape = Tape()
    for _ in range(100):
        tape.user(np.full(24_000, 0.5, np.float32))
    assert np.all(tape.stereo()[:, 0] == 0.5)
    assert len(tape.stereo()) == 2_400_000


def test_nothing_is_placed_for_empty_audio() -> None:
    tape = Tape()
    tape.agent(480, np.zeros(0, np.float32))
    assert tape.placed == ()


def test_what_is_played_is_silence_where_nothing_was_placed() -> None:
    tape = Tape()
    tape.agent(480, np.ones(480, np.float32))
    assert tape.played(0, 1440).tolist() == [0.0] * 480 + [1.0] * 480 + [0.0] * 480


def test_what_is_queued_can_be_forgotten_and_new_audio_begins_there() -> None:
    tape = Tape()
    tape.agent(0, np.ones(960, np.float32))
    tape.agent(100, np.full(960, 0.5, np.float32))
    assert tape.drop_queued(1200) == 720
    assert tape.agent_end == 1200
    assert tape.placed == (AudioPlaced(0, 0, 960), AudioPlaced(100, 960, 240))
    assert tape.agent(1300, np.full(10, 0.25, np.float32)) == 1300
    assert tape.played(1190, 1310).tolist() == [0.5] * 10 + [0.0] * 100 + [0.25] * 10


def test_forgetting_what_has_been_played_changes_nothing() -> None:
    tape = Tape()
    tape.agent(0, np.ones(960, np.float32))
    assert tape.drop_queued(960) == 0
    assert tape.placed == (AudioPlaced(0, 0, 960),)
