"""`python -m functional.faults LEG`: one fault in one real run, and the metrics of how it ended.

Started by `functional/single_controller_chaos.sh` in the worker `policy`, with the variables of an
item (docs/runs.md).
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from functional.faults.check import ending, trained
from functional.faults.legs import LEGS
from unit.chaos.tree import GOING_S, MARKER, ROOT, Training, title

if TYPE_CHECKING:
    from functional.faults.legs import Leg

SERVERS = Path(__file__).with_name("servers.py")
_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    """Run a leg; the contract judges what it writes."""
    leg = LEGS[sys.argv[1]]
    folder = Path(os.environ["EXACTHEAD_ITEM_FOLDER"])
    # Whatever a killed process leaves behind becomes a child of this one.
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("this process cannot take in orphans")
    run = start(leg, folder)
    try:
        injected = leg.fault(run)
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(leg.within_s)
        ended = run.process.poll()
        left = processes_left(run)
        seconds = time.monotonic() - injected.at
    finally:
        run.end()
        sys.stdout.write(run.printed())
    metrics = {
        "step": 1,
        "chaos/stage": injected.stage,
        "chaos/stage_as_expected": int(injected.stage in leg.stages),
        "chaos/seconds": seconds,
        "chaos/ended_in_time": int(ended is not None and seconds <= leg.within_s + GOING_S),
        **ending(-1 if ended is None else ended, run.printed(), leg),
        **trained(run.folder, leg, leg.per_prompt),
        "chaos/processes_left": len(left),
        "chaos/left": ", ".join(left),
    }
    (folder / "metrics.jsonl").write_text(json.dumps(metrics) + "\n", encoding="utf-8")
    return 0


def start(leg: Leg, folder: Path) -> Training:
    """Start the run with the fault's recipe, in a folder of the item's."""
    temporary, token, log = Path(os.environ["RAY_TMPDIR"]), uuid.uuid4().hex, folder / "run.log"
    pythons = {
        role: os.environ[f"EXACTHEAD_PYTHON_{role.upper()}"]
        for role in ("policy", "generation", "gym")
    }
    command = [pythons["policy"], "-m", "posttrain.single_controller"]
    command.append(os.environ["EXACTHEAD_RECIPE"])
    if leg.servers:
        pythons["gym"] = str(stand_in(pythons["gym"], leg.servers, temporary))
    command += [
        f"run.dir={folder / 'run'}",
        f"cluster.temp_dir={temporary / 'ray'}",
        f"rollouts.per_prompt={leg.per_prompt}",
        f"rollouts.concurrency={max(8, 2 * leg.per_prompt)}",
        f"controller.budgets={{data: {leg.budget}, infrastructure: {leg.budget}}}",
        *(f"interpreters.{role}={python}" for role, python in pythons.items()),
    ]
    stacks = folder / "stacks"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {MARKER: token, "EXACTHEAD_STACKS_DIR": str(stacks)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Training(process, log, token, temporary, folder / "run", stacks)


def stand_in(python: str, fault: str, folder: Path) -> Path:
    """Write the program that is given as the interpreter of Gym's servers."""
    program = folder / "gym-python"
    program.write_text(f'#!/bin/sh\nexec "{python}" -P "{SERVERS}" {fault} "{python}" "$@"\n')
    program.chmod(0o755)
    return program


def processes_left(run: Training) -> list[str]:
    """Command lines of the run's processes that still live soon after its own end."""
    deadline = time.monotonic() + GOING_S
    while (left := run.all()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [title(process)[:200] for process in left]


if __name__ == "__main__":
    sys.exit(main())
