"""F-Actor's narrative and its text stream."""

import pytest
from peers.factor import VOCABULARY, WordTokenizer, settings

from dsbif.agents.factor_words import FLOOR_TOKENS, Words, narrative


def test_the_persona_is_the_narrative_word_for_word() -> None:
    prompt = narrative("You are a nurse.\n\nAlso: {be} brief.", ("Gweneth", "Tom"), (3, 0), starts=False)
    assert prompt.startswith("Generate a dialogue between you (Gweneth) and another speaker (Tom) ")
    assert "\nNarrative:\n- You are a nurse.\n\nAlso: {be} brief.\n\nYour behaviors:\n" in prompt
    assert "- backchannels: 3\n- interruptions: 0\n- starts the dialogue: False\n" in prompt
    assert prompt.endswith("\n<|SOS|>")


def test_without_a_prompt_the_narrative_is_an_empty_item() -> None:
    assert "\nNarrative:\n- \n\nYour behaviors:\n" in narrative("", ("Gweneth", "Tom"), (2, 2), starts=True)


def _words(*tokens: str) -> list[str]:
    words = Words(WordTokenizer())
    return [word for token in tokens if (word := words.push(VOCABULARY.index(token)))]


def test_words_are_whole_and_floor_tokens_are_none() -> None:
    stream = (
        "[SILENCE_PAD]",
        " yes",
        " four",
        "teen",
        "[WORD_PAD]",
        "[WORD_PAD]",
        " alder",
        "</s>",
        " no",
        " no",
        "<s>",
    )
    assert _words(*stream) == ["yes", "fourteen", "alder", "no", "no"]


def test_an_utterances_first_word_has_no_space_before_it() -> None:
    assert _words("[SILENCE_PAD]", "teen", " yes", "[WORD_PAD]") == ["teen", "yes"]


def test_there_are_as_many_floor_tokens_as_the_checkpoint_has() -> None:
    assert len(FLOOR_TOKENS) == len(set(FLOOR_TOKENS)) == 5 + 20 + 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": -1}, "temperature is -1; wanted 0 to 10"),
        ({"top_p": 0}, "top_p is 0; wanted 0.01 to 1"),
        ({"top_k": 0}, "top_k is 0"),
        ({"max_frames": 2}, "max_frames is 2; wanted 3 to"),
        ({"lookahead_frames": 9}, "lookahead_frames is 9; wanted 0 to 8"),
        ({"context_frames": 5}, "context_frames is 5; wanted 6 to 1000"),
        ({"backchannels": 41}, "backchannels is 41; wanted 0 to 40"),
        ({"interruptions": -1}, "interruptions is -1"),
        ({"dtype": "int8"}, "dtype is 'int8'; wanted float32, bfloat16 or float16"),
    ],
)
def test_settings_out_of_range_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        settings(**change)
