"""Plan: what planning 10,000 tests costs, against pytest that collects them; preflight of all jobs.

    PYTHONPATH=ci:. python bench/bench_plan.py [--tests 10000] [--suites 20] [--rounds 5]

Run at the root of this repository in the harness's environment, with uv on PATH; a worker with
pytest is built for it. `cold` collects every suite, `warm` finds each collection kept; both do all
that `plan` does but printing: select, preflight, resolve, divide. The peer is one pytest process
that collects the same tests, warm. Preflight is that of every job and suite of this repository,
with its recipes asked before. Times are the least of all rounds, of the whole process where it
says so; CPU seconds are those of the process and of its children. Targets: planning at most 1 s
warm, preflight at most 2 s; the exit code is 1 when one is missed by CPU time.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from exacthead.config import load
from exacthead.equip import open_store, ready, resolve_all
from exacthead.git import git
from exacthead.opening import Opening
from exacthead.plan_command import describe, make
from exacthead.selection import Asked
from exacthead.suite_plan import planned
from exacthead.wish import Wish

if TYPE_CHECKING:
    from collections.abc import Callable

_PER_FILE = 50
_PLAN_S, _PREFLIGHT_S = 1.0, 2.0
_COMMAND = (sys.executable, "-m", "exacthead")


@dataclass(frozen=True)
class Spent:
    """Seconds by the clock and of CPU."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s, {self.cpu:.2f} s of CPU"


def spent(action: Callable[[], object]) -> Spent:
    """What one call takes, its child processes included."""
    before, begun = _cpu(), time.perf_counter()
    action()
    return Spent(time.perf_counter() - begun, _cpu() - before)


def _cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def least(action: Callable[[], object], rounds: int) -> Spent:
    """The least of some rounds, by each clock."""
    found = [spent(action) for _ in range(rounds)]
    return Spent(min(each.wall for each in found), min(each.cpu for each in found))


def write_repository(root: Path, tests: int, suites: int) -> None:
    """A repository with so many tests in so many suites of one worker."""
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    lines = ['[project]\nname = "bench"', f'[workers.tests]\npython = "{minor}"']
    lines[-1] += '\nrequirements = ["pytest"]\nprobes = ["pytest"]'
    for suite in range(suites):
        lines.append(f'[suites.s{suite}]\npaths = ["unit/s{suite}"]\nworker = "tests"\nshards = 4')
        for number in range(tests // suites // _PER_FILE):
            path = root / f"unit/s{suite}/test_{suite}_{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            body = (f"def test_{each}():\n    pass\n" for each in range(_PER_FILE))
            path.write_text("\n\n".join(body), encoding="utf-8")
    (root / "ci").mkdir()
    (root / "ci/harness.toml").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    (root / ".gitignore").write_text("/.cache/\n/runs/\n__pycache__/\n", encoding="utf-8")
    run(root, *_COMMAND, "lock")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    who = ("-c", "user.name=Bench", "-c", "user.email=bench@example.test")
    git(root, *who, "commit", "--quiet", "--message", "Tests")


def run(root: Path, *command: str) -> None:
    """Run a command there; what it printed is shown when it fails."""
    package = Path(__file__).parents[1] / "ci"
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def opening(root: Path) -> Opening:
    """A session for everything in a repository."""
    return Opening(load(root), Asked(), Wish(), Console(quiet=True))


def plan(root: Path) -> None:
    """All that `plan` does but printing."""
    asked = opening(root)
    if problems := asked.problems():
        raise SystemExit("\n".join(map(str, problems)))
    describe(asked, make(asked))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tests", type=int, default=10_000)
    parser.add_argument("--suites", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    here = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory(prefix="plan-") as folder:
        root = Path(folder)
        write_repository(root, arguments.tests, arguments.suites)
        asked = opening(root)
        specs = resolve_all(asked.harness, ["tests"], "cpu")
        with ready(asked.harness, specs, open_store(root), lambda _: None) as workers:
            python = workers["tests"].python
        cold = spent(lambda: plan(root))
        warm = least(lambda: plan(root), arguments.rounds)
        process = least(lambda: run(root, *_COMMAND, "plan"), arguments.rounds)
        collecting = (str(python), "-m", "pytest", "--collect-only", "-q", "unit")
        peer = least(lambda: run(root, *collecting), arguments.rounds)
        with planned(asked.planning(specs), asked.selection.suites, build=False) as made:
            found = sum(len(item.shard.nodeids) for item in made.items if item.shard)
    print(f"{found} tests in {arguments.suites} suites, {len(made.items)} shards")
    print(f"pytest --collect-only: {peer}")
    for name, each in (("cold", cold), ("warm", warm), ("warm, whole process", process)):
        print(f"plan, {name}: {each}; {each.cpu / peer.cpu:.2f} of the peer's CPU")
    opening(here).problems()
    checked = least(lambda: opening(here).problems(), arguments.rounds)
    legs = sum(map(len, opening(here).selection.legs.values()))
    print(f"preflight of {legs} legs and all suites here: {checked}")
    missed = [
        f"{name}: {each.cpu:.2f} s of CPU, at most {most:g}"
        for name, each, most in (
            ("planning", warm, _PLAN_S),
            ("preflight", checked, _PREFLIGHT_S),
        )
        if each.cpu > most
    ]
    for line in missed:
        print(f"MISSED {line}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
