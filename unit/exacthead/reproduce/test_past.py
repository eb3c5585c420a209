from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.reproduce import find

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unit.exacthead.conftest import Repository

    Ran = Callable[[Repository], Path]


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("count.plain", "count.plain"),
        ("items/count.plain", "count.plain"),
        ("count.Other leg", "count.Other leg"),
        ("items/count.=4fther=20leg", "count.Other leg"),
    ],
)
def test_an_item_is_named_by_its_id_or_its_folder(
    empty_repository: Repository, ran: Ran, named: str, found: str
) -> None:
    run = ran(empty_repository)

    past = find(run / named)

    assert past.folder == run
    assert [item.id for item in past.plan.items] == [found]
    assert past.item.id == found
    assert past.provenance is None


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("", "add one of: count.plain, count.Other leg"),
        ("count.plian", "did you mean 'count.plain'?"),
        ("../elsewhere", "no run folder there"),
    ],
)
def test_what_is_no_item_of_a_run_is_refused(
    empty_repository: Repository, ran: Ran, named: str, words: str
) -> None:
    run = ran(empty_repository)

    with pytest.raises(HarnessError, match=words.replace("?", r"\?")):
        find((run / named).resolve())


def test_a_plan_that_was_changed_is_not_replayed(empty_repository: Repository, ran: Ran) -> None:
    path = ran(empty_repository) / "plan.json"
    plan = json.loads(path.read_text(encoding="utf-8"))
    plan["items"][0]["seed"] = 7
    path.write_text(json.dumps(plan), encoding="utf-8")

    with pytest.raises(HarnessError, match="it was changed after the run"):
        find(path.parent / "count.plain")
