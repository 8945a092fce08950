"""Both synthesisers for real: Kokoro's models are fetched on the first run."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dsbif.agents.ears import Ears
from dsbif.audio.silero import speech_spans
from dsbif.bench.tokens import tokens
from dsbif.build import engine_espeak
from dsbif.build.assets import locate
from dsbif.build.render import JOINT_SAMPLES, pause_samples, render_turn, trim
from dsbif.build.script import Line
from dsbif.build.voices import Engine, VoiceSettings, make_engine, voice_for
from dsbif.errors import CaseError, ConfigError

SENTENCE = "My father fell down the stairs this morning."
ALL_KOKORO = VoiceSettings("kokoro", ("af_heart", "bm_george"))


@pytest.fixture(scope="module")
def kokoro(assets: Path) -> Engine:
    return make_engine(ALL_KOKORO, assets)


@pytest.fixture(params=["espeak", "kokoro"])
def engine(request: pytest.FixtureRequest) -> Engine:
    found = request.getfixturevalue(request.param)
    assert isinstance(found.voices, tuple)
    return found  # type: ignore[no-any-return]


def _digest(engine: Engine, text: str, voice: str) -> str:
    return hashlib.sha256(engine.speak(text, voice).tobytes()).hexdigest()


def test_speech_does_not_depend_on_what_was_said_before(engine: Engine) -> None:
    """espeak-ng carries state from call to call unless it is loaded afresh."""
    first, other = engine.voices[0], engine.voices[-1]
    alone = _digest(engine, SENTENCE, first)
    engine.speak("Something else entirely, you know?", other)
    assert _digest(engine, SENTENCE, first) == alone


@pytest.mark.parametrize("name", ["espeak", "kokoro"])
def test_another_process_says_the_same(name: str, assets: Path, request: pytest.FixtureRequest) -> None:
    engine = request.getfixturevalue(name)
    voice = engine.voices[1]
    code = (
        "import hashlib, pathlib, sys; from dsbif.build.voices import VoiceSettings, make_engine;"
        f"e = make_engine(VoiceSettings({name!r}, ({voice!r},)), pathlib.Path(sys.argv[1]));"
        f"print(hashlib.sha256(e.speak({SENTENCE!r}, {voice!r}).tobytes()).hexdigest())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(assets)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [_digest(engine, SENTENCE, voice)]


def test_speech_is_mono_at_24_khz_and_a_detector_hears_it(engine: Engine) -> None:
    pcm = render_turn([Line("s", text=SENTENCE)], engine, engine.voices[3]).samples
    assert pcm.dtype == np.float32
    assert pcm.ndim == 1
    assert 1.5 < len(pcm) / 24_000 < 5.0
    spans = speech_spans(pcm, 24_000)
    assert spans[0].start_s < 0.15
    assert spans[-1].end_s > len(pcm) / 24_000 - 0.15


def test_a_recogniser_reads_kokoro_back_word_for_word(kokoro: Engine, assets: Path) -> None:
    ears = Ears(locate("whisper-tiny-en", assets))
    heard = ears.transcribe(render_turn([Line("s", text=SENTENCE)], kokoro, "af_heart").samples)
    assert tokens(heard) == tokens(SENTENCE)


def test_kokoro_has_28_english_voices_and_its_identity_names_its_weights(kokoro: Engine) -> None:
    assert len(kokoro.voices) == 28
    assert {voice[:2] for voice in kokoro.voices} == {"af", "am", "bf", "bm"}
    assert "6e742170d309" in kokoro.identity


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            VoiceSettings("kokoro", ("af_heart", "af_nobody")),
            r"names af_nobody, which kokoro does not have; it has: af_",
        ),
        (VoiceSettings("espeak", ("en-us+x9",)), r"names en-us\+x9, which espeak does not have"),
        (VoiceSettings("festival", ("x",)), r"voice.engine is 'festival'; known: kokoro, espeak"),
    ],
)
def test_a_voice_that_is_not_there_is_an_error_and_never_another_voice(
    settings: VoiceSettings, message: str, assets: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_engine(settings, assets)


def test_pauses_are_exact_zeros_and_segments_lie_where_they_are_said_to(engine: Engine) -> None:
    lines = [
        Line("s1", text="One two three,"),
        Line("pause", pause_s=1.2),
        Line("s3", text="four."),
        Line("s4", text="Five."),
    ]
    turn = render_turn(lines, engine, engine.voices[0])
    by_name = {segment.name: segment.span for segment in turn.segments}
    cut = {name: (round(span.start_s * 24_000), round(span.end_s * 24_000)) for name, span in by_name.items()}
    start, stop = cut["pause"]
    assert stop - start == 28_800
    assert not turn.samples[start:stop].any()
    assert cut["s1"] == (0, start)
    assert cut["s3"][0] == stop
    assert cut["s4"][0] - cut["s3"][1] == JOINT_SAMPLES
    assert cut["s4"][1] == len(turn.samples)
    assert not turn.samples[cut["s3"][1] : cut["s4"][0]].any()
    for name in ("s1", "s3", "s4"):
        first, last = cut[name]
        assert np.abs(turn.samples[first : first + 600]).max() > 0.001
        assert np.abs(turn.samples[last - 600 : last]).max() > 0.001


@pytest.mark.parametrize(
    ("duration_s", "samples"), [(2.5, 60_000), (1.2, 28_800), (7.0, 168_000), (0.00004, 0), (1.5, 36_000)]
)
def test_a_pause_is_floored_to_samples(duration_s: float, samples: int) -> None:
    assert pause_samples(duration_s) == samples


def test_trimming_keeps_ten_milliseconds_around_what_is_audible() -> None:
    tone = np.sin(np.arange(12_000) / 5).astype(np.float32)
    padded = np.concatenate([np.zeros(9_600, np.float32), tone, np.zeros(4_800, np.float32)])
    assert len(trim(padded)) == 12_000 + 480
    assert len(trim(np.zeros(24_000, np.float32))) == 0
    assert len(trim(np.zeros(10, np.float32))) == 0


def test_a_line_that_says_nothing_is_an_error(espeak: Engine) -> None:
    with pytest.raises(CaseError, match="says nothing audible for"):
        render_turn([Line("s", text=" . ")], espeak, espeak.voices[0])


def test_the_voice_of_a_conversation_is_its_hash() -> None:
    voices = tuple("abcdefg")
    expected = voices[int(hashlib.sha1(b"R4-C2-i3").hexdigest(), 16) % 7]
    assert voice_for("R4-C2-i3", voices) == expected
    assert len({voice_for(f"R1-C1-i{n}", voices) for n in range(50)}) == 7


def test_both_engines_live_in_one_process(espeak: Engine, kokoro: Engine) -> None:
    """Kokoro's phonemizer uses the espeak-ng library too."""
    alone = [_digest(espeak, "Thank you.", "en-us+m1"), _digest(kokoro, "Thank you.", "bm_george")]
    mixed = [_digest(espeak, "Thank you.", "en-us+m1"), _digest(kokoro, "Thank you.", "bm_george")]
    assert mixed == alone


def test_kokoro_prints_nothing(assets: Path) -> None:
    code = (
        "import pathlib, sys; from dsbif.build.voices import VoiceSettings, make_engine;"
        "e = make_engine(VoiceSettings('kokoro', ('af_heart',)), pathlib.Path(sys.argv[1]));"
        "e.speak('He said: one, two, and then, well, nothing!', 'af_heart')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(assets)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_kokoro_says_which_text_it_cannot_say(kokoro: Engine) -> None:
    with pytest.raises(CaseError, match=r"voice af_heart cannot say ' ': .*Write the line otherwise"):
        kokoro.speak(" ", "af_heart")


@pytest.mark.parametrize(
    ("package", "engine"), [("kokoro_onnx", "kokoro"), ("onnxruntime", "kokoro"), ("espeakng_loader", "espeak")]
)
def test_a_missing_package_says_what_installs_it(
    package: str, engine: str, assets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(engine_espeak, "_library_copy", engine_espeak._library_copy.__wrapped__)
    with pytest.raises(ConfigError, match=rf'voice={engine} needs .*: pip install "dsbif\[speech\]"'):
        make_engine(VoiceSettings(engine, ()), assets)
