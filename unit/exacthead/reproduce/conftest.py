"""What the tests of reproduction share: run folders as a run of a checkout leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.head import read_head
from exacthead.patch import keep_changes
from exacthead.plan import Item, Plan
from exacthead.reproduce import find
from exacthead.runs.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from exacthead.reproduce import Past
    from unit.exacthead.conftest import Repository

ITEMS = tuple(
    Item(id=name, kind="leg", command=("true",), workers={}, environment={}, timeout_s=1.0)
    for name in ("count.plain", "count.Other leg")
)


@pytest.fixture
def ran() -> Callable[[Repository], Path]:
    """A function that leaves the folder of a run of a repository as it is now, without results."""

    def make(repository: Repository) -> Path:
        head = read_head(repository.root)
        plan = Plan(head=head, runner="here", flavour="cpu", items=ITEMS, keys={})
        folder = RunFolder.create(repository.root / "runs", plan.as_data(), str(head))
        keep_changes(repository.root, folder.path)
        return folder.path

    return make


@pytest.fixture
def past(ran: Callable[[Repository], Path]) -> Callable[[Repository], Past]:
    """A function that gives the one item of such a run."""
    return lambda repository: find(ran(repository) / "count.plain")
