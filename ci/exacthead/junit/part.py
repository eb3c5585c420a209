"""A part of a merge: the suites of some files in one spool, and what they add up to.

``python -m exacthead.junit.part FOLDER NAME`` reads ``NAME.order`` in a merge's folder and writes
the spool ``NAME.xml`` and its index ``NAME.index``, so that a large merge can use more than one
processor.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from exacthead.junit.file import opened
from exacthead.junit.read import cases
from exacthead.junit.suite import Piece, Suite
from exacthead.junit.text import content, start_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# The suite in which a file that cannot be read is an error case.
UNREADABLE = "unreadable results"


class Place(NamedTuple):
    """A suite in a spool: what it is sorted by, then where it is; sizes in bytes."""

    name: str
    digest: str
    start: int
    length: int


@dataclass
class Part:
    """What some files hold together.

    Attributes:
        places: the suites in the spool.
        counts: suites, cases by result, and times in whole micro- and milliseconds.
        broken: the files that could not be read to their end.
        doubts: what files say and do not hold, in words.
    """

    places: list[Place] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def gather(paths: Iterable[Path], home: Path, spool: IO[bytes]) -> Part:
    """Write every suite of ``paths`` to ``spool``, and an error case for each broken file.

    Args:
        paths: JUnit files; missing and broken ones too.
        home: the folder that files are named relative to.
        spool: empty.

    Raises:
        OSError: the spool cannot be written, or a file changed while it was read.
    """
    part = Part()
    for path in paths:
        label = os.path.relpath(path, home)
        with opened(path) as file:
            for suite in file.suites:
                _add(part, suite, file.text(suite), spool)
                if suite.name == UNREADABLE:
                    # Of an earlier merge, which said it of its own files.
                    part.broken += [case.name for case in cases(file, suite)]
            part.doubts += [f"{label}: {doubt}" for doubt in file.doubts]
            if file.broken:
                part.broken.append(label)
                suite = _error_suite(label, f"this JUnit file cannot be read: {file.broken}")
                _add(part, suite, file.text(suite), spool)
    return part


def _add(part: Part, suite: Suite, text: Iterable[bytes], spool: IO[bytes]) -> None:
    digest = hashlib.sha256()
    start = spool.tell()
    for block in text:
        digest.update(block)
        spool.write(block)
    part.places.append(Place(suite.name, digest.hexdigest(), start, spool.tell() - start))
    part.counts.update(suite.counts)
    part.counts["suites"] += 1
    part.counts["case_microseconds"] += suite.case_microseconds
    part.counts["wall_milliseconds"] += suite.wall_milliseconds


def _error_suite(label: str, reason: str) -> Suite:
    case = start_tag("testcase", {"classname": "junit", "name": label, "time": "0"})
    error = start_tag("error", {"type": "unreadable", "message": reason})
    text = case + error + content(reason) + b"</error></testcase>"
    counts = Counter(tests=1, errors=1)
    return Suite((UNREADABLE,), {}, [Piece(0, 0, text)], counts)


def write_order(folder: Path, name: str, paths: Sequence[Path], home: Path) -> None:
    """Write what a process of its own is to gather."""
    data = {"paths": [str(path) for path in paths], "home": str(home)}
    (folder / f"{name}.order").write_text(json.dumps(data), encoding="utf-8")


def read_index(folder: Path, name: str) -> Part:
    """What a process of its own has gathered."""
    data = json.loads((folder / f"{name}.index").read_text(encoding="utf-8"))
    places = [Place(*place) for place in data.pop("places")]
    return Part(places, Counter(data.pop("counts")), **data)


def main(folder: Path, name: str) -> None:
    """Gather what ``NAME.order`` asks for."""
    order = json.loads((folder / f"{name}.order").read_text(encoding="utf-8"))
    with (folder / f"{name}.xml").open("wb") as spool:
        part = gather(map(Path, order["paths"]), Path(order["home"]), spool)
    (folder / f"{name}.index").write_text(json.dumps(vars(part)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
