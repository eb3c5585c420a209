"""Running an item of an earlier run again: from its folder, at its head, and only there."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError
from exacthead.head import read_head
from exacthead.runs.item import ItemRequest

if TYPE_CHECKING:
    from exacthead.runs.folder import ItemFolder, RunFolder
    from exacthead.runs.provenance import Provenance


def reproduction(run: RunFolder, item_id: str, root: Path) -> str:
    """The one line that runs ``item_id`` again, for a shell in the repository ``root``."""
    path = run.path.relative_to(root) if run.path.is_relative_to(root) else run.path
    return f"./noxw -s reproduce -- {shlex.quote(str(path))} {shlex.quote(item_id)}"


def request_of(run: RunFolder, item_id: str, into: ItemFolder) -> ItemRequest:
    """The request that ``run`` kept of ``item_id``, with its results going ``into`` a new folder.

    Raises:
        HarnessError: when the run has no such item.
    """
    path = run.item_path(item_id).request
    try:
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HarnessError(
            f"item {item_id!r} of {run.path}",
            str(error),
            f"name an item that it ran: {', '.join(run.item_ids()) or '(none)'}",
        ) from error
    return ItemRequest(
        item_id=kept["item_id"],
        command=tuple(kept["command"]),
        cwd=Path(kept["cwd"]),
        folder=into,
        timeout_s=kept["timeout_s"],
        environment=kept["environment"],
        pythonpath=tuple(Path(path) for path in kept["pythonpath"]),
        grace_s=kept["grace_s"],
        leftover_grace_s=kept["leftover_grace_s"],
        memory_limit_mb=kept["memory_limit_mb"],
        keep_when_red=tuple(kept["keep_when_red"]),
    )


def check_head(run: RunFolder, root: Path) -> Provenance:
    """Refuse to reproduce at another head than the run's; returns what the run used.

    Raises:
        HarnessError: when the checkout at ``root`` is at another commit, or the run or the checkout
            was dirty, so that the commit does not tell what ran.
    """
    used = run.read_provenance()
    now = read_head(root)
    if used.dirty:
        raise HarnessError(
            f"the head of {run.path}",
            f"{used.commit[:12]} with changes that were never committed",
            "run it again from a clean checkout",
        )
    if now.commit != used.commit or now.dirty:
        raise HarnessError(
            f"a clean checkout of {used.commit[:12]}", str(now), f"git checkout {used.commit}"
        )
    return used
