"""Exacthead in repositories that are not ours: it says of every test what pytest alone says."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from unit.foreign.checkout import SHARDS, Finished, counted, relative
from unit.foreign.projects import CLICK

if TYPE_CHECKING:
    from pathlib import Path

    from unit.foreign.checkout import Checkout

ITEMS = [f"unit.tests.{number}of{SHARDS}" for number in range(1, SHARDS + 1)]


def planned(folder: Path) -> list[dict[str, Any]]:
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    items: list[dict[str, Any]] = plan["items"]
    return items


def nodeids(item: dict[str, Any]) -> list[str]:
    return [nodeid for group in item["shard"]["groups"] for nodeid in group]


def test_shards_give_every_test_the_verdict_of_plain_pytest(
    checkout: Checkout, sharded: Finished, plain: Finished
) -> None:
    ours, theirs = sharded.told(), plain.told()

    assert ours.cases == theirs.cases
    assert ours.totals == theirs.totals
    assert ours.totals.total() >= checkout.project.tests
    assert {"passed", "skipped", "xfailed"} <= ours.totals.keys()
    assert sharded.code == plain.code, sharded.printed
    red = ours.totals["failure"] + ours.totals["error"]
    skipped = ours.totals["skipped"] + ours.totals["xfailed"]
    last = f"{ours.totals['passed']} passed, {red} failed, {skipped} skipped"
    assert sharded.printed.splitlines()[-1] == last


def test_each_test_is_planned_in_one_shard_and_has_its_result_there(sharded: Finished) -> None:
    items = planned(sharded.folder)
    everything = sorted(nodeid for item in items for nodeid in nodeids(item))

    assert [item["id"] for item in items] == ITEMS
    assert everything == sorted(sharded.told().nodeids)
    for item in items:
        folder = sharded.folder / "items" / item["id"]
        assert list(Finished(folder, 0, "").told().nodeids) == nodeids(item)


def test_two_processes_that_share_the_work_give_the_same_verdicts(
    checkout: Checkout, sharded: Finished
) -> None:
    together = checkout.finished("unit", "-j", "2", "--no-cov")

    assert together.told().nodeids == sharded.told().nodeids
    assert together.told().cases == sharded.told().cases
    assert together.code == sharded.code


def test_a_shard_is_replayed(checkout: Checkout, sharded: Finished) -> None:
    first = Finished(sharded.folder / "items" / ITEMS[1], 0, "").told()

    again = checkout.finished("reproduce", f"runs/{sharded.folder.name}/{ITEMS[1]}")

    assert again.told() == first
    assert planned(again.folder) == planned(sharded.folder)[1:2]
    state = json.loads((sharded.folder / "items" / ITEMS[1] / "result.json").read_text("utf-8"))
    assert (again.code == 0) == (state["verdict"]["kind"] == "passed")


def test_the_run_used_exactly_the_committed_files(sharded: Finished) -> None:
    provenance = json.loads((sharded.folder / "provenance.json").read_text(encoding="utf-8"))

    assert provenance["dirty"] is False
    assert provenance["changed"] == []


@pytest.mark.parametrize("project", [CLICK], indirect=True, scope="module", ids=["click"])
def test_shards_cover_exactly_the_lines_that_plain_coverage_counts(
    checkout: Checkout, sharded: Finished, tmp_path: Path
) -> None:
    measured = ("-m", "coverage", "run", f"--source={checkout.project.source}")
    checkout.plain(
        tmp_path,
        *(*measured, f"--rcfile={relative(tmp_path)}", f"--data-file={tmp_path / 'coverage'}"),
        COVERAGE_CORE="sysmon",
    )

    ours = counted(checkout.harness, sharded.folder / "coverage.sqlite", checkout.root)
    theirs = counted(checkout.harness, tmp_path / "coverage", checkout.root)
    assert "lines by sys.monitoring" in sharded.printed
    assert len(theirs) > 10
    assert ours == theirs


def test_init_read_from_the_project_where_its_code_and_its_tests_are(checkout: Checkout) -> None:
    written = tomllib.loads(checkout.written.read_text(encoding="utf-8"))

    assert written["project"]["name"] == checkout.project.name
    assert written["project"]["pythonpath"] == ["src"]
    assert written["coverage"]["sources"] == [checkout.project.source]
    paths = list(checkout.project.paths)
    assert written["suites"]["tests"] == {"paths": paths, "worker": "tests"}
    assert (checkout.root / "noxfile.py").exists()
