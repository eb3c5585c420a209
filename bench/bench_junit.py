"""JUnit: merging a million cases, against junitparser's own merge and against only parsing them.

    PYTHONPATH=ci python bench/bench_junit.py
    PYTHONPATH=ci python bench/bench_junit.py --files 10 --cases 1000

Each row runs in a process of its own; seconds are from its start to its end, and memory is the
highest sum of the resident sets of the process and all its children, as far as asking every 5 ms
shows it. Processor seconds are those of all of them: a busy machine changes them less. The files
are like pytest's: 1 % failures, 2 % skips; one more file breaks off. Our own files hold a node id
for each case, so that they are twice as long; they have a row too.

junitparser counts everything again after each file: its merge is run on two smaller sets, and what
all files would take is an estimate, marked as such: in proportion to the larger set, which is too
little, and by the parabola through both. lxml's tree is built where lxml is installed: it merges
nothing, and shows what parsing alone costs.

The exit code is 1 when ours takes more than 3 s or 150 MB for a million cases, or loses one.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

import psutil

from exacthead.junit import write_results
from exacthead.units.result import Attempt, TestResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SECONDS = 3.0
MOST_MEGABYTES = 150.0
THE_MILLION = 1_000_000

OURS = """
import json, sys
from pathlib import Path
from exacthead.junit import merge
folder = Path(sys.argv[1])
totals = merge(sorted(folder.glob("*.xml")), folder / "merged")
print(json.dumps([totals.tests, totals.failures, totals.skipped, len(totals.broken)]))
"""
JUNITPARSER = """
import sys
from pathlib import Path
from junitparser import JUnitXml
folder = Path(sys.argv[1])
merged = JUnitXml()
for path in sorted(folder.glob("*.xml"))[:int(sys.argv[2])]:
    merged += JUnitXml.fromfile(str(path))
merged.write(str(folder / "merged"))
"""
LXML = """
import sys
from pathlib import Path
from lxml import etree
for path in sorted(Path(sys.argv[1]).glob("*.xml"))[:-1]:
    etree.parse(str(path))
"""


@dataclass(frozen=True)
class Cost:
    """What a process and its children took."""

    seconds: float
    processor_seconds: float
    megabytes: float
    printed: str


def cases(number: int, count: int) -> Iterator[str]:
    """Test cases of one file as pytest writes them."""
    for index in range(count):
        name = quoteattr(f"test_case_{index}[value-{index % 7}]")
        classname = f"unit.part_{number}.test_module_{index // 50}.TestThing"
        head = f'<testcase classname="{classname}" name={name} time="{index * 37 % 211 / 1000:.3f}"'
        if index % 100 == 0:
            text = f"def test_case():\n&gt;       assert {index} == 1\nE       assert {index} == 1"
            yield f'{head}><failure message="assert {index} == 1">{text}</failure></testcase>'
        elif index % 50 == 1:
            skipped = '<skipped type="pytest.skip" message="no engine">a.py:1</skipped>'
            yield f"{head}>{skipped}</testcase>"
        else:
            yield f"{head} />"


def write_files(folder: Path, files: int, count: int) -> None:
    """Write ``files`` whole files of ``count`` cases, and a last one that breaks off."""
    for number in range(files + 1):
        head = f'<testsuite name="pytest" tests="{count}" time="12.345" hostname="h">'
        text = f"<testsuites>{head}{''.join(cases(number, count))}</testsuite></testsuites>"
        whole = number < files
        text = text if whole else head + '<testcase name="first"/><testcase name="hangs"><system'
        (folder / f"{number:04}.xml").write_text(text, encoding="utf-8")


def write_own_files(folder: Path, files: int, count: int) -> None:
    """Write ``files`` files of ``count`` results as a shard of ours leaves them."""
    results = [
        TestResult(
            f"unit/part/test_module_{index // 50}.py::TestThing::test_case_{index}[value]",
            (Attempt(1, index * 37 % 211 / 1000),),
            Verdict(Kind.PASSED),
        )
        for index in range(count)
    ]
    first = folder / "0000.xml"
    write_results(first, "unit", results, {"head": "0" * 40})
    for number in range(1, files):
        shutil.copy(first, folder / f"{number:04}.xml")


def run(program: str, *arguments: str) -> Cost:
    """Run a program to its end and watch its memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        peak = 0
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            peak = max(peak, resident(watched))
            time.sleep(0.005)
        seconds = time.perf_counter() - started
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 0, f"exit {process.returncode}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(seconds, spent, peak / 1e6, printed)


def resident(process: psutil.Process) -> int:
    """Bytes in memory of a process and its children; 0 when it has just ended."""
    try:
        family = [process, *process.children(recursive=True)]
        return sum(each.memory_info().rss for each in family)
    except psutil.NoSuchProcess:
        return 0


def quadratic(small: tuple[int, float], large: tuple[int, float], at: int) -> float:
    """The value at ``at`` of the parabola through the origin and two points."""
    (x, y), (u, v) = small, large
    square = (v / u - y / x) / (u - x)
    return at * (y / x + square * (at - x))


def row(name: str, cost: Cost, ours: Cost) -> None:
    """Print one line of the table."""
    print(
        f"{name:42} {cost.seconds:8.2f} s {cost.seconds / ours.seconds:7.2f} x"
        f" {cost.processor_seconds:8.2f} s processor {cost.megabytes:7.0f} MB"
    )


def main() -> int:
    """Print the table; 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--cases", type=int, default=10_000, help="in each file")
    parser.add_argument("--rounds", type=int, default=3, help="of ours; the median counts")
    options = parser.parse_args()
    total = options.files * options.cases
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, options.files, options.cases)
        rounds = sorted(
            (run(OURS, name) for _ in range(options.rounds)), key=lambda cost: cost.seconds
        )
        ours = rounds[len(rounds) // 2]
        ours = replace(ours, megabytes=max(cost.megabytes for cost in rounds))
        print(f"{total} cases in {options.files} files and one that breaks off")
        row("ours: merged", ours, ours)
        with tempfile.TemporaryDirectory() as own:
            write_own_files(Path(own), options.files, options.cases)
            row("ours: merged, files of our own", run(OURS, own), ours)
        if importlib.util.find_spec("lxml"):
            row("lxml: every tree built, nothing merged", run(LXML, name), ours)
        few, more = max(options.files // 10, 2), max(options.files // 5, 4)
        fast, slow = (run(JUNITPARSER, name, str(count)) for count in (few, more))
        row(f"junitparser: {few} files merged", fast, ours)
        row(f"junitparser: {more} files merged", slow, ours)
    if total >= THE_MILLION:
        least = slow.processor_seconds * options.files / more
        curve = quadratic(
            (few, fast.processor_seconds), (more, slow.processor_seconds), options.files
        )
        print(
            f"junitparser: all, an estimate: {least:.0f} s processor in proportion to {more} files,"
        )
        print(f"  {curve:.0f} s by the parabola; ours {ours.processor_seconds:.2f} s")
    whole = json.loads(ours.printed) == [
        total + 2,
        sum(index % 100 == 0 for index in range(options.cases)) * options.files,
        sum(index % 50 == 1 for index in range(options.cases)) * options.files,
        1,
    ]
    print(f"nothing lost: {whole}")
    if total < THE_MILLION:
        return 0 if whole else 1
    met = ours.seconds <= MOST_SECONDS and ours.megabytes <= MOST_MEGABYTES
    print(f"within {MOST_SECONDS:.0f} s and {MOST_MEGABYTES:.0f} MB: {met}")
    return 0 if whole and met else 1


if __name__ == "__main__":
    sys.exit(main())
