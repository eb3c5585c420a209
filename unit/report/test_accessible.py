from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.report.dashboard.rows import page_path
from unit.exacthead.report.synthetic import nodeid
from unit.report.conftest import NARROW, WIDE

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from unit.report.conftest import Visitor

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = ["index.html", "coverage.html", "items/gym_training.flag_off/index.html",
       "items/unit.policy.1of2/index.html"]  # fmt: skip
DASHBOARD = ["index.html", "tests.html", "faults.html", "metrics.html", "builds.html", "runs.html",
             page_path(nodeid(3))]  # fmt: skip


def faults(page: Page) -> list[str]:
    """What axe finds wrong with the page, a line each."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.evaluate(AXE)
    found: dict[str, Any] = page.evaluate(
        "(tags) => axe.run(document, {runOnly: {type: 'tag', values: tags}})", RULES
    )
    assert len(found["passes"]) > 15  # it has looked
    return [
        f"{each['id']}: {node['target']}: {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"][:3]
    ]


@pytest.mark.parametrize(
    ("scheme", "size"), [("light", WIDE), ("dark", WIDE), ("light", NARROW)], ids=str
)
@pytest.mark.parametrize("name", RUN)
def test_a_page_of_a_run_has_no_barrier(
    visitor: Visitor, run: Path, name: str, scheme: str, size: tuple[int, int]
) -> None:
    assert faults(visitor(size, color_scheme=scheme).open(run / name)) == []


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", NARROW)], ids=str)
@pytest.mark.parametrize("name", DASHBOARD)
def test_a_page_of_the_dashboard_has_no_barrier(
    visitor: Visitor, dashboard: Path, name: str, scheme: str, size: tuple[int, int]
) -> None:
    assert faults(visitor(size, color_scheme=scheme).open(dashboard / name)) == []
