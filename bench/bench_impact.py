"""Impact: how large a part of a suite this repository's own changes would have left out.

    PYTHONPATH=ci python bench/bench_impact.py --commits 20 --measure

Every commit's change is judged as if it were made to the head's sources: once by imports alone, and
with ``--measure`` also by a map of the head, for which each test file is run alone with coverage's
contexts. Both happen in clones of the committed head; the checkout is not touched. Printed per
commit: the part of the suite's tests that is left out, and the most frequent reason to run one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING

from exacthead.config import load
from exacthead.cover.item import combine_item
from exacthead.cover.settings import prepare
from exacthead.errors import HarnessError
from exacthead.git import git
from exacthead.head import read_head
from exacthead.impact.changes import changes_since
from exacthead.impact.imports import Graph
from exacthead.impact.layout import is_python, read_layout
from exacthead.impact.map import Measured, read_map, record
from exacthead.impact.run import MEASURED
from exacthead.impact.select import select
from exacthead.units.result import Attempt, TestResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from exacthead.config import Harness
    from exacthead.impact.changes import Changes
    from exacthead.impact.map import ImpactMap
    from exacthead.impact.select import Selection

_PASSED = re.compile(r"^PASSED (.+)$", re.MULTILINE)
_FILE_S = 900


def pytest(root: Path, harness: Harness, *arguments: str, path: str = "", **more: str) -> str:
    """What pytest prints in ``root``."""
    folders = [str(root / folder) for folder in harness.project.pythonpath]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, path]), **more}
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", *arguments),
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_FILE_S,
        check=False,
    )
    return done.stdout


def measure(root: Path, harness: Harness, suite: str, files: list[str], items: Path) -> ImpactMap:
    """Run each test file alone, with contexts, and make the map."""
    measured = []
    for number, file in enumerate(files):
        started = time.perf_counter()
        folder = items / str(number)
        folder.mkdir(parents=True)
        prepared = prepare(folder, root, MEASURED, python=python_version())
        path = os.pathsep.join(map(str, prepared.pythonpath))
        try:
            said = pytest(root, harness, "-rA", file, path=path, **prepared.environment)
        except subprocess.TimeoutExpired:
            said = ""
        passed = [each.strip() for each in _PASSED.findall(said)]
        complete = combine_item(folder).complete
        seconds = time.perf_counter() - started
        words = "" if complete else ", coverage incomplete"
        print(f"  {file}: {len(passed)} passed in {seconds:.1f} s{words}", flush=True)
        verdict = Verdict(Kind.PASSED)
        results = tuple(TestResult(each, (Attempt(1, None),), verdict) for each in passed)
        measured.append(Measured(folder, results))
    _, notes = record(root, suite, read_head(root), {}, measured)
    for note in notes:
        print(f"  {note}")
    found, words = read_map(root, suite, {})
    if found is None:
        raise HarnessError("a map", words, "look at the lines above")
    return found


def judge(
    harness: Harness, suite: str, nodeids: list[str], changes: Changes, found: ImpactMap | None
) -> Selection:
    """Choose by these changes, as if they were made to the sources of the head."""
    root = harness.root
    layout = read_layout(root, harness.project.pythonpath, changes.of_kind("deleted"))
    graph = Graph(root, layout, [path for path in changes.files if not is_python(path)])
    folders = tuple(f"{each}/" for any_suite in harness.suites.values() for each in any_suite.paths)
    tests = [path for path in layout.python if path.startswith(folders)]
    assert suite in harness.suites
    return select(nodeids, changes, graph, found, tests)


def left_out(selection: Selection) -> float:
    """The part of the tests that is left out."""
    return len(selection.left_out) / (len(selection.selected) + len(selection.left_out))


def why(selection: Selection) -> str:
    """The most frequent reason to run a test."""
    reasons = Counter(choice.reason for choice in selection.selected).most_common(1)
    return reasons[0][0][:80] if reasons else ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--suite", default="exacthead")
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--measure", action="store_true", help="run the suite for a map, too")
    arguments = parser.parse_args()
    here = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="impact-") as folder:
        now, then = Path(folder) / "now", Path(folder) / "then"
        for clone in (now, then):
            git(here, "clone", "--quiet", str(here), str(clone))
        harness = load(now)
        paths = harness.suite(arguments.suite).paths
        listed = pytest(now, harness, "--collect-only", *paths).splitlines()
        nodeids = [line for line in listed if "::" in line]
        files = sorted({nodeid.split("::")[0] for nodeid in nodeids})
        print(f"{len(nodeids)} tests in {len(files)} files of suite {arguments.suite}")
        found = None
        if arguments.measure:
            found = measure(now, harness, arguments.suite, files, Path(folder) / "items")
        log = git(then, "log", "--format=%h", f"-{arguments.commits}", "HEAD", "--", "*.py")
        print(f"{'commit':<10}{'files':>6}{'imports':>9}{'map':>9}  most frequent reason to run")
        parts: dict[str, list[float]] = {"imports": [], "map": []}
        for commit in log.splitlines():
            git(then, "checkout", "--quiet", "--detach", commit)
            if not git(then, "rev-list", "--parents", "-1", commit).partition(" ")[2]:
                continue
            changes = changes_since(then, f"{commit}^")
            alone = judge(harness, arguments.suite, nodeids, changes, None)
            parts["imports"].append(left_out(alone))
            shown, reason = "-", why(alone)
            if found is not None:
                seen = judge(harness, arguments.suite, nodeids, changes, found)
                parts["map"].append(left_out(seen))
                shown, reason = f"{left_out(seen):.0%}", why(seen)
            part = f"{left_out(alone):.0%}"
            print(f"{commit:<10}{len(changes.files):>6}{part:>9}{shown:>9}  {reason}")
        means = [f"{sum(each) / len(each):.0%}" if each else "-" for each in parts.values()]
        print(f"{'mean':<16}{means[0]:>9}{means[1]:>9}  of the tests left out")


if __name__ == "__main__":
    main()
