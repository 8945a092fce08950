"""Many shards of many runs: on this machine or as one Slurm array, with resume, status and cancel."""
