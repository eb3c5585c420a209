"""Collecting a suite's tests in its own worker, for the plan."""

from __future__ import annotations

import os
import re
import select
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exacthead.runs import stacks
from exacthead.units import family
from exacthead.units.death import (
    ORDINARY,
    crash_stacks,
    how_it_ended,
    last_bytes,
    last_line,
    what_pytest_says,
)
from exacthead.units.kills import Kills
from exacthead.units.places import ProcessFiles
from exacthead.units.settings import RUN, Settings
from exacthead.units.tail import Tail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Files that crash the collecting process, one after the other, before it is given up.
_MOST_CRASHES = 20
_ADDRESS = re.compile(r" at 0x[0-9a-f]{4,}")
# Files with errors interrupt a collection that is all that is asked for; so do other things, but
# then no list of tests has come.
_INTERRUPTED = 2
_LOG_BYTES = 1 << 18
_STACKS_S = 2.0


@dataclass(frozen=True)
class Collected:
    """What pytest found in a suite.

    Attributes:
        nodeids: the tests in pytest's order, each once.
        errors: why a file, folder or class could not be collected, by its id.
        skipped: why a file skips itself as a whole, by its id.
        duplicates: ids that more than one test has; only the first of each can be run.
        unstable: ids that hold the address of an object: another in each process.
        deselected: how many tests the options left out.
        deselected_in: the files that these are in.
        dropped: tests that were found and then taken away without a word.
        ignore: files and folders that options leave out, absolute.
        ignore_globs: patterns of these, absolute.
        rootdir: the folder to which ids are relative.
        pytest: its version.
        fault: why nothing can be planned, in one line; empty when something can.
        log: with a fault, what the process wrote and where it stood.
    """

    nodeids: tuple[str, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    duplicates: tuple[str, ...] = ()
    unstable: tuple[str, ...] = ()
    deselected: int = 0
    deselected_in: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    ignore_globs: tuple[str, ...] = ()
    rootdir: str = ""
    pytest: str = ""
    fault: str = ""
    log: str = ""

    @property
    def planned(self) -> tuple[str, ...]:
        """What must have a result: all tests, and the files that have none to show."""
        return (*self.nodeids, *self.errors, *self.skipped)


def collect(  # noqa: PLR0913, PLR0917 - a process is these things
    python: Path,
    root: Path,
    paths: Sequence[str],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    timeout_s: float,
) -> Collected:
    """Collect in a fresh process; a file that ends it is noted and left out of the next try.

    Args:
        python: the worker's interpreter.
        root: pytest's working folder.
        paths: what pytest collects from, relative to ``root``.
        arguments: further arguments of pytest.
        environment: all that the process sees.
        timeout_s: the limit of all tries together, in seconds.
    """
    deadline = time.monotonic() + timeout_s
    crashed: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="eh-collect-") as folder:
        number = 0
        while True:
            number += 1
            files = ProcessFiles(Path(folder), number)
            settings = _settings(files, paths, arguments, list(crashed))
            settings.write(files.settings)
            ended = _run(files, python, root, environment, deadline)
            found = Tail(files.stream).read()
            culprit, why = _in_flight(found)
            if ended.ordinary and not why:
                return _collected(found, crashed, _log(files))
            if not culprit or ended.timed_out or number > _MOST_CRASHES:
                where = f" at {culprit}" if culprit else ""
                log = f"{_log(files)}\n{ended.stacks}"
                return _fault(f"{ended.words}{where}", last_bytes(files.log), log)
            crashed[culprit] = why or f"{ended.words} while it collected this"


@dataclass(frozen=True)
class _Ended:
    words: str
    ordinary: bool
    timed_out: bool = False
    stacks: str = ""


def _settings(
    files: ProcessFiles, paths: Sequence[str], arguments: Sequence[str], excluded: list[str]
) -> Settings:
    return Settings(
        paths=paths,
        arguments=("--collect-only", "-q", *arguments),
        groups=(),
        known=(),
        excluded=excluded,
        collect=True,
        stream=str(files.stream),
        log=str(files.log),
        crash=str(files.crash),
        stacks=str(files.folder),
    )


def _run(
    files: ProcessFiles, python: Path, root: Path, environment: Mapping[str, str], deadline: float
) -> _Ended:
    mark = f"{os.getpid()}.collect.{files.number}"
    kills, begun = Kills(), time.monotonic()
    with files.log.open("ab") as log:
        child = subprocess.Popen(
            [str(python), str(RUN), str(files.settings), "-1"],
            cwd=root,
            env={**environment, family.MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    handle = os.pidfd_open(child.pid)
    try:
        rest_s = max(0.1, deadline - time.monotonic())
        if not select.select([handle], [], [], rest_s)[0]:
            stood = stacks.dump(
                family.family(child.pid, mark), files.folder, wait_s=_STACKS_S, hurry=lambda: False
            )
            words = "it took longer than it may"
            return _Ended(words, ordinary=False, timed_out=True, stacks=stood)
    finally:
        # Nothing of it outlives this call, whatever files start when they are imported. It is
        # reaped last: until then its pid and session are nobody else's.
        family.end(child.pid, mark, grace_s=0.0)
        child.wait()
        os.close(handle)
    finished = [event["code"] for event in Tail(files.stream).read() if event["event"] == "finish"]
    how = how_it_ended(child.returncode, kills.since(begun))
    return _Ended(how, ordinary=bool(finished))


def _in_flight(events: list[dict[str, Any]]) -> tuple[str, str]:
    """What was being collected at the end, and by what it ended pytest; empty for nothing."""
    current = why = ""
    for event in events:
        match event["event"]:
            case "collecting":
                current = event["file"]
            case "collected":
                current = ""
            case "uncollectable":
                current, why = event["file"], event["reason"]
    return current, why


def _log(files: ProcessFiles) -> str:
    """What a process wrote, and the stacks of a fatal signal."""
    return last_bytes(files.log, _LOG_BYTES) + crash_stacks(files.crash)


def _fault(cause: str, said: str, log: str) -> Collected:
    line = last_line(said)
    return Collected(fault=f"collection: {cause}{f': {line}' if line else ''}", log=log.strip())


def _collected(events: list[dict[str, Any]], crashed: dict[str, str], log: str) -> Collected:
    found: dict[str, Any] = {"errors": dict(crashed), "skipped": {}, "nodeids": [], "deselected": 0}
    deselected_in: dict[str, None] = {}
    trouble = ""
    whole = False
    code = 0
    for event in events:
        match event["event"]:
            case "start":
                found |= {name: event[name] for name in ("rootdir", "pytest")}
                found |= {name: tuple(event[name]) for name in ("ignore", "ignore_globs")}
            case "file":
                skipped = event["outcome"] == "skipped"
                text = event["reason"] if skipped else event["text"] or event["reason"]
                found["skipped" if skipped else "errors"][event["file"]] = text
            case "tests":
                found["nodeids"], whole = event["nodeids"], True
            case "deselected":
                found["deselected"] += event["tests"]
                deselected_in.update(dict.fromkeys(event["files"]))
            case "dropped":
                found["dropped"] = tuple(event["nodeids"])
            case "internal" | "interrupt" | "fault":
                trouble = trouble or event.get("text") or event["reason"]
            case "finish":
                code = event["code"]
    if not whole or code not in {*ORDINARY, _INTERRUPTED}:
        return _fault(what_pytest_says(code), trouble or log, f"{trouble}\n{log}")
    counts = Counter(found["nodeids"])
    nodeids = tuple(counts)
    return Collected(
        **{**found, "nodeids": nodeids, "deselected_in": tuple(deselected_in)},
        duplicates=tuple(nodeid for nodeid in nodeids if counts[nodeid] > 1),
        unstable=tuple(nodeid for nodeid in nodeids if _ADDRESS.search(nodeid)),
    )
