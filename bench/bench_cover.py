"""Coverage: what measuring costs the code that is measured, and what combining costs after it.

    PYTHONPATH=ci python bench/bench_cover.py --rounds 5

Three programs run without coverage and in each way of measuring, in turns within every round, in
fresh processes of this interpreter; a ratio is the median of its rounds' ratios to the program
without coverage. ``calls`` is nothing but small functions called again and again, timed within the
process. ``tests`` is pytest over many tiny tests, as a whole process with its start; contexts are
only told there. The default is meant to stay below 1.3 on ``calls``. ``once`` runs every line a
single time, which is what the journal pays for: microseconds for each line, as a difference.
``start`` is a process that does nothing: milliseconds, as a difference.

Then the data files of many processes are combined, and one report is written for a checkout of many
files, next to what ``coverage combine`` and ``coverage xml`` take for the same.

All seconds are of the processor, user and system, so that a busy machine says nearly the same.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.cover.combine import combine_run
from exacthead.cover.item import combine_item
from exacthead.cover.settings import PARTS, Settings, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SMALL = """
def f{n}(a, b):
    c = a + b
    if c % 3:
        c -= 1
    return c
"""
CALLS = """
import sys, time
from small import FUNCTIONS
rounds = int(sys.argv[1])
for f in FUNCTIONS:  # what runs for the first time is not what is asked
    f(1, 1), f(1, 2)
started = time.process_time()
for number in range(rounds):
    for f in FUNCTIONS:
        f(number, 1)
print(time.process_time() - started)
"""
# Not one long module: finding a line in a long piece of code is slow for every tool.
LONG = (
    """
def g{n}(x):
    x += 1
"""
    + "    x += 1\n" * 47
)
ONCE = """
import time
import long
started = time.process_time()
for f in long.FUNCTIONS:
    f(0)
print(time.process_time() - started)
"""
TEST = """
def test_{n}():
    from small import f{m}
    assert f{m}({n}, 1) >= 0
"""
MANY = Settings(sources=("many",))
WAYS = ("none", "default", "no journal", "C tracer", "contexts")


def checkout(root: Path, arguments: argparse.Namespace) -> None:
    """A git repository with the three programs and many files."""
    functions = "".join(SMALL.format(n=n) for n in range(100))
    longs = "".join(LONG.format(n=n) for n in range(arguments.long))
    listed = ", ".join(f"f{n}" for n in range(100))
    files = {
        "small.py": f"{functions}\nFUNCTIONS = [{listed}]\n",
        "long.py": f"{longs}\nFUNCTIONS = [{', '.join(f'g{n}' for n in range(arguments.long))}]\n",
        "calls.py": CALLS,
        "once.py": ONCE,
        "test_tiny.py": "".join(TEST.format(n=n, m=n % 100) for n in range(arguments.tests)),
        **{f"many/m{n}.py": functions for n in range(arguments.files)},
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(root)], check=True)


def environment(
    way: str, root: Path, item: Path, settings: Settings | None = None
) -> dict[str, str]:
    """The variables of a process that is measured in this way."""
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root), "PYTHONHASHSEED": "0"}
    if way == "none":
        return base
    shutil.rmtree(item, ignore_errors=True)
    item.mkdir()
    version = "3.11" if way == "C tracer" else sys.version
    settings = settings or Settings(contexts=way == "contexts")
    prepared = prepare(item, root, settings, python=version)
    path = [str(root), *(map(str, prepared.pythonpath) if way != "no journal" else ())]
    return {**base, **prepared.environment, "PYTHONPATH": os.pathsep.join(path)}


def spent(command: Sequence[str], root: Path, variables: Mapping[str, str] | None = None) -> float:
    """Seconds that a command took with its children."""
    before = os.times()
    subprocess.run(
        command, cwd=root, env=variables, stdout=subprocess.DEVNULL, check=True, timeout=900
    )
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def seconds(program: str, variables: Mapping[str, str], root: Path, size: int) -> float:
    """How long the program ran: by its own clock, or the whole process."""
    whole = {
        "tests": ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tiny.py"],
        "start": ["-c", "pass"],
    }
    if program in whole:
        return spent([sys.executable, *whole[program]], root, variables)
    done = subprocess.run(
        [sys.executable, f"{program}.py", str(size)],
        cwd=root,
        env=dict(variables),
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    return float(done.stdout)


def overhead(root: Path, folder: Path, arguments: argparse.Namespace) -> None:
    """The table of what each way costs."""
    print(f"{'program':<14}{'none, s':>9}" + "".join(f"{way:>12}" for way in WAYS[1:]))
    for program in ("calls", "tests", "once", "start"):
        ways = WAYS if program == "tests" else WAYS[:-1]
        seconds(program, environment("none", root, folder / "item"), root, 1)  # byte code
        rounds = []
        for turn in range(arguments.rounds):
            took = {}
            for way in (*ways[turn % len(ways) :], *ways[: turn % len(ways)]):
                variables = environment(way, root, folder / "item")
                took[way] = seconds(program, variables, root, arguments.size)
            rounds.append(took)
        lines = arguments.long * LONG.count("x += 1")
        name, unit = {"once": ("once, us/line", lines / 1e6), "start": ("start, ms", 1e-3)}.get(
            program, (program, 0.0)
        )
        costs = {
            way: [
                (took[way] - took["none"]) / unit if unit else took[way] / took["none"]
                for took in rounds
            ]
            for way in ways
        }
        plain = statistics.median(each["none"] for each in rounds)
        shown = "".join(f"{statistics.median(costs[way]):>12.2f}" for way in ways[1:])
        print(f"{name:<14}{plain:>9.3f}{shown}", flush=True)


def combining(root: Path, folder: Path, arguments: argparse.Namespace) -> None:
    """How long the harness takes after the run, and coverage's own commands for the same."""
    item, run, theirs = folder / "item", folder / "run", folder / "theirs"
    run.mkdir()
    variables = environment("default", root, item, MANY)
    imports = "import runpy, sys\nfor n in range(int(sys.argv[1])): runpy.run_path(f'many/m{n}.py')"
    for number in (*range(1, arguments.processes), arguments.files):
        spent([sys.executable, "-c", imports, str(number)], root, variables)
    shutil.copytree(item / PARTS / "data", theirs)
    started = time.process_time()
    assert combine_item(item).complete
    ours = {"combine": time.process_time() - started}
    before = os.times()
    combine_run(run, {"unit.bench": item}, root, MANY)
    ours["xml"] = sum(os.times()[:4]) - sum(before[:4])
    report = [f"--data-file={theirs / 'coverage'}", "-q"]
    for name, options in (("combine", ["--keep"]), ("xml", ["-o", str(folder / "x.xml")])):
        peer = spent([sys.executable, "-m", "coverage", name, *report, *options], root)
        print(f"{name:<8} ours {ours[name]:>7.2f} s   coverage {name} {peer:>7.2f} s")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=2000, help="rounds of calls to 100 functions")
    parser.add_argument("--long", type=int, default=1000, help="functions that run once")
    parser.add_argument("--tests", type=int, default=300)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--processes", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "checkout"
        root.mkdir()
        checkout(root, arguments)
        overhead(root, folder, arguments)
        print(f"\n{arguments.processes} data files, {arguments.files} source files")
        combining(root, folder, arguments)


if __name__ == "__main__":
    main()
