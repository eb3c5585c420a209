from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from exacthead.history.change import Change
from exacthead.history.trends import Point, Series
from exacthead.report.faults import by_cause
from exacthead.report.html import address, assets, environment
from exacthead.report.listing import listing
from exacthead.report.model import Standing
from exacthead.report.pages import Pages
from exacthead.report.trend import trend
from unit.exacthead.report.sample import HOSTILE, LINE, sample

if TYPE_CHECKING:
    from pathlib import Path

LEG = "items/gym_training.flag_off/index.html"
SHARD = "items/unit.policy.1of2/index.html"


class Page(HTMLParser):
    """What a page holds: its tags with their attributes, and its text in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.code: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._inside = ""

    def handle_data(self, data: str) -> None:
        (self.code if self._inside in {"script", "style"} else self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def links(self) -> list[str]:
        return [each["href"] or "" for tag, each in self.tags if tag == "a"]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    folder, report = sample(tmp_path / "runs")
    assert Pages(folder, report).write() == folder.path / "index.html"
    return folder.path


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def test_the_first_screen_says_what_a_person_needs_in_order(written: Path) -> None:
    text = read(written / "index.html").text
    assert text.count("2 new failures, 1 known, 1 also red on base, 3 not run") == 2
    order = [
        "assertion",
        "New at this head; last green at 998877665544",
        "unit/policy/test_loss.py::test_clip[low & high]",
        "AssertionError: assert 0.1999 == 0.2 ± 1e-06",
        LINE,
        "Attempt 1",
        "Attempt 2",
        "The same cause in 1 other",
        "also red on base",
        "What did not run, and why",
        "its process ended by SIGKILL",
        "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d",
        "sha256:abab",
        "4 min 00 s of 2 min 30 s expected",
        "3fa26301fe62 built",
        "Since the last green run",
        "torch 2.12.0 → 2.13.0",
        "The end of the log",
        "476.8 MiB",
    ]
    start = text.index("-dirty")  # beyond the title
    places = [text.find(each, start) for each in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


def test_every_page_of_the_run_is_there_and_every_link_leads_somewhere(written: Path) -> None:
    pages = sorted(written.rglob("*.html"))
    assert [str(each.relative_to(written)) for each in pages] == [
        "coverage.html",
        "index.html",
        "items/gym_training.flag_off/index.html",
        "items/unit.policy.1of2/index.html",
        "items/unit.policy.2of2/index.html",
    ]
    # What the session itself writes beside the pages.
    written_by_the_run = {"summary.md", "junit.xml"}
    for path in pages:
        page = read(path)
        names = {each.get("id") for _, each in page.tags}
        for link in page.links():
            file, _, fragment = link.partition("#")
            if link == "https://tracker.example/7":
                continue
            target = path.parent / unquote(file)
            assert target.exists() or target.name in written_by_the_run, link
            assert file or not fragment or fragment in names, link


def test_a_contract_shows_value_bound_and_trend(tmp_path: Path) -> None:
    folder, report = sample(tmp_path / "runs")
    points = tuple(Point(run, value) for run, value in enumerate([9.0] * 40 + [0.4, 0.5]))
    change = Change(40, 9.0, 0.45, 20.0)
    metrics = [Series("metric", "gym_training.flag_off", "train/loss", points, (change,))]
    Pages(folder, report, metrics=metrics).write()
    page = read(folder.path / "items" / "gym_training.flag_off" / "index.html")
    assert "last 30 runs: 0.4 to 9, now 0.5, 1 change of level" in str(page.tags)
    assert "shift at 1a2b3c4d5e6f : 0.4 → 0.5" in page.text
    shift = {"class": "change", "x1": "96.6", "x2": "96.6", "y1": "0", "y2": "24"}
    assert ("line", shift) in page.tags
    for said in ("nan", "finite", "only step 1"):
        assert said in page.text


def test_curves_come_with_their_numbers_for_who_has_no_scripts(written: Path) -> None:
    page = read(written / "items" / "gym_training.flag_off" / "index.html")
    assert sum("data-chart" in each for _, each in page.tags) == 5
    assert "20 1 0 " in page.text  # the last step of the rewards


@pytest.mark.parametrize("name", ["index.html", "coverage.html", LEG])
def test_the_policy_names_exactly_the_page_s_own_script_and_style(written: Path, name: str) -> None:
    page = read(written / name)
    policy = next(
        each["content"] or ""
        for tag, each in page.tags
        if tag == "meta" and each.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(part.split(" ", 1) for part in policy.split("; "))
    assert rules["default-src"] == "'none'"
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
        for code in page.code
    ]
    assert [rules["style-src"], rules["script-src"]] == hashes


@pytest.mark.parametrize("name", ["index.html", "coverage.html", LEG, SHARD])
def test_nothing_is_asked_of_a_network(written: Path, name: str) -> None:
    for tag, attributes in read(written / name).tags:
        assert tag not in {"iframe", "object", "embed", "link", "base", "form"} or tag == "form"
        for key in ("src", "href", "action", "data", "poster", "srcset"):
            # A link of a known failure to where it is mended is followed by people only.
            if (tag, attributes.get(key)) != ("a", "https://tracker.example/7"):
                assert "//" not in (attributes.get(key) or ""), (tag, attributes)
        assert not any(key.startswith("on") or key == "style" for key in attributes), attributes


def test_hostile_text_is_text_and_nothing_else(tmp_path: Path) -> None:
    tame, report = sample(tmp_path / "tame")
    Pages(tame, report).write()
    folder, report = sample(tmp_path / "hostile", HOSTILE)
    Pages(folder, report).write()
    for path in sorted(tame.path.rglob("*.html")):
        wild = (folder.path / path.relative_to(tame.path)).read_text(encoding="utf-8")
        page = Page(wild)
        # Spans come with colours; else no tag and no attribute is there for the text's sake.
        shape = [(tag, sorted(each)) for tag, each in page.tags if tag != "span"]
        plain = [(tag, sorted(each)) for tag, each in read(path).tags if tag != "span"]
        assert shape == plain
        assert not re.search("[\x00\x1b\u202e]", wild)
        assert not any(link.lower().startswith("javascript") for link in page.links())
        assert path.name == "coverage.html" or "{{ 7 * 7 }}" in page.text


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("javascript:alert(1)", "./javascript%3Aalert%281%29"),
        ("//host/x", ".///host/x"),
        ("a b#c?d", "./a%20b%23c%3Fd"),
        ("no \udcff UTF-8", "./no%20%FF%20UTF-8"),
    ],
)
def test_a_file_name_is_an_address_below_its_folder_whatever_it_is(name: str, made: str) -> None:
    assert address(name) == made


def test_files_are_listed_with_a_limit_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for number in range(305):
        (tmp_path / "deep" / f"{number:03}").write_bytes(b"ab")
    (tmp_path / "index.html").touch()
    (tmp_path / "link").symlink_to("/etc/hostname")
    files, more = listing(tmp_path, inside=True)
    assert (files[0].path, files[0].size, len(files), more) == ("deep/000", 2, 300, 5)
    assert listing(tmp_path, inside=False) == ((), 0)


def test_faults_of_one_cause_are_told_once_and_standings_stay_apart(tmp_path: Path) -> None:
    _, report = sample(tmp_path)
    fault = report.failures[0]
    old = replace(fault, name="old", standing=Standing.KNOWN)
    alone = replace(fault, name="alone", group="")
    causes = by_cause([fault, replace(fault, name="b"), old, alone, alone])
    assert [(first.name, [each.name for each in rest]) for first, rest in causes] == [
        (fault.name, ["b"]),
        ("old", []),
        ("alone", []),
        ("alone", []),
    ]


def test_a_green_run_says_so(tmp_path: Path) -> None:
    folder, report = sample(tmp_path)
    green = replace(
        report, state="passed", verdict="passed: every required item is green", failures=(),
        not_run=(), flaky=(), green=None, expected=None,
    )  # fmt: skip
    Pages(folder, green).write()
    text = read(folder.path / "index.html").text
    assert "passed: every required item is green" in text
    assert "Nothing is red" in text
    assert "There is no earlier green run of this." in text


def test_a_run_whose_files_are_broken_still_has_its_page(tmp_path: Path) -> None:
    folder, report = sample(tmp_path)
    (folder.path / "items" / "unit.policy.1of2" / "junit.xml").write_text("<testsuites><")
    (folder.path / "coverage.xml").write_text("no XML")
    pages = Pages(folder, report)
    pages.write()
    assert [each.partition(" ")[0] for each in pages.problems] == [
        "items/unit.policy.1of2/junit.xml",
        "coverage:",
    ]
    text = read(folder.path / "index.html").text
    assert "items/unit.policy.1of2/junit.xml cannot be read" in text


def test_a_thousand_faults_and_a_huge_text_stay_below_two_megabytes(tmp_path: Path) -> None:
    folder, report = sample(tmp_path)
    fault = replace(report.failures[0], text="x" * 2_000_000, cause="y" * 100_000)
    many = [replace(fault, name=f"test_{number}", group=str(number)) for number in range(1000)]
    Pages(folder, replace(report, failures=tuple(many))).write()
    for path in folder.path.rglob("*.html"):
        assert path.stat().st_size < 2_000_000, path


def test_what_is_said_of_every_item_is_told_once_and_on_the_first_page(tmp_path: Path) -> None:
    folder, found = sample(tmp_path / "runs")
    remark = "image sha256:0123 of 4567 reused, 3 commits behind"
    items = tuple(replace(each, notes=(remark,)) for each in found.items)
    images = dict.fromkeys([each.id for each in items], "sha256:0123")
    made = replace(found, items=items, images=images, notes=())

    expected = f"{len(items)} items: {remark}", f"image of {len(items)} items: sha256:0123"
    assert made.told == expected
    assert replace(made, items=items[:1]).told[0] == f"{items[0].id}: {remark}"
    assert all(line in read(Pages(folder, made).write()).text for line in expected)


def test_a_name_that_a_template_does_not_have_is_an_error() -> None:
    with pytest.raises(Exception, match="undefined"):
        environment().from_string("{{ nothing_of_that_name }}").render()


def test_what_is_linked_is_allowed_by_its_place_alone() -> None:
    assert "script-src 'self';" in assets(charts=True, linked="../assets").policy


@pytest.mark.parametrize(
    ("values", "points"),
    [([1.0, 2.0], "0.0,21.0 100.0,3.0"), ([5.0, 5.0, 5.0], "0.0,12.0 50.0,12.0 100.0,12.0"),
     ([-1e308, 1e308], "0.0,21.0 100.0,3.0")],
)  # fmt: skip
def test_a_trend_fills_its_box(values: list[float], points: str) -> None:
    found = trend(values)
    assert found is not None
    assert found.points == points


def test_one_value_is_no_trend() -> None:
    assert trend([1.0]) is None
