"""From an item of a plan to a request that runs on this machine: placeholders and variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.plan import python_variable
from exacthead.runs.item import ItemRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.plan import Item
    from exacthead.runs.folder import ItemFolder
    from exacthead.workers.spec import Spec


def make_request(
    harness: Harness,
    item: Item,
    specs: Mapping[str, Spec],
    pythons: Mapping[str, Path],
    into: ItemFolder,
) -> ItemRequest:
    """The request to run ``item`` in the checkout of ``harness``.

    Args:
        harness: the declarations; its root is the working folder.
        item: with ``{python:ROLE}`` and ``{folder}`` in its command.
        specs: of its workers, by name; their declared variables are set.
        pythons: interpreter by worker name; one that is missing leaves its placeholder, for an
            item that will not be run.
        into: where its results go.
    """
    roles = {role: str(pythons[name]) for role, name in item.workers.items() if name in pythons}
    filled = {f"{{python:{role}}}": python for role, python in roles.items()}
    filled["{folder}"] = str(into.path)
    declared = {
        name: value
        for worker in sorted(set(item.workers.values()))
        for name, value in specs[worker].environment
    }
    return ItemRequest(
        item_id=item.id,
        command=tuple(_filled(word, filled) for word in item.command),
        cwd=harness.root,
        folder=into,
        timeout_s=item.timeout_s,
        environment={
            **declared,
            **item.environment,
            "EXACTHEAD_SEED": str(item.seed),
            "PYTHONHASHSEED": str(item.seed),
            **{python_variable(role): python for role, python in roles.items()},
        },
        pythonpath=tuple((harness.root / path).resolve() for path in harness.project.pythonpath),
    )


def _filled(word: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word
