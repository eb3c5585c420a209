"""Matrix: what a plan's job tells the jobs behind it, within the limits that GitHub sets."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.workflows.entries import entry, group_of, groups, startable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.config import Harness
    from exacthead.plan import Plan

# A matrix makes at most so many jobs.
MOST_ENTRIES = 256
# All outputs of a job, counted by GitHub as UTF-16.
MOST_BYTES = 1 << 20


def matrices(
    harness: Harness, plan: Plan, *, most: int = MOST_ENTRIES
) -> dict[str, tuple[str, ...]]:
    """The entries of each group of the plan that has any: group id -> JSON lists of entries.

    Items that the plan itself keeps from running get no job. Each list is ASCII on one line, so
    that no character of a name means anything on its way.

    Args:
        harness: the declarations.
        plan: what is to run.
        most: how many entries a matrix can have; more are split.

    Raises:
        HarnessError: an item that harness.toml does not declare, or that no runner can run.
    """
    known = groups(harness)
    found: dict[str, list[dict[str, object]]] = {}
    for item in startable(plan):
        made = asdict(entry(harness, plan, item))
        found.setdefault(group_of(item, known).id, []).append(made)
    return {
        name: tuple(
            json.dumps(entries[start : start + most], separators=(",", ":"))
            for start in range(0, len(entries), most)
        )
        for name, entries in found.items()
    }


def outputs(made: Mapping[str, tuple[str, ...]], *, most: int = MOST_BYTES) -> str:
    """The lines for the file of a step's outputs: a JSON list of strings for each group.

    Raises:
        HarnessError: they are larger than a job's outputs may be.
    """
    texts = {name: json.dumps(chunks, separators=(",", ":")) for name, chunks in made.items()}
    size = sum(2 * (len(name) + len(text)) for name, text in texts.items())
    if size > most:
        entries = sum(len(json.loads(chunk)) for chunks in made.values() for chunk in chunks)
        raise HarnessError(
            f"a matrix of {entries} items",
            f"{size} bytes, where the outputs of a job may have {most}",
            "plan less at once: a level, a suite, or fewer shards",
        )
    return "".join(f"{name}={text}\n" for name, text in texts.items())
