"""Slurm's own programs, each with a time-out: with the controller down they hang for minutes."""

import os
import re
import subprocess
from collections.abc import Mapping

from dsbif.errors import ConfigError

TIMEOUT_S = 60.0
_FOR_CLIENTS = {"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"}
_FOR_THE_USER = {"SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION", "SBATCH_WCKEY"}


def call(*command: str, timeout_s: float = TIMEOUT_S) -> str:
    """What a client of Slurm prints.

    Raises:
        ConfigError: it is not installed here, said no, or gave no answer in time.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=True, env=clean(os.environ)
        )
    except FileNotFoundError as error:
        raise ConfigError(
            f"{command[0]} is not here. Run this on a login node of the cluster, or use hydra/launcher=local."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"{command[0]} gave no answer within {timeout_s:g} s: Slurm's controller may be down. Nothing is lost; "
            "see `sinfo`, and try again."
        ) from error
    except subprocess.CalledProcessError as error:
        said = " ".join(str(error.stderr or error.stdout).split())
        raise ConfigError(f"{command[0]} refused: {said}") from error
    return done.stdout


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what an enclosing job or an old ``export`` would slip into an array.

    Somebody who launches from an interactive job carries its ``SLURM_*`` along, and a ``SBATCH_*`` variable outranks
    the batch file. Those that say who pays and where remain.
    """
    kept = _FOR_CLIENTS | _FOR_THE_USER
    return {
        key: value for key, value in environment.items() if key in kept or not key.startswith(("SLURM_", "SBATCH_"))
    }


def max_array_size() -> int:
    """The cluster's MaxArraySize: indices of an array stay below it.

    Raises:
        ConfigError: the cluster cannot be asked.
    """
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", call("scontrol", "show", "config"), re.MULTILINE)
    if not found or int(found[1]) < 2:
        raise ConfigError("`scontrol show config` names no usable MaxArraySize: this cluster takes no job arrays.")
    return int(found[1])
