"""F-Actor's loop on stand-ins: what is forced, what is sampled, what can never be."""

import numpy as np
import pytest
from peers.factor import VOCABULARY, Codes, TinyModel

from dsbif.agents.factor_loop import CODES, DELAY_CODE, Logits, Loop, Sampling, draw

PAPER = Sampling(1.0, 0.9, 40)


def _codes(number: int) -> Codes:
    return np.full(4, number, np.int64)


def test_the_first_two_steps_are_delay_and_then_the_users_codes_are_forced() -> None:
    model = TinyModel()
    loop = Loop(model, [0, 1], PAPER, seed=1)
    steps = [loop.step(None), loop.step(None), *(loop.step(_codes(100 + n)) for n in range(5))]
    assert [step.codes is None for step in steps] == [True, True, False, False, False, False, False]
    loop.step(_codes(999))  # the model reads a step when the next one is taken
    assert [audio[4:] for audio, _ in model.read] == [[DELAY_CODE] * 4] * 2 + [[100 + n] * 4 for n in range(5)]
    assert [audio[:4] for audio, _ in model.read][:2] == [[DELAY_CODE] * 4] * 2
    said = [step.codes.tolist() for step in steps if step.codes is not None]
    assert [audio[:4] for audio, _ in model.read][2:] == said
    assert [text for _, text in model.read] == [step.text for step in steps]


def test_the_users_codes_must_come_when_they_are_due_and_not_before() -> None:
    loop = Loop(TinyModel(), [0], PAPER, seed=1)
    with pytest.raises(ValueError, match="step 0: the user's codes begin at step 2"):
        loop.step(_codes(1))
    loop.step(None)
    loop.step(None)
    with pytest.raises(ValueError, match="step 2"):
        loop.step(None)


def test_ends_and_delays_are_never_sampled_however_likely() -> None:
    loop = Loop(TinyModel(push_end=True), [0], PAPER, seed=1)
    steps = [loop.step(None), loop.step(None), *(loop.step(_codes(7)) for _ in range(60))]
    assert {step.text for step in steps} <= {0, 1}
    spoken = np.stack([step.codes for step in steps[2:] if step.codes is not None])
    assert spoken.shape == (60, 4)
    assert spoken.max() < CODES


def test_what_the_user_says_changes_what_the_agent_says() -> None:
    def said(user: int) -> list[list[int]]:
        loop = Loop(TinyModel(), [0], PAPER, seed=1)
        steps = [loop.step(None), loop.step(None), *(loop.step(_codes(user)) for _ in range(9))]
        return [step.codes.tolist() for step in steps if step.codes is not None]

    one, two = said(3), said(4)
    assert one[0] == two[0], "nothing was heard before the first"
    assert one[1:] != two[1:]
    assert one == said(3)


def test_seeds_differ_and_repeat() -> None:
    def said(seed: int) -> list[int]:
        loop = Loop(TinyModel(), [0], PAPER, seed)
        return [loop.step(None if n < 2 else _codes(0)).text for n in range(40)]

    assert said(1) == said(1)
    assert said(1) != said(2)


def _drawn(logits: list[float], sampling: Sampling, times: int = 400) -> dict[int, float]:
    rng = np.random.default_rng(0)
    found = [draw(np.array(logits, np.float32), sampling, rng) for _ in range(times)]
    return {token: found.count(token) / times for token in sorted(set(found))}


PROBABILITIES = [float(np.log(p)) for p in (0.1, 0.4, 0.3, 0.2)]


@pytest.mark.parametrize(
    ("sampling", "tokens"),
    [
        (Sampling(1.0, 1.0, 4), {0, 1, 2, 3}),
        (Sampling(1.0, 1.0, 2), {1, 2}),
        (Sampling(1.0, 0.39, 4), {1}),
        (Sampling(1.0, 0.41, 4), {1, 2}),
        (Sampling(1.0, 0.71, 4), {1, 2, 3}),
        (Sampling(1.0, 0.9, 2), {1, 2}),  # these two hold 0.7 of all probability: neither is cut
        (Sampling(0.0, 1.0, 4), {1}),
    ],
)
def test_top_k_and_top_p_keep_the_likeliest(sampling: Sampling, tokens: set[int]) -> None:
    assert set(_drawn(PROBABILITIES, sampling)) == tokens


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    shares = _drawn(PROBABILITIES, Sampling(1.0, 1.0, 4), times=4000)
    assert shares == pytest.approx({0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}, abs=0.03)
    cold = _drawn(PROBABILITIES, Sampling(0.5, 1.0, 4), times=4000)
    # squares, over their sum 0.30
    assert cold == pytest.approx({0: 0.01 / 0.3, 1: 0.16 / 0.3, 2: 0.09 / 0.3, 3: 0.04 / 0.3}, abs=0.03)


def test_logits_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        draw(np.array([0.0, np.nan], np.float32), PAPER, np.random.default_rng(0))
    assert isinstance(TinyModel().prefill([0])[0], Logits)
    assert len(VOCABULARY) == TinyModel().prefill([0])[0].text.shape[0]
