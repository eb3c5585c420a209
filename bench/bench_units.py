"""Units: what streaming costs a suite of tiny tests, against plain pytest and --junitxml.

    PYTHONPATH=ci:. python bench/bench_units.py [--tests 2000] [--rounds 5]

All numbers are ratios to plain pytest in the same run, of the least that each variant took in any
round; the variants take turns. CPU seconds are those of a process and all it waited for: `shard`
counts the driver too, `its pytest` does not, which is what streaming alone costs. Wall seconds of
a shard go from the start of the driver to its end. The target: streaming costs at most the 22 %
that --junitxml was measured to cost; when it is missed that is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.units import drive
from exacthead.units.order import ShardOrder
from exacthead.units.read import read_results

if TYPE_CHECKING:
    from collections.abc import Callable

_PER_FILE = 100
_PLAIN, _JUNIT, _OURS, _OURS_2 = "pytest", "pytest --junitxml", "shard", "shard, 2 processes"
_STREAMING = "shard: its pytest"
_TARGET = 1.22

Spent = dict[str, tuple[float, float]]


def write_suite(root: Path, tests: int) -> tuple[tuple[str, ...], ...]:
    """Files of tiny tests, a tenth of which print; returns node ids by file."""
    groups = []
    for number in range(tests // _PER_FILE):
        name = f"tests/test_{number}.py"
        lines = [
            f"def test_{n}():\n    {'print(1)' if n % 10 == 0 else 'pass'}\n"
            for n in range(_PER_FILE)
        ]
        (root / "tests").mkdir(exist_ok=True)
        (root / name).write_text("\n".join(lines), encoding="utf-8")
        groups.append(tuple(f"{name}::test_{n}" for n in range(_PER_FILE)))
    return tuple(groups)


def measure(command: list[str], root: Path) -> tuple[float, float]:
    """CPU seconds of the process and all it waited for, and wall seconds."""
    started = time.monotonic()
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with (root / "log").open("wb") as log:
        child = subprocess.Popen(
            command, cwd=root, stdout=log, stderr=subprocess.STDOUT, env=environment
        )
        _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit((root / "log").read_text(errors="replace")[-2000:])
    return usage.ru_utime + usage.ru_stime, wall


def shard(root: Path, groups: tuple[tuple[str, ...], ...], processes: int) -> Spent:
    """A whole shard through its driver; of one process also what that took by itself."""
    item = Path(tempfile.mkdtemp(prefix="item-", dir=root))
    order = ShardOrder("bench", sys.executable, str(root), ("tests",), groups, processes=processes)
    (item / "order.json").write_text(json.dumps(order.as_data()), encoding="utf-8")
    command = [sys.executable, "-I", str(Path(drive.__file__)), str(item / "order.json"), str(item)]
    spent = measure(command, root)
    reading = read_results(item, order.nodeids, "")
    if not all(str(result.verdict) == "passed" for result in reading.results):
        raise SystemExit("not all tests passed")
    if processes > 1:
        return {_OURS_2: spent}
    own = reading.processes[0]
    return {_OURS: spent, _STREAMING: (own.cpu_s or 0.0, own.seconds or 0.0)}


def main() -> int:
    """Measure and print; returns 1 when the target is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        groups = write_suite(root, given.tests)
        pytest = [sys.executable, "-m", "pytest", "tests"]
        variants: tuple[Callable[[], Spent], ...] = (
            lambda: {_PLAIN: measure(pytest, root)},
            lambda: {_JUNIT: measure([*pytest, f"--junitxml={root}/junit.xml"], root)},
            lambda: shard(root, groups, 1),
            lambda: shard(root, groups, 2),
        )
        measure(pytest, root)  # byte code is written once
        least: Spent = {}
        for _ in range(given.rounds):
            for variant in variants:
                for name, (cpu, wall) in variant().items():
                    before = least.get(name, (cpu, wall))
                    least[name] = min(cpu, before[0]), min(wall, before[1])
    print(f"{given.tests} tests, {given.rounds} rounds; ratios to plain pytest")
    print(f"{'variant':<22}{'CPU':>8}{'wall':>8}")
    for name, (cpu, wall) in least.items():
        print(f"{name:<22}{cpu / least[_PLAIN][0]:>8.2f}{wall / least[_PLAIN][1]:>8.2f}")
    streaming = least[_STREAMING][0] / least[_PLAIN][0]
    if streaming > _TARGET:
        print(f"missed: streaming costs {streaming:.2f}, the target is {_TARGET}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
