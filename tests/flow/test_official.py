"""The official layout, out and in; archives; and somebody else's recordings."""

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import dsbif, summary
from conftest import ASSETS, ESPEAK

from dsbif.bench.actions import Action
from dsbif.bench.grid import cases_at
from dsbif.bench.levels import Level
from dsbif.bench.manifest import read_manifest, write_manifest
from dsbif.bench.roles import load_roles
from dsbif.bench.windows import WindowMode
from dsbif.build import archive
from dsbif.build.corpus import Build, build_cases
from dsbif.build.official import read_official
from dsbif.build.script import load_corpus
from dsbif.errors import CaseError, ConfigError
from dsbif.export import main as export
from dsbif.rundir import RunDir

ROLES = ("R1", "R4")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one scored run of two roles and its export."""
    folder = tmp_path_factory.mktemp("official")
    done = dsbif(folder, "model=oracle", "role.ids=[R1,R4]", "run=made")
    assert done.returncode == 0, done.stderr
    assert export(["official", str(folder / "runs/made"), str(folder / "out")]) == 0
    return folder


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_export_holds_the_files_of_a_release(place: Path) -> None:
    out = place / "out"
    manifest, scores = _lines(out / "manifest.jsonl"), _lines(out / "oracle" / "_scores.jsonl")
    assert len(manifest) == len(scores) == 12
    assert set(manifest[0]) == {
        "test_case_id", "conversation_id", "role_name", "level", "expected_action", "l4_expected", "trigger_window",
        "ground_truth_timestamps", "verifier", "barge_in_after_s", "system_prompt",
    }  # fmt: skip
    assert all(row["verdict"] is True for row in scores)
    assert (out / "oracle" / "_pas.jsonl").read_text() == ""
    for line in manifest:
        for name in ("turn1.wav", "turn2.wav"):
            assert (out / "audio" / line["conversation_id"] / name).is_file()
        for suffix in ("stereo.wav", "rec.json"):
            assert (out / "oracle" / f"{line['test_case_id']}.{suffix}").is_file()
    assert {line["conversation_id"] for line in _lines(out / "scripts.jsonl")} == {
        line["conversation_id"] for line in manifest
    }


def test_a_release_is_read_as_it_was_written(place: Path) -> None:
    ours = {case.test_case_id: case for case in read_manifest(place / "runs/made/manifest.jsonl")}
    theirs = read_official(place / "out", load_roles())
    assert len(theirs) == len(ours) == 12
    for case in theirs:
        mine = ours[case.test_case_id]
        assert (case.role, case.probe, case.instance, case.level) == (mine.role, mine.probe, mine.instance, mine.level)
        assert (case.expected_action, case.system_prompt) == (mine.expected_action, mine.system_prompt)
        assert case.window == mine.window
        assert case.window_mode is WindowMode.OFFICIAL
        assert case.readback == mine.readback
        assert case.turn2.sha256 == mine.turn2.sha256
        assert case.turn2.end_s == pytest.approx(mine.turn2.end_s, abs=1e-5)
        assert case.barge_in_after_s == mine.barge_in_after_s


def test_a_run_on_a_release_gives_the_verdicts_of_the_run_it_came_from(place: Path) -> None:
    done = dsbif(place, "model=oracle", "data=official", f"data.path={place}/out", "role.ids=[R1,R4]", "run=replayed")
    assert done.returncode == 0, done.stderr
    assert summary(place, "replayed")["windows"] == "official"
    verdicts = [_lines(place / "runs" / name / "verdicts.jsonl") for name in ("made", "replayed")]
    assert [(row["test_case_id"], row["verdict"]) for row in verdicts[0]] == [
        (row["test_case_id"], row["verdict"]) for row in verdicts[1]
    ]


@pytest.mark.parametrize("ours", [True, False])
def test_somebody_elses_recordings_are_scored(place: Path, tmp_path: Path, ours: bool) -> None:
    """With our own records, and with records that hold next to nothing."""
    theirs = tmp_path / "theirs"
    shutil.copytree(place / "out" / "oracle", theirs)
    if not ours:
        for path in theirs.glob("*.rec.json"):
            rec = json.loads(path.read_text())
            kept = {"turn2_onset_s": rec["turn2_onset_samples"] / 24_000, "transcript": rec["transcript"]["text"]}
            path.write_text(json.dumps({**kept, "their_own": [1, 2]}))
    done = dsbif(
        place, "stage=score", "model=oracle", "model.name=theirs", "data=official", f"data.path={place / 'out'}",
        f"data.recordings={theirs}", "role.ids=[R1,R4]", f"run=theirs-{ours}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = summary(place, f"theirs-{ours}")
    assert (found["model"], found["all"]["k"], found["all"]["n"]) == ("theirs", 12, 12)


def _edit(folder: Path, name: str, change: Callable[[dict[str, Any]], None], line: int = 1) -> None:
    lines = _lines(folder / name)
    change(lines[line])
    (folder / name).write_text("".join(json.dumps(item) + "\n" for item in lines))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("manifest.jsonl", {"level": "L9"}, r"manifest.jsonl:2: key 'level'"),
        ("manifest.jsonl", {"role_name": 7}, r"manifest.jsonl:2: key 'role_name'"),
        ("manifest.jsonl", {"trigger_window": {"start_s": "1", "end_s": 2}}, r":2: key 'trigger_window.start_s'"),
        ("manifest.jsonl", {"trigger_window": {"start_s": 3.0, "end_s": 2.0}}, r":2: trigger_window ends at 2.0 s"),
        ("manifest.jsonl", {"test_case_id": "../../x"}, r":2: key 'test_case_id': .*an id names files"),
        ("manifest.jsonl", {"conversation_id": "/etc"}, r":2: key 'conversation_id'"),
        ("manifest.jsonl", {"conversation_id": "R1-C9-i1"}, r":2: conversation id 'R1-C9-i1' is not of the form"),
        ("manifest.jsonl", {"conversation_id": "R1-C2-i4"}, r":2: scripts.jsonl has no conversation R1-C2-i4"),
        ("manifest.jsonl", {"barge_in_after_s": "soon"}, r":2: key 'barge_in_after_s'"),
        (
            "manifest.jsonl",
            {"verifier": {"name": "readback", "params": {"target": 3}}},
            r"key 'verifier.params.target'",
        ),
        ("manifest.jsonl", {"test_case_id": "IFD-R1-C1-i1-L2"}, r":2: case IFD-R1-C1-i1-L2 stands twice"),
        ("scripts.jsonl", {"segments": []}, r"scripts.jsonl:2: key 'segments'"),
        (
            "scripts.jsonl",
            {"segments": [{"type": "noise", "duration_s": 1.0}]},
            r":2: key 'segments.0.type'",
        ),
        ("scripts.jsonl", {"segments": [{"type": "silence", "duration_s": 1.0}]}, r"has no speech segment"),
        ("scripts.jsonl", {"conversation_id": "../x"}, r"scripts.jsonl:2: key 'conversation_id'"),
    ],
)
def test_strangers_data_is_named_with_its_line(
    place: Path, tmp_path: Path, name: str, change: dict[str, Any], message: str
) -> None:
    shutil.copytree(place / "out", tmp_path / "out")
    _edit(tmp_path / "out", name, lambda line: line.update(change))
    with pytest.raises(CaseError, match=message):
        read_official(tmp_path / "out", load_roles())


def test_unknown_keys_are_tolerated_and_limits_are_taken(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "out", tmp_path / "out")
    params = {"max_wait_s": 0.5, "note": "strict"}
    _edit(
        tmp_path / "out", "manifest.jsonl",
        lambda line: line.update({"their_own": 1, "verifier": {"name": "take_turn", "params": params}}), line=0,
    )  # fmt: skip
    case = read_official(tmp_path / "out", load_roles())[0]
    assert case.expected_action is Action.TAKE_TURN
    assert case.verifier_params == {"max_wait_s": 0.5}


def test_a_release_without_prompts_gets_ours(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "out", tmp_path / "out")
    _edit(tmp_path / "out", "manifest.jsonl", lambda line: line.pop("system_prompt"), line=0)
    assert read_official(tmp_path / "out", load_roles())[0].system_prompt == load_roles()["R1"].persona


def test_missing_audio_and_a_missing_folder_are_named(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "out", tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "audio" / "R4-C3-i1")
    with pytest.raises(CaseError, match=r"there is no audio of turn 2, looked for audio/R4-C3-i1/turn2.wav"):
        read_official(tmp_path / "out", load_roles())
    with pytest.raises(CaseError, match=r"data\.path must be the folder of a release"):
        read_official(tmp_path / "nowhere", load_roles())


@pytest.mark.parametrize("arguments", [[], ["official"], ["paper", "a", "b"]])
def test_the_export_command_says_how_it_is_used(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert export(arguments) == 2
    assert "usage: python -m dsbif.export official RUN OUT" in capsys.readouterr().err


def test_a_run_that_was_never_made_cannot_be_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(["official", str(tmp_path / "no"), str(tmp_path / "out")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="does not say where the user audio lies"):
        RunDir(tmp_path).corpus()


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    keys = [key for key in cases_at(Level.L2) if key.role in ROLES and key.instance == 1]
    build = Build(ESPEAK, folder, ASSETS)
    cases = build_cases(keys, load_roles(), load_corpus(), build, WindowMode.CAUSAL, lambda *_: None)
    write_manifest(folder / "manifest.jsonl", cases)
    assert archive.main([str(folder), str(folder / "corpus.tar")]) == 0
    return folder / "corpus.tar"


def test_an_archive_is_the_same_bytes_each_time_and_gives_the_same_audio(packed: Path, tmp_path: Path) -> None:
    archive.pack(packed.parent, tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == packed.read_bytes()
    home = archive.unpack(packed, tmp_path)
    cases = read_manifest(home / "manifest.jsonl")
    assert len(cases) == 12
    for case in cases:
        for turn in (case.turn1, case.turn2):
            assert (home / turn.audio).read_bytes() == (packed.parent / turn.audio).read_bytes()
    assert archive.unpack(packed, tmp_path) == home


def test_a_run_from_an_archive(packed: Path, place: Path) -> None:
    done = dsbif(place, "model=oracle", "data=archive", f"data.path={packed}", "role.ids=[R1,R4]", "run=archived")
    assert done.returncode == 0, done.stderr
    assert summary(place, "archived")["all"] == summary(place, "made")["all"]


def _repack(packed: Path, target: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    with tarfile.open(packed) as tar:
        members = {info.name: stream.read() for info in tar if (stream := tar.extractfile(info))}
    change(members)
    with tarfile.open(target, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return target


def _first_flac(members: dict[str, bytes]) -> str:
    return next(name for name in members if name.endswith(".flac"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update({_first_flac(m): b"x"}), r"\.flac is not what SHA256SUMS names"),
        (lambda m: m.pop(_first_flac(m)), r"SHA256SUMS and the members do not match \(audio/"),
        (lambda m: m.update({"extra.txt": b"x"}), r"do not match \(extra.txt\)"),
        (lambda m: m.pop("SHA256SUMS"), r"do not match"),
        (lambda m: m.update({"../evil.txt": b"x"}), r"member '../evil.txt' is no plain file inside the archive"),
        (lambda m: m.update({"/evil.txt": b"x"}), r"member '/evil.txt' is no plain file"),
    ],
)
def test_a_changed_archive_is_refused(
    packed: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], None], message: str
) -> None:
    changed = _repack(packed, tmp_path / "changed.tar", change)
    with pytest.raises(CaseError, match=message):
        archive.unpack(changed, tmp_path / "home")
    assert not list((tmp_path / "home").rglob("manifest.jsonl"))


def test_what_is_no_archive_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CaseError, match=r"does not exist; data\.path must name one"):
        archive.unpack(tmp_path / "absent.tar", tmp_path)
    (tmp_path / "noise.tar").write_bytes(b"noise" * 1000)
    with pytest.raises(CaseError, match="cannot be read"):
        archive.unpack(tmp_path / "noise.tar", tmp_path)
    assert archive.main([str(tmp_path)]) == 2
    assert "manifest.jsonl cannot be read" in capsys.readouterr().err
