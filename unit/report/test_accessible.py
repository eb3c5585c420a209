from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.report.dashboard.rows import page_path
from unit.exacthead.report.synthetic import nodeid
from unit.report.conftest import NARROW

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from unit.report.conftest import Visitor

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = ["index.html", "coverage.html", "items/gym_training.flag_off/index.html",
       "items/unit.policy.1of2/index.html"]  # fmt: skip
DASHBOARD = ["index.html", "tests.html", "faults.html", "metrics.html", "builds.html", "runs.html",
             page_path(nodeid(3))]  # fmt: skip


def faults(page: Page, tags: list[str]) -> list[str]:
    """What axe finds wrong with the page, a line each."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.evaluate(AXE)
    found: dict[str, Any] = page.evaluate(
        "(tags) => axe.run(document, {runOnly: {type: 'tag', values: tags}})", tags
    )
    assert found["passes"]  # it has looked
    return [
        f"{each['id']}: {node['target']}: {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"][:3]
    ]


@pytest.mark.parametrize("name", RUN)
def test_a_page_of_a_run_has_no_barrier(visitor: Visitor, run: Path, name: str) -> None:
    assert faults(visitor().open(run / name), RULES) == []


@pytest.mark.parametrize("name", DASHBOARD)
def test_a_page_of_the_dashboard_has_no_barrier(
    visitor: Visitor, dashboard: Path, name: str
) -> None:
    assert faults(visitor().open(dashboard / name), RULES) == []


def test_nor_has_one_in_the_dark_on_a_narrow_screen(
    visitor: Visitor, run: Path, dashboard: Path
) -> None:
    for place in (run / "index.html", run / RUN[2], dashboard / "index.html"):
        visit = visitor(NARROW, color_scheme="dark")
        assert faults(visit.open(place), ["wcag2aa", "wcag22aa"]) == [], place
