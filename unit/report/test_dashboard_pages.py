from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.report.dashboard.rows import page_path
from unit.exacthead.report.synthetic import head, nodeid
from unit.report.conftest import NARROW, RUNS, WIDE

if TYPE_CHECKING:
    from pathlib import Path

    from unit.report.conftest import Visitor

PAGES = ["index.html", "tests.html", "faults.html", "metrics.html", "coverage.html", "builds.html",
         "runs.html", page_path(nodeid(3))]  # fmt: skip


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_fits_its_screen_and_asks_for_its_own_files_only(
    visitor: Visitor, dashboard: Path, shots: Path, name: str, size: tuple[int, int]
) -> None:
    visit = visitor(size)
    page = visit.open(dashboard / name)
    page.screenshot(path=shots / f"dashboard-{name.replace('/', '-')}-{size[0]}.png")
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]
    assert visit.complaints == []
    assert len(visit.loaded) == 3
    assert all(each.startswith(dashboard.as_uri()) for each in visit.loaded)


def test_the_grid_shows_the_newest_heads_and_leads_to_older_ones(
    visitor: Visitor, dashboard: Path
) -> None:
    page = visitor().open(dashboard / "index.html")
    heads = page.locator(".grid thead a").all_inner_texts()
    assert (heads[0], len(heads)) == (head(RUNS - 1)[:10], 60)
    row = page.locator("#rows tr", has_text="unit.part_0")
    assert row.locator("td").first.inner_text() == "✕"
    assert row.locator("td a").first.get_attribute("aria-label").startswith("failed at")  # type: ignore[union-attr]
    page.get_by_role("link", name="Older heads").click()
    assert page.locator(".grid thead a").all_inner_texts()[-1] == head(0)[:10]


def test_filters_are_in_the_address_and_come_back_with_it(
    visitor: Visitor, dashboard: Path
) -> None:
    page = visitor().open(dashboard / "index.html")
    page.get_by_label("Kind").select_option("suite")
    page.get_by_label("Find items").fill("part_1")
    assert page.evaluate("location.search") == "?q=part_1&kind=suite"
    shown = page.locator("#rows tr:visible th")
    assert shown.all_inner_texts() == ["unit.part_1"]
    assert page.locator("form output").inner_text() == "1 of 5 shown"
    page.reload()
    assert shown.all_inner_texts() == ["unit.part_1"]
    page.get_by_label("Find items").fill("")
    page.get_by_label("Kind").select_option("")
    assert page.evaluate("location.search") == ""
    assert shown.count() == 5


def test_a_link_with_a_filter_shows_what_its_sender_saw(visitor: Visitor, dashboard: Path) -> None:
    page = visitor().open(dashboard / "tests.html", "?has=red#files")
    assert page.locator("#files tbody tr:visible th").all_inner_texts() == ["unit/part_0/test_0.py"]
    unknown = visitor().open(dashboard / "tests.html", "?has=nonsense&q=part_0/")
    assert unknown.locator("#files tbody tr:visible").count() == 2


def test_from_the_lists_to_the_page_of_a_test(visitor: Visitor, dashboard: Path) -> None:
    page = visitor().open(dashboard / "tests.html")
    assert nodeid(1) in page.locator("#slowing tbody").inner_text()
    assert nodeid(2) in page.locator("#flaky tbody").inner_text()
    page.locator("#red tbody a").click()
    assert page.url == (dashboard / page_path(nodeid(3))).as_uri()
    assert page.locator("h1").inner_text() == "Failed in the last 18 runs"
    assert f"head {head(52)[:10]}" in page.locator("dl").inner_text()
    page.wait_for_selector("canvas")
    page.locator("#main table a").first.click()
    assert "runs.html#" in page.url


def test_a_change_of_level_is_marked_where_it_was(visitor: Visitor, dashboard: Path) -> None:
    page = visitor().open(dashboard / "metrics.html", "?has=change")
    shown = page.locator("#rows [data-k]:visible")
    assert shown.locator("figcaption").all_inner_texts() == ["train/loss"]
    assert f"change at {head(RUNS // 2)[:10]}" in shown.inner_text()


def test_without_scripts_the_dashboard_can_be_read(visitor: Visitor, dashboard: Path) -> None:
    page = visitor(java_script_enabled=False).open(dashboard / "index.html")
    assert page.locator("form:visible").count() == 0
    assert page.locator("#rows tr:visible").count() == 5
    page.get_by_role("link", name="Tests", exact=True).click()
    page.locator("#red tbody a").click()
    assert page.locator("tbody tr:visible").count() >= 3
