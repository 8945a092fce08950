from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir

from dsbif.bench.actions import Action
from dsbif.bench.grid import ROLE_IDS, cases_at
from dsbif.bench.levels import Level
from dsbif.bench.probes import PROBES
from dsbif.config import RunConfig, from_omegaconf, recording_identity, run_hash
from dsbif.errors import ConfigError
from dsbif.files import CONF_DIR
from dsbif.selection import QUICK_CELLS, select


def composed(*overrides: str) -> RunConfig:
    with initialize_config_dir(str(CONF_DIR.resolve()), version_base="1.3"):
        return from_omegaconf(compose("config", overrides=list(overrides)))


def _options() -> list[str]:
    groups = ["model", "level", "role", "probe", "thresholds", "voice", "tracker", "paths", "transcript"]
    return [f"{group}={path.stem}" for group in groups for path in sorted((CONF_DIR / group).glob("*.yaml"))]


_GIVEN = {
    "model=openai_realtime": ("model.model=m", "model.base_url=http://127.0.0.1:9/v1"),
    "model=websocket": ("model.url=ws://127.0.0.1:9",),
}
"""What an option leaves to its user."""


@pytest.mark.parametrize("option", _options())
def test_every_option_of_every_group_composes(option: str) -> None:
    assert isinstance(composed(option, *_GIVEN.get(option, ())), RunConfig)


@pytest.mark.parametrize("option", list(_GIVEN))
def test_what_must_be_given_is_named(option: str) -> None:
    wanted = ", ".join(sorted(word.partition("=")[0] + "=…" for word in _GIVEN[option]))
    with pytest.raises(ConfigError, match=f"{wanted} must be given"):
        composed(option)


@pytest.mark.parametrize("path", sorted(CONF_DIR.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_says_what_it_is(path: Path) -> None:
    assert path.read_text().startswith("# ")
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_the_groups_name_what_the_benchmark_has() -> None:
    assert {path.stem for path in (CONF_DIR / "level").glob("*.yaml")} == {str(level) for level in Level}
    assert {path.stem for path in (CONF_DIR / "role").glob("*.yaml")} == {"all", *ROLE_IDS}
    assert {path.stem for path in (CONF_DIR / "probe").glob("*.yaml")} == {"all", *PROBES}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=-1", r"key 'seed': .*greater than or equal to 0; found '-1'"),
        ("workers=0", r"key 'workers'"),
        ("subset=half", r"key 'subset': Input should be 'quick' or 'full'; found 'half'"),
        ("windows=maybe", r"key 'windows'"),
        ("stage=sing", r"key 'stage'"),
        ("voice.speed=9", r"key 'voice.speed'"),
        ("voice.voices=[]", r"key 'voice.voices'"),
        ("model.rows=none", r"key 'model.rows'"),
        ("model.pacing.gap_s=-3", r"key 'model.pacing.gap_s'"),
        ("model.name=../x", r"key 'model.name'"),
        ("probe.ids=[R5_A]", r"'R5_A', which is no probe\. Did you mean|Valid:"),
        ("role.ids=[R9]", r"key 'role.ids.0'"),
        ("transport=ws", r"transport=ws: cascade has no such way; it has: none but its own\."),
        ("+model.on_interrupt=stop", r"key 'model.on_interrupt': Input should be 'keep' or 'truncate'"),
        ("+model.processes=0", r"key 'model.processes'"),
    ],
)
def test_a_bad_value_is_named_with_its_key(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        composed(override)


def test_workers_follow_the_cores_unless_named() -> None:
    assert composed().workers >= 1
    assert composed("workers=7").workers == 7


def test_quick_covers_every_action_and_every_role() -> None:
    keys = select(composed())
    assert {key.action for key in keys} == set(Action)
    assert {key.role for key in keys} == set(ROLE_IDS)
    assert len(keys) == len(QUICK_CELLS) == 12
    assert {key.instance for key in keys} == {1}


def test_quick_with_a_named_role_is_one_instance_of_each_of_its_cells() -> None:
    assert [key.conversation_id for key in select(composed("role=R5"))] == [
        "R5-C1-i1", "R5-C2-i1", "R5-C3-i1", "R5-C4-i1", "R5-R5_A_wrong_intermediate_step-i1",
        "R5-R5_B_six_second_think-i1",
    ]  # fmt: skip


@pytest.mark.parametrize(("level", "n"), [("L0", 48), ("L1", 240), ("L4a", 240), ("L4b", 30)])
def test_full_is_the_whole_level(level: str, n: int) -> None:
    keys = select(composed("subset=full", f"level={level}"))
    assert keys == tuple(cases_at(Level(level)))
    assert len(keys) == n


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("role=R5", "probe=R6_A_ambiguous_item"), r"role=R5 never meets probe=R6_A_ambiguous_item"),
        (("role=R8", "level=L4b"), r"L4b exists for six cells of R1, R2 and R3"),
    ],
)
def test_an_empty_selection_says_what_narrowed_it(overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select(composed(*overrides))


@pytest.mark.parametrize("override", ["workers=3", "model.rows=7", "tracker=none", "paths.runs=elsewhere"])
def test_what_never_changes_an_output_never_changes_the_hash(override: str) -> None:
    assert _hash(composed(override)) == _hash(composed())


@pytest.mark.parametrize(
    "override",
    [
        "voice=espeak", "model=silent", "seed=1", "windows=paper", "thresholds=role_table",
        "model.pacing.gap_s=2", "model.reply_latency_s=0.5", "thresholds.max_wait_s.default=1.5",
    ],
)  # fmt: skip
def test_what_changes_an_output_changes_the_hash(override: str) -> None:
    assert _hash(composed(override)) != _hash(composed())


def test_a_text_or_a_version_changes_the_hash() -> None:
    config: Any = composed()
    assert run_hash(config, {"a": "1"}, {}) != run_hash(config, {"a": "2"}, {})
    assert run_hash(config, {}, {"rules": "1"}) != run_hash(config, {}, {"rules": "2"})


def _hash(config: RunConfig) -> str:
    return run_hash(config, {"case": "text"}, {"rules": "1"})


def test_where_a_key_comes_from_changes_no_recording() -> None:
    keys = [composed("model=gpt_realtime", f"model.api_key_env={name}") for name in ("ONE_KEY", "OTHER_KEY")]
    assert _hash(keys[0]) == _hash(keys[1])


def test_thresholds_are_no_part_of_what_was_recorded() -> None:
    assert recording_identity(composed()) == recording_identity(composed("thresholds.max_wait_s.default=1.5"))
    assert recording_identity(composed()) != recording_identity(composed("model.pacing.gap_s=2"))
