"""Kept collections: what pytest found in a suite, by the content of all that decides it.

That is the checkout, the worker, what pytest is told, and the environment. A session that runs
collects for itself all the same: a file that git ignores may decide which tests there are, and
nothing must stay unrun for it. What it finds is kept for the next plan.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from exacthead.environ import clean_environment
from exacthead.runs.files import write_json
from exacthead.units.collect import Collected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from exacthead.head import Head

# Raise it when collecting finds something else in the same files.
_VERSION = 1
# Variables that tell processes apart and decide no test.
_IDLE = frozenset({"HOME", "TMPDIR", "TERM", "XDG_CACHE_HOME"})


@dataclass(frozen=True)
class Kept:
    """The collections that are kept in ``folder``, of the checkout at ``root``."""

    folder: Path
    root: Path
    head: Head

    def path(
        self,
        workers: Mapping[str, str],
        paths: Sequence[str],
        arguments: Sequence[str],
        environment: Mapping[str, str],
    ) -> Path | None:
        """Where a collection is or would be kept; None where the checkout is not told by content.

        Args:
            workers: keys by role.
            paths: what pytest collects from.
            arguments: further arguments of pytest.
            environment: the suite's own variables.
        """
        head = self.head
        if not head.content or (head.dirty and head.content == head.tree):
            return None
        inherited = clean_environment(os.environ)
        decisive = {
            "version": _VERSION,
            "root": str(self.root),
            "content": head.content,
            "workers": dict(workers),
            "paths": list(paths),
            "arguments": list(arguments),
            "environment": dict(environment),
            "inherited": {k: v for k, v in inherited.items() if k not in _IDLE},
        }
        digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
        return self.folder / f"{digest[:32]}.json"


def read(path: Path | None) -> Collected | None:
    """What was kept; None where nothing was, or nothing that can be read."""
    if path is None:
        return None
    try:
        data: dict[str, Any] = json.loads(path.read_bytes())
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        return Collected(**{**data, **lists})
    except (OSError, ValueError, TypeError):
        return None


def write(path: Path | None, collected: Collected) -> None:
    """Keep a collection in which every file told its tests; others may tell more next time."""
    if path is None or collected.fault or collected.errors or collected.skipped:
        return
    if collected.unstable or collected.dropped:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(collected))
