from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from unit.exacthead.report.sample import LINE
from unit.report.conftest import NARROW, WIDE, until

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator

    from unit.report.conftest import Visitor

LEG = "items/gym_training.flag_off/index.html"
SHARD = "items/unit.policy.1of2/index.html"


def bottom(place: Locator) -> float:
    box = place.bounding_box()
    assert box is not None
    return box["y"] + box["height"]


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_verdict_cause_and_reproduction_are_on_the_first_screen(
    visitor: Visitor, run: Path, shots: Path, size: tuple[int, int]
) -> None:
    page = visitor(size).open(run / "index.html")
    page.screenshot(path=shots / f"run-{size[0]}.png")
    assert page.locator("h1").inner_text() == (
        "2 new failures, 1 known, 1 also red on base, 3 not run"
    )
    first = page.locator(".fault").first
    assert first.locator(".label").first.inner_text() == "assertion"
    assert first.locator(".repro code").inner_text() == LINE
    assert bottom(first.locator(".repro")) <= size[1]


def test_what_ran_is_beside_it_on_a_wide_screen(visitor: Visitor, run: Path) -> None:
    page = visitor().open(run / "index.html")
    facts = page.locator(".beside .facts").first
    assert "1a2b3c4d5e6f" in facts.inner_text()
    assert bottom(facts) <= WIDE[1]


def test_the_copy_button_copies_exactly_the_line(visitor: Visitor, run: Path) -> None:
    page = visitor(permissions=["clipboard-read", "clipboard-write"]).open(run / "index.html")
    button = page.locator(".fault button[data-copy]").first
    button.click()
    until(page, "document.querySelector('.fault button').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == LINE
    assert page.get_by_role("status").inner_text() == "The line is in the clipboard"


def test_without_a_clipboard_the_line_is_selected_and_copied(visitor: Visitor, run: Path) -> None:
    visit = visitor()
    visit.page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page = visit.open(run / "index.html")
    page.locator(".fault button[data-copy]").first.click()
    assert page.evaluate("getSelection().toString()") == LINE


def test_the_keyboard_reaches_everything_and_shows_where_it_is(visitor: Visitor, run: Path) -> None:
    page = visitor(permissions=["clipboard-read", "clipboard-write"]).open(run / "index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    assert page.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "(({tagName, textContent, matches, className}) => tagName + ':' + className)"
            "(document.activeElement)"
        )
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", found
        seen.append(found)
        if found.startswith("BUTTON"):
            page.keyboard.press("Enter")
            until(page, "document.activeElement.textContent === 'Copied'")
            break
    assert seen[-1].startswith("BUTTON"), seen
    assert page.evaluate("navigator.clipboard.readText()") == LINE


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("name", ["index.html", "coverage.html", LEG, SHARD])
def test_no_page_is_wider_than_its_screen(
    visitor: Visitor, run: Path, shots: Path, name: str, size: tuple[int, int]
) -> None:
    page = visitor(size).open(run / name)
    page.screenshot(path=shots / f"{name.replace('/', '-')}-{size[0]}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]


def test_curves_are_drawn_and_drawn_anew_in_the_dark(
    visitor: Visitor, run: Path, shots: Path
) -> None:
    visit = visitor()
    page = visit.open(run / LEG)
    figures = page.locator("figure.chart")
    assert figures.count() == 5
    figures.last.scroll_into_view_if_needed()
    until(page, "document.querySelectorAll('figure.chart canvas').length === 5")
    ink = """(() => {
        const canvas = document.querySelector('canvas');
        const pen = canvas.getContext('2d', {willReadFrequently: true});
        const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
        return pixels.reduce((sum, value) => sum + value, 0);
    })()"""
    light = page.evaluate(ink)
    assert light > 0
    page.emulate_media(color_scheme="dark")
    until(page, f"{ink} !== {light}")
    page.screenshot(path=shots / "curves-dark.png")
    # One is about this reading of pixels.
    assert [each for each in visit.complaints if "willReadFrequently" not in each] == []


def test_the_scheme_follows_the_reader(visitor: Visitor, run: Path, shots: Path) -> None:
    page = visitor(color_scheme="dark").open(run / "index.html")
    page.screenshot(path=shots / "run-dark.png")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    assert (dark, light) == ("rgb(19, 20, 23)", "rgb(247, 246, 243)")


def test_tables_sort_by_their_heads(visitor: Visitor, run: Path) -> None:
    page = visitor().open(run / SHARD)
    head = page.locator("#tests th", has_text="Time")
    first = page.locator("#rows tr:visible").first
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert first.locator("code").inner_text().endswith("test_3")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert first.locator("code").inner_text().endswith("test_0")


def test_a_deep_link_opens_what_it_leads_to(visitor: Visitor, run: Path) -> None:
    page = visitor().open(run / "coverage.html", "#missed-0")
    box = page.locator("#missed-0").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < WIDE[1]
    assert page.locator("#missed-0 .missed").count() == 3


def test_without_scripts_everything_can_be_read(visitor: Visitor, run: Path, shots: Path) -> None:
    page = visitor(java_script_enabled=False).open(run / "index.html")
    page.screenshot(path=shots / "run-no-scripts.png", full_page=True)
    assert page.locator(".fault .repro code").first.inner_text() == LINE
    assert page.locator("button:visible").count() == 0
    assert page.locator("table tbody tr:visible").count() > 5
    shard = visitor(java_script_enabled=False).open(run / SHARD)
    assert shard.locator("form:visible").count() == 0
    assert shard.locator("#rows tr:visible").count() == 40
    leg = visitor(java_script_enabled=False).open(run / LEG)
    leg.locator("figure.chart summary").first.click()
    assert leg.locator("figure.chart td:visible").count() == 40
