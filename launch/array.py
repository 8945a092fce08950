"""submitit's Slurm executor for arrays whose indices we choose. Imports submitit; import this where it is used."""

import uuid
from pathlib import Path
from typing import Any

from submitit.core import core, utils
from submitit.slurm.slurm import SlurmExecutor, SlurmJob

from launch.clients import call


class ArrayExecutor(SlurmExecutor):
    """``map_array`` as one array with given indices, also for a single task, and with a time-out for ``sbatch``.

    submitit's own numbers tasks from 0, submits a single one without an array and waits for ``sbatch`` for ever.
    Its runner (``submitit.core._submit``) then loads the pickled function in the task and calls it.
    """

    def __init__(self, folder: Path, python: str, indices: list[int]) -> None:
        super().__init__(folder=folder, python=python)
        self.indices = indices

    @classmethod
    def affinity(cls) -> int:
        """Whether this executor may be used: always, since a dry run needs no Slurm and the real one says so itself."""
        return 2

    def text(self) -> str:
        """The batch file, exactly."""
        return str(self._make_submission_file_text(self._submitit_command_str, ""))

    def _internal_process_submissions(self, delayed_submissions: list[utils.DelayedSubmission]) -> list[core.Job[Any]]:
        self.folder.mkdir(parents=True, exist_ok=True)
        pickles = [self._pickled(one) for one in delayed_submissions]
        script = self.folder / f"{uuid.uuid4().hex}.sh"
        script.write_text(self.text(), encoding="utf-8")
        array = self._get_job_id_from_submission_command(call(*self._make_submission_command(script)))
        script.rename(self.folder / f"{array}.sh")
        jobs: list[core.Job[Any]] = [SlurmJob(self.folder, f"{array}_{index}", [0]) for index in self.indices]
        for job, pickle in zip(jobs, pickles, strict=True):
            job.paths.move_temporary_file(pickle, "submitted_pickle")  # a task waits a minute for its own
        return jobs

    def _pickled(self, submission: utils.DelayedSubmission) -> Path:
        path = Path(self.folder / f"{uuid.uuid4().hex}.pkl")
        submission.set_timeout(int(self.parameters["time"]), 0)
        submission.dump(path)
        return path
