"""A real browser, and pages to look at: a red run, a hostile one, a dashboard of 70 runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import sync_playwright

from exacthead.history.schema import connect
from exacthead.report.dashboard.build import build
from exacthead.report.pages import Pages
from exacthead.triage.known import Known
from unit.exacthead.report.sample import HOSTILE, sample
from unit.exacthead.report.synthetic import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

WIDE = (1600, 1000)
NARROW = (390, 844)
# More heads than one page of the grid holds.
RUNS, TESTS = 70, 120
_ARTIFACTS = os.environ.get("EXACTHEAD_ARTIFACTS")


def namespaces() -> bool:
    """Whether a process here may have a user namespace of its own."""
    asked = [sys.executable, "-I", "-S", "-c", "import os; os.unshare(os.CLONE_NEWUSER)"]
    return subprocess.run(asked, check=False, stderr=subprocess.DEVNULL).returncode == 0


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # Its sandbox is refused to root, and needs namespaces that a container forbids.
    flags = ["--no-sandbox"] if os.geteuid() == 0 or not namespaces() else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        yield started
        started.close()


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots are kept: with the item's artifacts."""
    folder = Path(_ARTIFACTS) / "screenshots" if _ARTIFACTS else tmp_path_factory.mktemp("shots")
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a red run with its pages."""
    folder, report = sample(tmp_path_factory.mktemp("tame"))
    root = folder.path.parent / "checkout"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("".join(f"line = {n}\n" for n in range(1, 13)))
    Pages(folder, report, root).write()
    return folder.path


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose every name and message attacks its reader."""
    folder, report = sample(tmp_path_factory.mktemp("hostile"), HOSTILE)
    Pages(folder, report).write()
    return folder.path


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a dashboard."""
    folder = tmp_path_factory.mktemp("history")
    with closing(connect(folder / "exacthead.sqlite")) as database:
        fill(database, RUNS, TESTS)
        page = build(database, folder / "dashboard", runs_address="../runs", known=Known())
    return page.parent


@dataclass
class Visit:
    """A page in a window of its own, and all that it complained of or asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def open(self, path: Path, query: str = "") -> Page:
        self.page.goto(path.as_uri() + query)
        return self.page


def until(page: Page, expression: str) -> None:
    """Wait until it holds; the page's policy keeps Playwright's own waiting from evaluating it."""
    deadline = time.monotonic() + 60
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(50)


@dataclass
class Visitor:
    browser: Browser
    contexts: list[BrowserContext] = field(default_factory=list)

    def __call__(self, size: tuple[int, int] = WIDE, **options: Any) -> Visit:
        width, height = size
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce", **options
        )
        context.set_default_timeout(60_000)
        self.contexts.append(context)
        visit = Visit(context.new_page())
        page = visit.page
        page.on("console", lambda said: visit.complaints.append(said.text))
        page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        page.on("requestfinished", lambda request: visit.loaded.append(request.url))
        return visit


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    made = Visitor(browser)
    yield made
    for context in made.contexts:
        context.close()
