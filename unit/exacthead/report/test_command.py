"""Pages as a user gets them: by a run, and by the command ``dashboard``."""

from __future__ import annotations

import json
import shutil
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


def test_whatever_lies_among_the_runs_costs_the_dashboard_only_itself(
    small_repository: Repository,
) -> None:
    for _ in range(2):  # of one head
        assert small_repository.exacthead("functional", "count")[0] == 0
    runs = small_repository.run_folder().parent
    whole, twice = sorted(runs.glob("2*"))
    stamp, _, _ = whole.name.rpartition("-")
    killed, torn, garbage, empty = (runs / f"{stamp}-000{n}" for n in range(4))
    for made in (killed, torn, garbage):
        shutil.copytree(whole, made)
    # The harness was killed in the middle: no end of the run, and none of its item.
    (killed / "result.json").write_text(
        json.dumps({**json.loads((whole / "result.json").read_text()), "state": "running"})
    )
    shutil.rmtree(killed / "items")
    (torn / "result.json").write_text('{"state": "pas')
    (garbage / "plan.json").write_bytes(b"\x00\xff" * 40)
    empty.mkdir()
    (runs / "notes.txt").write_text("mine")

    code, printed = small_repository.exacthead("dashboard", "--rebuild")

    assert code == 0, printed
    for broken in (torn, garbage, empty):
        assert broken.name in printed
    grid = Page((runs / "dashboard" / "index.html").read_text(encoding="utf-8"))
    address = "./../{}/items/count.plain/index.html"
    # The newest run of the head is in its cell.
    assert address.format(twice.name) in grid.links()
    listed = Page((runs / "dashboard" / "runs.html").read_text(encoding="utf-8")).text
    assert [name in listed for name in (whole.name, twice.name)] == [True, True]
    assert "abandoned" in listed


def test_a_dashboard_that_cannot_be_written_is_refused_with_what_to_do(
    small_repository: Repository,
) -> None:
    small_repository.exacthead("functional", "count")

    code, printed = small_repository.exacthead("dashboard", "--out", "/proc/none/of/this")

    assert (code, "give a folder that can be written to" in printed) == (2, True), printed
    assert "Traceback" not in printed


def test_without_any_run_the_dashboard_says_so(small_repository: Repository) -> None:
    code, printed = small_repository.exacthead("dashboard")

    assert code == 0, printed
    page = text(small_repository.root / "runs" / "dashboard" / "index.html")
    assert "No run has ended yet" in page
