"""Submit and collect 100 empty shards through the launcher, beside plain submitit ``map_array`` on the same cluster.

Wants a Slurm: the throw-away one of the tests is started where root has one installed, so run it as
``python -m bench.launch``.
"""
