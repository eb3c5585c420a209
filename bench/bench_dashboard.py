"""The dashboard of a long history: time and memory to build it, and how soon its pages are seen.

    PYTHONPATH=ci:. BROWSER_PYTHON bench/bench_dashboard.py [--runs N] [--tests N]

BROWSER_PYTHON is that of the worker ``browser``; its Chromium is the machine's. The history is made
up: N runs of N tests each, a leg with a contract, builds and coverage. It is built into pages in a
process of its own, once; its time is held against that of only reading the outcomes from the
database, which is the least that any dashboard must do. Pages are opened from ``file://``, each
three times in a window of its own, and the median counts until the first content is painted.

Targets, for 200 runs of 10,000 tests: built in at most 10 s with less than 1 GB of memory, every
page below 2 MB, first content painted within 1 s. A target that is missed is printed, and the exit
code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from exacthead.history.schema import connect
from exacthead.report.dashboard.build import build
from exacthead.report.dashboard.rows import file_path, page_path
from exacthead.triage.known import Known
from unit.exacthead.report.synthetic import fill, nodeid

if TYPE_CHECKING:
    from collections.abc import Sequence

BUILT_S, MEMORY_MB, PAGE_BYTES, PAINTED_MS = 10.0, 1000.0, 2_000_000, 1000.0
TRIES = 3
WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def build_alone(database: Path, into: Path) -> dict[str, float]:
    """Build in this process and its helpers; what it took."""
    with closing(connect(database)) as opened:
        start, used = time.perf_counter(), processor_seconds()
        build(opened, into, runs_address="../runs", known=Known())
        spent, used = time.perf_counter() - start, processor_seconds() - used
    # Its helpers' too, as if they shared nothing with it.
    peak = sum(resource.getrusage(who).ru_maxrss for who in WHO) / 1024
    return {"seconds": spent, "cpu": used, "peak_mb": peak}


def processor_seconds() -> float:
    """Of this process and its helpers."""
    times = [resource.getrusage(who) for who in WHO]
    return sum(each.ru_utime + each.ru_stime for each in times)


def only_read(database: Path) -> float:
    """The seconds to read every outcome and do nothing with it."""
    with closing(connect(database)) as opened:
        start = time.perf_counter()
        for _ in opened.execute("SELECT test, verdict, seconds, flaky FROM outcome"):
            pass
        return time.perf_counter() - start


def paints(pages: Sequence[Path]) -> dict[str, float]:
    """Milliseconds until the first content of each page is painted."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        for path in pages:
            times = []
            for _ in range(TRIES):
                page = browser.new_page(viewport={"width": 1600, "height": 1000})
                # A page that is late is a target that is missed, and still a number.
                page.set_default_timeout(300_000)
                page.goto(path.as_uri())
                while page.evaluate(PAINT) is None:
                    page.wait_for_timeout(20)
                times.append(page.evaluate(PAINT))
                page.close()
            found[path.name if path.parent.name == "dashboard" else path.parts[-3]] = median(times)
        browser.close()
    return found


def main() -> int:
    """Make the history, build it, look at it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--tests", type=int, default=10_000)
    parser.add_argument("--build", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        print(json.dumps(build_alone(*options.build)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        database, into = Path(temporary) / "exacthead.sqlite", Path(temporary) / "dashboard"
        with closing(connect(database)) as opened:
            fill(opened, options.runs, options.tests)
        command = [sys.executable, __file__, "--build", str(database), str(into)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        built: dict[str, Any] = json.loads(done.stdout)
        floor = only_read(database)
        sizes = {path: path.stat().st_size for path in into.rglob("*") if path.is_file()}
        largest = max(sizes, key=lambda path: sizes[path])
        print(f"{options.runs} runs of {options.tests} tests: {len(sizes)} files")
        print(f"{sum(sizes.values()) / 1e6:.0f} MB, the largest {largest.name}")
        print(f"built in {built['seconds']:.1f} s ({built['cpu']:.1f} s of CPU)")
        print(
            f"{built['seconds'] / floor:.1f} times as long as only to read the outcomes", flush=True
        )
        names = ("index.html", "tests.html", "metrics.html", "builds.html", "runs.html")
        a_test, its_file = nodeid(3), nodeid(3).partition("::")[0]
        pages = [into / name for name in (*names, file_path(its_file), page_path(a_test))]
        seen = paints([*pages, largest] if largest.suffix == ".html" else pages)
    rows = [
        ("built, seconds", built["seconds"], BUILT_S),
        ("memory, MB", built["peak_mb"], MEMORY_MB),
        ("largest page, bytes", float(sizes[largest]), float(PAGE_BYTES)),
        *((f"first content of {name}, ms", value, PAINTED_MS) for name, value in seen.items()),
    ]
    for name, value, most in rows:
        print(
            f"{'ok    ' if value <= most else 'MISSED'} {name}: {value:,.1f} (at most {most:,.0f})"
        )
    return int(any(value > most for _, value, most in rows))


if __name__ == "__main__":
    raise SystemExit(main())
