from pathlib import Path

import pytest

from dsbif.files import stable_hash, whole_file, write_json, write_text


def test_a_write_that_fails_half_way_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "old")

    def half() -> None:
        with whole_file(target) as temporary:
            temporary.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        half()
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_nan_never_reaches_a_json_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"share": float("nan")})
    assert not (tmp_path / "a.json").exists()


def test_a_hash_depends_on_the_value_and_not_on_key_order() -> None:
    assert stable_hash({"a": 1, "b": [2, "ü"]}) == stable_hash({"b": [2, "ü"], "a": 1})
    assert stable_hash({"a": 1}) != stable_hash({"a": 2})
    assert stable_hash({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
