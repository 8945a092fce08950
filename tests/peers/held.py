"""A parent that starts a worker, writes the worker's process id into a file, and waits: ``held.py FILE LOGS WHEN``."""

import sys
import time
from pathlib import Path

from dsbif.agents.target import Target
from dsbif.agents.worker import start_worker

if __name__ == "__main__":
    agent = start_worker(sys.executable, Target("peers.worked:Worked", {}, None, 1), Path(sys.argv[2]))
    if sys.argv[3:] == ["in-a-step"]:
        agent.start(0, "hang", 0)  # type: ignore[union-attr]
    found = Path(sys.argv[1])
    found.with_suffix(".part").write_text(agent.facts.versions["pid"])
    found.with_suffix(".part").replace(found)
    if sys.argv[3:] == ["in-a-step"]:
        import numpy as np

        while True:
            agent.step(np.zeros((1, 960), np.float32), [True])  # type: ignore[union-attr]
    time.sleep(3600)
