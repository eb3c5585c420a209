"""Pages as a user gets them: by a run, and by the command ``dashboard``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unit.exacthead.report.test_pages import Page

if TYPE_CHECKING:
    from pathlib import Path

    from unit.exacthead.conftest import Repository


def text(path: Path) -> str:
    return Page(path.read_text(encoding="utf-8")).text


def test_a_run_ends_with_its_pages_and_the_dashboard_leads_to_them(
    small_repository: Repository,
) -> None:
    code, printed = small_repository.exacthead("functional", "count")
    assert code == 0, printed
    run = small_repository.run_folder()
    page = text(run / "index.html")
    assert "Passed at head" in page
    assert small_repository.git("rev-parse", "HEAD") in page
    item = text(run / "items" / "count.plain" / "index.html")
    assert "it counts to three" in item
    assert "stdout.log" in item

    code, printed = small_repository.exacthead("dashboard")
    assert code == 0, printed
    dashboard = run.parent / "dashboard"
    assert printed.splitlines()[-1].endswith("runs/dashboard/index.html")
    grid = Page((dashboard / "index.html").read_text(encoding="utf-8"))
    assert f"./../{run.name}/items/count.plain/index.html" in grid.links()
    assert f"./../{run.name}/index.html" in grid.links()

    # What lies beside the runs is taken for none, and is no news to the next one.
    code, printed = small_repository.exacthead("functional", "count")
    assert (code, "dashboard" in printed) == (0, False), printed
    newest = max(run.parent.glob("2*"))
    assert "all runs" in text(newest / "index.html")


def test_a_dashboard_elsewhere_without_links_to_the_runs(
    small_repository: Repository, tmp_path: Path
) -> None:
    small_repository.exacthead("functional", "count")
    out = tmp_path / "public"
    code, printed = small_repository.exacthead(
        "dashboard", "--out", str(out), "--runs-address", "", "--last", "1", "--rebuild"
    )
    assert code == 0, printed
    assert not any("items/" in link for link in _links(out / "index.html"))
    code, printed = small_repository.exacthead("dashboard", "--last", "0")
    assert (code, "give 1 or more" in printed) == (2, True)


def _links(path: Path) -> list[str]:
    return Page(path.read_text(encoding="utf-8")).links()
