from pathlib import Path

import pytest

from dsbif.errors import ConfigError
from launch.clients import call, clean, max_array_size
from launch.sbatch import SlurmSettings, array_words, chunks, interpreter, job_name, parameters, settings_from
from launch.slurm import alive, cancel


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs in front of all others."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def write(programs: Path, name: str, script: str) -> None:
    path = programs / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_misspelt_setting_is_named() -> None:
    with pytest.raises(ConfigError, match=r"hydra\.launcher\.partitoin"):
        settings_from({"partitoin": "gpu"})


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"cpus_per_task": 0}, r"cpus_per_task.*greater than or equal to 1; found '0'"),
        ({"timeout_min": "4h"}, r"timeout_min.*valid integer.*'4h'"),
        ({"timeout_min": 2, "signal_delay_s": 120}, r"signal_delay_s \(120\) leaves nothing of timeout_min \(2\)"),
        (
            {"additional_parameters": {"array": "0-9", "job_name": "x"}},
            r"may not set array, job-name: the launcher does",
        ),
    ],
)
def test_settings_that_cannot_be_meant(raw: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        settings_from(raw)


def test_one_model_can_want_something_else() -> None:
    settings = SlurmSettings(partition="gpu").for_model({"gpus_per_task": 0})
    assert (settings.partition, settings.gpus_per_task) == ("gpu", 0)
    with pytest.raises(ConfigError, match="gpus"):
        SlurmSettings().for_model({"gpus": 0})


def test_numbers_that_are_names() -> None:
    assert settings_from({"account": 4711, "qos": None}).account == "4711"


def test_python_takes_the_shells_place() -> None:
    assert interpreter(SlurmSettings(python="/opt/nemo/bin/python")) == "exec /opt/nemo/bin/python"
    assert interpreter(SlurmSettings()).startswith("exec /")


def test_no_gpu_and_no_memory_are_not_asked_for() -> None:
    asked = parameters(SlurmSettings(gpus_per_task=0, mem_gb=None), "n", Path("/logs"), Path("/home"))
    assert asked["gres"] is None
    assert asked["mem"] is None
    assert asked["wckey"] is None


def test_arrays() -> None:
    assert array_words([5], 8) == "5%1"
    assert array_words([4, 2, 3, 9], 2) == "2-4,9%2"
    assert chunks(range(5), 2) == [(0, [0, 1]), (2, [2, 3]), (4, [4])]
    assert chunks([], 1001) == []


def test_many_models_make_a_short_name() -> None:
    assert job_name(["e", "d", "c", "b", "a"], ["L2"]) == "dsbif-a+b+c+2more-L2"


def test_the_environment_of_an_enclosing_job_stays_outside() -> None:
    environment = {
        "PATH": "/bin",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JOB_ID": "7",
        "SLURM_MEM_PER_CPU": "100",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_ACCOUNT": "us",
    }
    assert clean(environment) == {"PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SBATCH_ACCOUNT": "us"}


def test_no_slurm_here(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(ConfigError, match=r"sbatch is not here\. Run this on a login node"):
        call("sbatch", "x.sh")
    assert alive("launch") is None


def test_a_controller_that_is_down(programs: Path) -> None:
    write(programs, "squeue", "exec sleep 60")
    with pytest.raises(ConfigError, match=r"squeue gave no answer within 0\.2 s"):
        call("squeue", timeout_s=0.2)


def test_slurm_refuses(programs: Path) -> None:
    write(programs, "sbatch", "echo 'sbatch: error: Invalid wckey' >&2; exit 1")
    with pytest.raises(ConfigError, match="sbatch refused: sbatch: error: Invalid wckey"):
        call("sbatch", "x.sh")


def test_a_cluster_without_arrays(programs: Path) -> None:
    write(programs, "scontrol", "echo 'MaxArraySize            = 0'")
    with pytest.raises(ConfigError, match="takes no job arrays"):
        max_array_size()


def test_only_the_launchs_own_tasks_count(programs: Path) -> None:
    write(
        programs,
        "squeue",
        "echo '7|3|dsbif one 0'; echo '8|4|dsbif one 1001'; echo '9|5|dsbif two 0'\n"
        "echo '10|N/A|(null)'; echo '11|2|a|b'; echo '12|2|dsbif one'",
    )
    write(programs, "scancel", f'echo "$@" > {programs}/cancelled')
    assert alive("one") == {3, 1005}
    assert cancel("one") == ["7", "8"]
    assert (programs / "cancelled").read_text() == "7 8\n"
    assert cancel("three") == []
