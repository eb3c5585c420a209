"""JUnit files merged as a stream: exact totals in any order, and a broken file costs no other.

junitparser's own merge is not used: it holds everything in memory, counts it again after each file,
and one broken file loses the whole output.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.junit.part import Part, gather, read_index, write_order
from exacthead.junit.text import start_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BLOCK = 1 << 18
# Bytes for which a process of its own is worth its start; and each takes some 20 MB of memory.
_SHARE = 8 << 20
_MOST_PROCESSES = 4


@dataclass(frozen=True)
class Totals:
    """What a merged file holds.

    Attributes:
        case_seconds: the sum over the cases with a known time.
        wall_seconds: the sum over the suites' own times; of a suite without one, its cases' sum.
        unknown_times: cases whose time is missing or cannot be one.
        broken: the files that could not be read to their end, relative to the merged file.
        quarantined: how many of the skipped ones are known faults.
        doubts: what files say and do not hold, in words; a merged file says nothing false, so
            that they are found once.
    """

    suites: int
    tests: int
    failures: int
    errors: int
    skipped: int
    case_seconds: float
    wall_seconds: float
    unknown_times: int
    broken: tuple[str, ...]
    quarantined: int = 0
    doubts: tuple[str, ...] = field(default=(), compare=False)


def merge(paths: Iterable[Path], out: Path) -> Totals:
    """Merge JUnit files into ``out``; memory holds no suite.

    Suites are never joined, only sorted, so that any order and grouping of the same files gives the
    same bytes. A file that is missing or broken becomes an error case; the cases that it holds
    before the break are kept.

    Args:
        paths: the files; ``testsuites`` or ``testsuite`` at their root, suites nested at will.
        out: the merged file; it appears whole or not at all.

    Raises:
        HarnessError: the merged file cannot be written.
    """
    asked = f"write {out}"
    todo = "make room or give another runs folder; the merged files are intact"
    try:
        with tempfile.TemporaryDirectory(prefix=".merge-", dir=out.parent) as folder:
            unfinished = Path(folder) / "merged.xml"
            totals = _merge(sorted(paths), out.parent, Path(folder), unfinished)
            unfinished.replace(out)
    except OSError as error:
        raise HarnessError(asked, error.strerror or str(error), todo) from error
    return totals


def _merge(paths: Sequence[Path], home: Path, folder: Path, out: Path) -> Totals:
    first, *others = _shares(paths)
    with ExitStack() as stack:
        helpers = []
        for number, share in enumerate(others, 2):
            write_order(folder, str(number), share, home)
            helpers.append(stack.enter_context(_helper(folder, str(number))))
        with (folder / "1.xml").open("wb") as spool:
            parts = [gather(first, home, spool)]
        for helper in helpers:
            _, complaint = helper.communicate()
            if helper.returncode:
                last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
                raise OSError(f"a process of the merge ended with {helper.returncode}: {last}")
    parts += [read_index(folder, str(number)) for number in range(2, len(helpers) + 2)]
    totals = _totals(parts)
    with ExitStack() as stack, out.open("wb") as target:
        spools = [
            stack.enter_context((folder / f"{number}.xml").open("rb", buffering=0))
            for number in range(1, len(parts) + 1)
        ]
        _write(target, totals, parts, spools)
    return totals


def _shares(paths: Sequence[Path]) -> list[list[Path]]:
    """The files in parts of like size, one for each process that is worth its start."""
    sizes = {path: path.stat().st_size if path.is_file() else 0 for path in paths}
    processes = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES, sum(sizes.values()) // _SHARE)
    shares: list[list[Path]] = [[] for _ in range(max(processes, 1))]
    loads = [0] * len(shares)
    for path in sorted(paths, key=lambda path: -sizes[path]):
        lightest = loads.index(min(loads))
        shares[lightest].append(path)
        loads[lightest] += sizes[path]
    return shares


def _helper(folder: Path, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "exacthead.junit.part", str(folder), name]
    # The same modules as here, however this process came by them.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)


def _totals(parts: Sequence[Part]) -> Totals:
    counts: Counter[str] = Counter()
    for part in parts:
        counts += part.counts
    return Totals(
        suites=counts["suites"],
        tests=counts["tests"],
        failures=counts["failures"],
        errors=counts["errors"],
        skipped=counts["skipped"],
        quarantined=counts["quarantined"],
        case_seconds=counts["case_microseconds"] / 1_000_000,
        wall_seconds=counts["wall_milliseconds"] / 1000,
        unknown_times=counts["unknown_times"],
        broken=tuple(sorted({label for part in parts for label in part.broken})),
        doubts=tuple(sorted(doubt for part in parts for doubt in part.doubts)),
    )


def _write(
    target: IO[bytes], totals: Totals, parts: Sequence[Part], spools: Sequence[IO[bytes]]
) -> None:
    # No `skipped`: the schema has none here.
    numbers = {name: str(getattr(totals, name)) for name in ("tests", "failures", "errors")}
    target.write(b'<?xml version="1.0" encoding="utf-8"?>\n')
    target.write(start_tag("testsuites", {**numbers, "time": f"{totals.wall_seconds:.3f}"}) + b"\n")
    placed = (
        (place, spool) for part, spool in zip(parts, spools, strict=True) for place in part.places
    )
    for place, spool in sorted(placed, key=lambda each: each[0][:2]):
        spool.seek(place.start)
        left = place.length
        while left:
            left -= target.write(spool.read(min(left, _BLOCK)))
        target.write(b"\n")
    target.write(b"</testsuites>\n")
