from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from unit.report.conftest import Visitor

NAMES = [
    "index.html",
    "coverage.html",
    "items/gym_training.flag_off/index.html",
    "items/unit.policy.1of2/index.html",
]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_hostile_run_runs_or_loads(
    visitor: Visitor, hostile: Path, shots: Path, name: str
) -> None:
    visit = visitor()
    page = visit.open(hostile / name)
    page.screenshot(path=shots / f"hostile-{name.replace('/', '-')}.png")
    addresses = page.evaluate("[...document.links].map((each) => each.protocol)")
    assert set(addresses) <= {"file:", "https:"}
    assert page.evaluate("window.hit") is None
    assert visit.loaded == [(hostile / name).as_uri()]
    assert visit.complaints == []


def test_what_gets_into_a_page_all_the_same_is_kept_from_running(
    visitor: Visitor, run: Path
) -> None:
    visit = visitor()
    page = visit.open(run / "index.html")
    page.evaluate("""() => {
        const script = document.createElement('script');
        script.appendChild(document.createTextNode('window.hit = 1'));
        const image = document.createElement('img');
        image.src = 'file:///nowhere.png';
        const style = document.createElement('style');
        style.append('body { display: none }');
        document.body.append(script, image, style);
    }""")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None
    assert page.evaluate("getComputedStyle(document.body).display") == "block"
    assert visit.loaded == [(run / "index.html").as_uri()]
    assert len(visit.complaints) >= 3


@pytest.mark.parametrize(
    "attempt",
    [
        "document.body.innerHTML = '<p>x'",
        "document.createElement('img').setAttribute('onerror', 'window.hit = 1')",
        "document.createElement('script').src = 'data:,window.hit = 1'",
    ],
)
def test_code_cannot_be_made_of_text_by_script(visitor: Visitor, run: Path, attempt: str) -> None:
    page = visitor().open(run / "index.html")
    outcome = page.evaluate(
        f"() => {{ try {{ {attempt}; }} catch (error) {{ return error.name; }} }}"
    )
    assert outcome == "TypeError"
