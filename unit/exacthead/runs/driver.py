"""A small harness of its own process, for tests that interrupt or kill one.

Usage: driver.py RUNS_FOLDER PARALLEL SCRIPT...; prints the run folder, exits as a run does.
"""

from __future__ import annotations

import sys
from pathlib import Path

from exacthead.runs.execute import Execution, exit_code
from exacthead.runs.folder import RunFolder
from exacthead.runs.interrupt import Interrupts
from exacthead.runs.item import ItemRequest
from exacthead.runs.packing import Capacity


def main() -> None:
    runs, parallel, *scripts = sys.argv[1:]
    folder = RunFolder.create(Path(runs), {"items": scripts}, "head")
    requests = [
        ItemRequest(
            item_id=f"item/{number}",
            command=("bash", "-c", script),
            cwd=Path(runs),
            folder=folder.item(f"item/{number}"),
            timeout_s=600.0,
            leftover_grace_s=1.0,
        )
        for number, script in enumerate(scripts)
    ]
    sys.stdout.write(f"{folder.path}\n")
    sys.stdout.flush()
    with Interrupts() as interrupts:
        state, _ = Execution(folder, interrupts, capacity=Capacity(int(parallel))).run(requests)
    sys.exit(exit_code(state))


if __name__ == "__main__":
    main()
