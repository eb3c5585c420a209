"""Kept collections: what was found in the same content is not collected again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.cli import main
from exacthead.head import Head
from exacthead.units.collect import Collected
from exacthead.units.kept import Kept, read, write

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

HEAD = Head("c" * 40, "t" * 40, dirty=False, content="t" * 40)
COUNTING = """
from pathlib import Path

with (Path(__file__).parent / "times.ignored").open("a") as file:
    file.write("x")
"""
FOUND = Collected(("a.py::t", "a.py::u"), deselected=2, deselected_in=("b.py",), rootdir="/r")


@pytest.fixture
def counted(small_repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.chdir(small_repository.root)
    small_repository.commit(
        {
            ".gitignore": "/.cache/\n/runs/\n__pycache__/\n*.ignored\n",
            "unit/sums/conftest.py": COUNTING,
        }
    )
    return small_repository


def plan(repository: Repository, *arguments: str) -> tuple[list[Any], int]:
    """How many tests each item has, and how often the suite has been collected so far."""
    file = repository.root / ".cache/plan.json"
    file.parent.mkdir(exist_ok=True)
    assert main(["plan", "--suite", "sums", "--json", str(file), *arguments]) == 0
    times = repository.root / "unit/sums/times.ignored"
    tests = [item["tests"] for item in json.loads(file.read_bytes())["items"]]
    return tests, len(times.read_text(encoding="utf-8"))


def test_a_suite_is_collected_once_for_one_content(counted: Repository) -> None:
    assert plan(counted) == ([1], 1)
    assert plan(counted) == ([1], 1)
    assert plan(counted, "--shard", "1/2") == ([1], 1)
    counted.write({"unit/sums/test_more.py": "def test_a():\n    pass\n"})
    assert plan(counted) == ([2], 2)
    assert plan(counted) == ([2], 2)
    (counted.root / "unit/sums/test_more.py").unlink()
    # The content of before is known still.
    assert plan(counted) == ([1], 2)


def test_a_file_that_could_not_be_collected_or_skips_itself_is_asked_again(
    counted: Repository,
) -> None:
    counted.write({"unit/sums/test_more.py": "import nowhere\n"})
    assert plan(counted) == ([2], 1)
    assert plan(counted) == ([2], 2)
    skips = "import pytest\n\npytest.skip('not today', allow_module_level=True)\n"
    counted.write({"unit/sums/test_more.py": skips})
    assert plan(counted) == ([2], 3)
    assert plan(counted) == ([2], 4)


def test_a_session_that_runs_collects_for_itself(counted: Repository) -> None:
    """A file that git ignores decides which tests there are, and changes behind the plan."""
    tests = "from pathlib import Path\n\nimport pytest\n\n"
    tests += "COUNT = len((Path(__file__).parent / 'n.ignored').read_text())\n\n"
    tests += "@pytest.mark.parametrize('n', range(COUNT))\ndef test_n(n):\n    pass\n"
    counted.write({"unit/sums/n.ignored": "xx"})
    counted.commit({"unit/sums/test_n.py": tests})
    assert plan(counted)[0] == [3]
    counted.write({"unit/sums/n.ignored": "xxx"})
    assert plan(counted)[0] == [3]

    assert main(["run", "--suite", "sums"]) == 0

    summary = (counted.run_folder() / "summary.md").read_text(encoding="utf-8")
    assert "4 passed" in summary
    assert plan(counted)[0] == [4]


def test_what_is_kept_is_read_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "c.json"

    write(path, FOUND)

    assert read(path) == FOUND
    path.write_text("{}]", encoding="utf-8")
    assert read(path) is None
    path.write_text('{"nodes": []}', encoding="utf-8")
    assert read(path) is None
    assert read(None) is None


@pytest.mark.parametrize(
    "found",
    [
        Collected(fault="it hung"),
        Collected(("a.py::t",), errors={"b.py": "no"}),
        Collected(("a.py::t",), skipped={"b.py": "no"}),
        Collected(("a.py::t",), unstable=("a.py::t",)),
        Collected(("a.py::t",), dropped=("a.py::u",)),
    ],
)
def test_what_may_be_otherwise_next_time_is_not_kept(tmp_path: Path, found: Collected) -> None:
    write(tmp_path / "c.json", found)

    assert list(tmp_path.iterdir()) == []


def test_a_checkout_whose_content_is_not_told_keeps_nothing() -> None:
    for head in (Head("c", "t", dirty=True, content="t"), Head("c", "t", dirty=False, content="")):
        assert Kept(Path("k"), Path("r"), head).path({}, (), (), {}) is None
    dirty = Head("c", "t", dirty=True, content="other")
    assert Kept(Path("k"), Path("r"), dirty).path({}, (), (), {}) is not None


WORDS = st.text("ab/", max_size=3)
PARTS = st.tuples(
    WORDS,
    st.dictionaries(WORDS, WORDS, max_size=2),
    st.lists(WORDS, max_size=2),
    st.lists(WORDS, max_size=2),
    st.dictionaries(WORDS, WORDS, max_size=2),
)


@given(one=PARTS, other=PARTS)
def test_two_collections_share_a_place_exactly_when_all_that_decides_them_is_the_same(
    one: tuple[Any, ...], other: tuple[Any, ...]
) -> None:
    def place(parts: tuple[Any, ...]) -> Path | None:
        content, workers, paths, arguments, environment = parts
        head = Head("c", "t", dirty=True, content=f"+{content}")
        return Kept(Path("k"), Path("r"), head).path(workers, paths, arguments, environment)

    assert (place(one) == place(other)) is (one == other)
