"""One real Slurm for the tests of this folder."""

import os
import shutil
from collections.abc import Iterator

import pytest
from slurm.cluster import PROGRAMS, Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        why = f"{', '.join(missing)} not installed" if missing else "its daemons want root"
        pytest.skip(f"no Slurm of our own: {why}. `make test` as root installs it on Debian (slurm-wlm, munge)")
    one = Cluster(tmp_path_factory.mktemp("slurm"))
    one.start()
    try:
        yield one
    finally:
        one.stop()
