"""The wheel: what is in it, and that it runs from any folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import REPOSITORY


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(REPOSITORY)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_configuration_and_texts_are_inside_the_package_and_nothing_is_beside_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"dsbif", "launch"}
    for wanted in ("dsbif/conf/config.yaml", "dsbif/conf/model/cascade.yaml", "dsbif/conf/hydra/help/dsbif.yaml",
                   "dsbif/bench/roles/R1.yaml", "dsbif/build/scripts/R8.yaml", "dsbif/build/assets.yaml",
                   "dsbif/judge/checkup.yaml", "dsbif/judge/label_assets/page.css"):  # fmt: skip
        assert wanted in names


def test_the_installed_package_runs_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    # Without user or editable packages of dsbif in the way: the target folder comes first on the path.
    environment = {**os.environ, "PYTHONPATH": str(site)}
    where = "import dsbif.run as r; print(r.__file__); print(r.CONF_DIR)"
    for arguments in (["-c", where], ["-m", "dsbif.run", "--cfg", "job"], ["-m", "dsbif.bench.gates"]):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        if arguments[0] == "-c":
            assert all(line.startswith(str(site)) for line in done.stdout.split())
        if "--cfg" in arguments:
            assert "name: cascade" in done.stdout
