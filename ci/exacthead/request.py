"""From an item of a plan to a request that runs on this machine: placeholders and variables."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import exacthead
from exacthead.plan import python_variable, seeded
from exacthead.runs.files import write_json
from exacthead.runs.item import ItemRequest
from exacthead.runs.packing import Asked
from exacthead.tables import OWN_ROLE
from exacthead.units.order import ShardOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.config import Harness
    from exacthead.images.place import InImage
    from exacthead.plan import Item
    from exacthead.runs.folder import ItemFolder
    from exacthead.units.shard import Shard
    from exacthead.workers.spec import Spec

ORDER = "order.json"


def make_request(  # noqa: PLR0913, PLR0917 - what a request is made of
    harness: Harness,
    item: Item,
    specs: Mapping[str, Spec],
    pythons: Mapping[str, Path],
    into: ItemFolder,
    inside: InImage | None = None,
) -> ItemRequest:
    """The request to run ``item`` in the checkout of ``harness``, or in an image of it.

    Args:
        harness: the declarations; its root is the working folder.
        item: with ``{python:ROLE}`` and ``{folder}`` in its command.
        specs: of its workers, by name; their declared variables are set.
        pythons: interpreter by worker name; one that is missing leaves its placeholder, for an
            item that will not be run.
        into: where its results go.
        inside: the image; interpreters are then those in it.
    """
    roles = {role: str(pythons[name]) for role, name in item.workers.items() if name in pythons}
    filled = {f"{{python:{role}}}": python for role, python in roles.items()}
    filled["{folder}"] = str(inside.seen(into.path, into.path) if inside else into.path)
    filled["{harness}"] = inside.python if inside else sys.executable
    package = inside.package if inside else Path(exacthead.__file__).parent
    filled["{exacthead}"] = str(package)
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
        settled=item.settled,
        environment={
            **seeded({**declared, **item.environment}, item.seed),
            **{python_variable(role): python for role, python in roles.items()},
        },
        pythonpath=harness.import_folders,
        secrets=item.secrets,
        asked=Asked(item.cpus, item.memory_gb, item.accelerators),
        inside=inside,
    )


def give_order(
    harness: Harness,
    item: Item,
    request: ItemRequest,
    workers: Mapping[str, Path],
    specs: Mapping[str, Spec],
) -> ItemRequest:
    """Write down what the driver of a suite's item is told; the request with what that needs.

    An item that will not be run is given no order.

    Args:
        harness: the declarations.
        item: any item.
        request: for it.
        workers: interpreter by worker name.
        specs: of its workers, by name.

    Raises:
        HarnessError: the item's folder cannot be written to.
    """
    shard, own = item.shard, item.workers.get(OWN_ROLE, "")
    if shard is None or item.settled or own not in workers:
        return request
    # Coverage is slow to import, and a job can do without.
    from exacthead.cover.settings import prepare
    from exacthead.measured import settings

    asked = settings(harness, contexts=shard.contexts)
    if asked and shard.coverage:
        version = specs[own].interpreter.version
        place, inside = request.folder.path, request.inside
        there = (inside.seen(place, place), inside.seen(harness.root, place)) if inside else None
        prepared = prepare(place, harness.root, asked, python=version, seen_as=there)
        request = replace(
            request,
            environment={**request.environment, **prepared.environment},
            pythonpath=(*request.pythonpath, *prepared.pythonpath),
        )
    root = harness.root
    if request.inside:
        root = request.inside.seen(root, request.folder.path)
    order = make_order(item, shard, workers[own], root)
    write_json(request.folder.path / ORDER, order.as_data())
    return request


def make_order(item: Item, shard: Shard, python: Path, root: Path) -> ShardOrder:
    """What the driver of a suite's item is told.

    Args:
        item: a suite's.
        shard: its tests.
        python: the interpreter of its worker.
        root: the checkout.
    """
    return ShardOrder(
        suite=shard.suite,
        python=str(python),
        root=str(root),
        paths=shard.paths,
        groups=shard.groups,
        elsewhere=shard.elsewhere,
        arguments=shard.arguments,
        processes=shard.processes,
        test_timeout_s=shard.test_timeout_s,
        timeout_s=item.timeout_s,
        retries=shard.retries,
    )


def _filled(word: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word
