"""The lint of known failures: each still holds and names something that exists."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError, nearest
from exacthead.shards.nodeid import file_of
from exacthead.triage.known import FILE, KnownFailure, load_known
from exacthead.triage.static import holds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import date
    from pathlib import Path

    from exacthead.config import Harness


def check(root: Path, harness: Harness, today: date) -> list[str]:
    """What is wrong with ``root/ci/known_failures.toml``, a sentence each; empty when all is well.

    An entry fails when it has expired, or when it is unused: a leg that harness.toml does not have,
    a test whose file, class or function is not in the checkout. The parameters of a test cannot be
    checked without collecting it: :func:`unused_in` does that when a plan is made.

    Args:
        root: the checkout; its test files are read, not run.
        harness: its declarations.
        today: the day on which entries must still hold.
    """
    try:
        known = load_known(root)
    except HarnessError as error:
        return [str(error)]
    findings = []
    for entry in known.entries:
        problems = [_expired(entry, today), _runner(entry, harness), _missing(entry, root, harness)]
        findings += [f"{FILE}: {entry.target}: {problem}" for problem in problems if problem]
    return findings


def unused_in(
    entries: Iterable[KnownFailure], planned_ids: Collection[str], files: Collection[str]
) -> tuple[KnownFailure, ...]:
    """The entries that name no collected test, parameters included.

    Args:
        entries: of tests or legs; those of legs and of other files are passed over.
        planned_ids: the node ids of everything that was collected.
        files: the test files, relative to the root, that were collected as a whole: nothing was
            left out by a marker, by a shard or by a change; those of :func:`gone_files` too.
    """
    in_file: dict[str, list[str]] = {}
    for nodeid in planned_ids:
        in_file.setdefault(file_of(nodeid), []).append(nodeid)
    whole = frozenset(files)
    return tuple(
        entry
        for entry in entries
        if entry.file in whole and not any(map(entry.covers, in_file.get(entry.file, [])))
    )


def gone_files(
    entries: Iterable[KnownFailure], root: Path, paths: Collection[str]
) -> frozenset[str]:
    """The files of entries that are not in the checkout, below ``paths``: none has any test.

    Args:
        entries: of tests or legs.
        root: the checkout.
        paths: of the suites that were planned whole, relative to the root.
    """
    files = {entry.file for entry in entries} - {""}
    return frozenset(
        file
        for file in files
        if any(PurePosixPath(file).is_relative_to(path) for path in paths)
        and not (root / file).exists()
    )


def _expired(entry: KnownFailure, today: date) -> str | None:
    if not entry.expired(today):
        return None
    return (
        f"expired on {entry.expires}; mend it ({entry.issue}), "
        f"or let {entry.owner} give it another date"
    )


def _runner(entry: KnownFailure, harness: Harness) -> str | None:
    if entry.runner is None or entry.runner in harness.runners:
        return None
    return f"no runner {entry.runner!r} in harness.toml; {nearest(entry.runner, harness.runners)}"


def _missing(entry: KnownFailure, root: Path, harness: Harness) -> str | None:
    if entry.leg is not None:
        legs = [f"{name}.{leg}" for name, job in harness.jobs.items() for leg in job.legs]
        return None if entry.leg in legs else f"unused: no such leg; {nearest(entry.leg, legs)}"
    path = root / entry.file
    if not path.is_file():
        return "unused: no such file; remove the entry or mend its path"
    if not entry.names:
        return None
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        return f"its file cannot be read as Python: {error}"
    if holds(tree, entry.names):
        return None
    return f"unused: the file has no {'::'.join(entry.names)}; remove the entry or mend its name"
