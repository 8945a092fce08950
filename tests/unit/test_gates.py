from pathlib import Path

import pytest
import yaml

from dsbif.bench import gates
from dsbif.bench.grid import CaseKey
from dsbif.bench.levels import Level
from dsbif.bench.roles import ROLES_DIR, Role, load_role, load_roles
from dsbif.errors import ConfigError

PERSONA = " ".join(["calm"] * 70)


def _role(persona: str = PERSONA, directive: str = "Stop at once.") -> Role:
    return Role("R4", "meditation_guide", "guide", persona, directive, {}, {}, {})


def test_our_own_roles_pass_every_gate() -> None:
    assert [str(breach) for breach in gates.check(load_roles())] == []
    assert gates.main() == 0


@pytest.mark.parametrize("term", gates.FORBIDDEN)
def test_every_forbidden_word_is_found_in_any_case_and_on_word_boundaries(term: str) -> None:
    assert gates.forbidden_words(f"You never {term.upper()}.") == (term,)
    assert gates.forbidden_words(f"You never x{term}x.") == ()


def test_inflections_are_other_words() -> None:
    assert gates.forbidden_words("waiting, paused, speaker") == ()


def test_overlap_counts_content_words_as_sets() -> None:
    assert gates.overlap("The nurse and a calm nurse", "calm doctor, calm and quick") == pytest.approx(1 / 4)
    assert gates.overlap("a I", "the of") == 0.0


@pytest.mark.parametrize(("words", "breach"), [(59, True), (60, False), (120, False), (121, True)])
def test_a_persona_has_sixty_to_a_hundred_and_twenty_words(words: int, breach: bool) -> None:
    found = [item.gate for item in gates.breaches(_role(" ".join(["calm"] * words)))]
    assert ("length" in found) == breach


def test_a_persona_that_states_its_rule_is_named_with_its_words() -> None:
    persona = f"You never interrupt. {PERSONA}"
    (breach,) = [item for item in gates.breaches(_role(persona)) if item.gate.startswith("V3")]
    assert str(breach) == "R4: V3 imperative lint: the persona says 'interrupt'"


def test_a_persona_that_repeats_its_directive_is_named_with_the_shared_words() -> None:
    (breach,) = [b for b in gates.breaches(_role(directive="calm silence")) if b.gate.startswith("V4")]
    assert "0.500, wanted below 0.15; shared words: calm" in str(breach)


def test_the_command_fails_with_the_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ROLES_DIR.glob("*.yaml"):
        raw = yaml.safe_load(path.read_text())
        if raw["id"] == "R5":
            raw["persona"] += " You wait."
        (tmp_path / path.name).write_text(yaml.safe_dump(raw))
    assert gates.main(tmp_path) == 1
    assert "R5: V3 imperative lint: the persona says 'wait'" in capsys.readouterr().err


def test_the_command_says_which_file_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gates.main(tmp_path) == 2
    assert "R1.yaml cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["id: R1", "[]", "id: [", "persona: 3"])
def test_a_broken_role_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "R1.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"R1.yaml cannot be used: .*Compare it with"):
        load_role(tmp_path / "R1.yaml")


def test_prompts_are_put_together_as_the_levels_say() -> None:
    role = load_roles()["R1"]
    prompts = {level: role.prompt_for(CaseKey("R1", "C2", 3, level)) for level in Level if level is not Level.L4B}
    assert prompts[Level.L0] == ""
    assert prompts[Level.L1] == role.directive
    assert prompts[Level.L2] == role.persona
    assert prompts[Level.L3] == f"{role.persona}\n\n{role.directive}"
    assert prompts[Level.L4A].startswith(f"{role.persona}\n\nAdditionally: ")
    assert role.prompt_for(CaseKey("R1", "C2", 3, Level.L4B)) == f"{role.persona}\n\n{role.safety['C2']}"


def test_the_five_contradictions_of_a_cell_are_all_used_and_always_the_same() -> None:
    role = load_roles()["R1"]
    picked = [role.contradiction_for(CaseKey("R1", "C3", n, Level.L4A)) for n in range(1, 60)]
    assert set(picked) == set(role.contradictions["C3"])
    assert picked == [role.contradiction_for(CaseKey("R1", "C3", n, Level.L4A)) for n in range(1, 60)]
