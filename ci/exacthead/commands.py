"""The commands that run what is asked for, and those that run it again: arguments in, code out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.images.where import wanted
from exacthead.opening import Opening, invocation, opened
from exacthead.selection import Asked
from exacthead.suite_items import Wish

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from exacthead.config import Harness


def functional(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run a job's legs."""
    opening = Opening(
        harness,
        Asked(jobs=(arguments.job,), legs=tuple(arguments.leg)),
        Wish(),
        console,
        flavour=arguments.flavour,
        runner_name=arguments.runner or "",
        wanted=wanted(arguments),
    )
    with opened(opening) as session:
        return session.run()


def reproduce(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run one item of an earlier run again: same head, keys, order, seed and environment."""
    from exacthead.reproduce import reproduce_item

    return reproduce_item(
        harness,
        Path(arguments.item),
        console,
        invocation=invocation(),
        until_fail=arguments.until_fail,
        bisect=arguments.bisect_order,
    )
