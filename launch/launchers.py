"""What the two launchers do: build, cut, write down, run elsewhere, wait, and score each combination here.

Scoring is Hydra's own task once more, on recordings that are there by then, so that a multirun ends in the same tables
wherever it ran.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, configure_log, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console
from rich.text import Text

from dsbif.config import from_omegaconf
from dsbif.errors import DsbifError
from launch.collect import alive_of, tell, wait
from launch.launchdir import Job, Kind, Launch, LaunchDir
from launch.local import run_local, start_detached
from launch.plan import Combination, begin_jobs, make_job
from launch.progress import launch_progress

_RECORDING_STAGES = ("all", "record")


class _ShardLauncher(Launcher):
    """What both have in common."""

    kind: Kind

    def __init__(self, **settings: Any) -> None:
        self.settings = {key: _plain(value) for key, value in settings.items()}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Hydra's: keep what a launch needs."""
        self.context, self.task, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Hydra's: run every combination.

        Raises:
            ConfigError: the launcher cannot be used.
        """
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        configs = [self._composed(overrides, initial_job_idx + n) for n, overrides in enumerate(job_overrides)]
        if any(config.stage not in _RECORDING_STAGES for config in configs):
            return [self._run(config) for config in configs]  # nothing is recorded: nothing to spread
        return self._launch(list(zip(job_overrides, configs, strict=True)))

    def _composed(self, overrides: Sequence[str], number: int) -> DictConfig:
        composed = self.context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(composed):
            composed.hydra.job.id = composed.hydra.job.num = number
        HydraConfig.instance().set_config(composed)
        plain = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
        OmegaConf.resolve(plain)
        return plain

    def _launch(self, asked: Sequence[tuple[Sequence[str], DictConfig]]) -> list[JobReturn]:
        self._check()
        jobs: list[Job] = []
        good, bad, runs, workers = [], [], Path("runs"), 1
        for overrides, config in asked:
            try:
                combination = Combination(tuple(overrides), from_omegaconf(config))
                jobs.append(make_job(len(jobs), combination))
            except DsbifError:
                bad.append(config)  # its own task tells what is wrong with it
                continue
            good.append(config)
            runs, workers = combination.config.paths.runs, max(workers, combination.config.workers)
        returned = [self._run(config) for config in bad]
        if not good:
            return returned
        here, launch = self._begin(jobs, runs, workers)
        if self.settings.get("dry_run"):
            self._show_plan(here, launch)
            shutil.rmtree(here.path)  # nobody shall wait for it
            return returned
        if not self._spread(here, launch):
            Console().print(
                Text(f"started {here.path.name}; see python -m launch.status, then python -m launch.collect")
            )
            return returned
        for job, config in zip(launch.jobs, good, strict=True):
            returned.append(self._run(config, stage="score", run=str(job.run_dir)))
        if not all(job.complete for job in launch_progress(launch)):
            tell(here, launch, Console())
        return returned

    def _check(self) -> None:
        """Whether the settings can be used, before anything is built."""

    def _begin(self, jobs: Sequence[Job], runs: Path, workers: int) -> tuple[LaunchDir, Launch]:
        settings = {key: value for key, value in self.settings.items() if key not in ("wait", "dry_run", "shards")}
        return begin_jobs(
            self.kind,
            jobs,
            runs,
            self.settings.get("shards", "auto"),
            {**settings, "workers": workers},
            int(self.settings.get("max_requeues", 3)),
        )

    def _run(self, config: DictConfig, **changes: str) -> JobReturn:
        """Hydra's task in this process; what it raises goes up, as without a launcher."""
        with open_dict(config):
            for key, value in changes.items():
                config[key] = value
        value = self.task(config)
        return JobReturn(cfg=config, status=JobStatus.COMPLETED, _return_value=value)

    def _spread(self, here: LaunchDir, launch: Launch) -> bool:
        """Run the shards; False where they go on without this process."""
        raise NotImplementedError

    def _show_plan(self, here: LaunchDir, launch: Launch) -> None:
        console = Console()
        for shard in launch.shards:
            cases = len(shard.test_case_ids)
            console.print(Text(f"{launch.shard_name(shard.index)}  {cases} case{'' if cases == 1 else 's'}"))
        if not launch.shards:
            console.print("nothing is missing")


class LocalLauncher(_ShardLauncher):
    """Shards as processes on this machine."""

    kind: Kind = "local"

    def _spread(self, here: LaunchDir, launch: Launch) -> bool:
        shards = [shard.index for shard in launch.shards]
        if not self.settings.get("wait", True):
            if shards:
                start_detached(here)
            return False
        run_local(here, launch, shards, int(launch.settings["workers"]))
        return True


class SlurmLauncher(_ShardLauncher):
    """Shards as tasks of Slurm arrays."""

    kind: Kind = "slurm"

    def _check(self) -> None:
        from launch.slurm import check

        check(self.settings)

    def _spread(self, here: LaunchDir, launch: Launch) -> bool:
        from launch.slurm import submit

        if launch.shards:
            submit(here.path, [shard.index for shard in launch.shards])
        if not self.settings.get("wait", True):
            return False
        try:
            wait(here, launch, alive_of(here, launch))
        except KeyboardInterrupt:
            looks = "python -m launch.status, launch.collect or launch.cancel"
            print(f"\ndsbif: the tasks of {here.path.name} go on; see {looks}.", file=sys.stderr)
            raise
        return True

    def _show_plan(self, here: LaunchDir, launch: Launch) -> None:
        from launch.slurm import texts

        super()._show_plan(here, launch)
        for text in texts(here, launch):
            print(f"\n{text}")


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
