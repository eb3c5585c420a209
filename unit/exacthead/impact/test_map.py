from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest
from coverage import CoverageData

from exacthead.cover.item import DATA, SUMMARY, ItemCoverage
from exacthead.errors import HarnessError
from exacthead.head import read_head
from exacthead.impact.map import Measured, map_file, read_map, record
from exacthead.runs.files import write_json
from exacthead.units.result import Attempt, Cause, TestResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from unit.exacthead.conftest import Repository

ONE, TWO, THREE = (f"tests/test_{name}.py::test_{name}" for name in ("one", "two", "three"))
SOURCES = {
    "pkg/a.py": "LIMIT = 1\ndef f():\n    return 1\ndef g():\n    return 2\n",
    "pkg/b.py": "def h():\n    return 3\n",
    ".gitignore": "/runs/\n/.cache/\n",
}
KEYS = {"unit": "k1"}


def result(nodeid: str, *kinds: Kind) -> TestResult:
    attempts = tuple(
        Attempt(1, 0.1, () if kind is Kind.PASSED else (Cause("call", Verdict(kind, "why")),))
        for kind in kinds or (Kind.PASSED,)
    )
    return TestResult(nodeid, attempts, attempts[-1].verdict)


def measured(
    folder: Path,
    lines: dict[str, dict[str, list[int]]],
    *results: TestResult,
    reasons: tuple[str, ...] = (),
) -> Measured:
    """An item's folder as coverage leaves it; ``lines`` are those of each file, by context."""
    folder.mkdir(parents=True)
    data = CoverageData(str(folder / DATA))
    for context, files in lines.items():
        data.set_context(context)
        data.add_lines(files)
    data.write()
    data.close(force=True)
    write_json(folder / SUMMARY, asdict(ItemCoverage(reasons, "by hand", 1, 0)))
    return Measured(folder, results)


def test_a_map_tells_what_ran_with_each_test(empty_repository: Repository, tmp_path: Path) -> None:
    commit = empty_repository.commit(SOURCES)
    root = empty_repository.root
    items = [
        measured(
            tmp_path / "i1",
            {
                "": {"pkg/a.py": [1, 2, 4], "pkg/b.py": [1]},
                f"{ONE}|setup": {"pkg/a.py": [3]},
                f"{ONE}|child": {str(root / "elsewhere" / "pkg" / "b.py"): [2]},
            },
            result(ONE),
        ),
        measured(tmp_path / "i2", {f"{TWO}|call": {"pkg/a.py": [5], "x.py": [1]}}, result(TWO)),
    ]

    path, notes = record(root, "all", read_head(root), KEYS, items)
    found, words = read_map(root, "all", KEYS)

    assert notes == ()
    assert path == root / ".cache" / "impact" / path.name
    assert found is not None
    assert (found.suite, found.commit, found.keys) == ("all", commit, KEYS)
    assert words == f"impact map of {commit[:12]}"
    evidence = found.evidence()
    assert evidence[ONE].ran == {"pkg/a.py": {"f"}, "pkg/b.py": {"h"}}
    assert evidence[TWO].ran == {"pkg/a.py": {"g"}}
    assert evidence[ONE].measured == evidence[TWO].measured == {"pkg/a.py", "pkg/b.py"}


def test_tests_of_one_item_share_what_ran(empty_repository: Repository, tmp_path: Path) -> None:
    empty_repository.commit(SOURCES)
    root = empty_repository.root
    lines = {f"{ONE}|call": {"pkg/a.py": [3]}, f"{TWO}|call": {"pkg/a.py": [5]}}
    item = measured(tmp_path / "i", lines, result(ONE), result(TWO))

    record(root, "all", read_head(root), KEYS, [item])
    found, _ = read_map(root, "all", KEYS)

    assert found is not None
    evidence = found.evidence()
    assert evidence[ONE].ran == evidence[TWO].ran == {"pkg/a.py": {"f", "g"}}


@pytest.mark.parametrize(
    "other",
    [
        result(TWO, Kind.FAILED),
        result(TWO, Kind.FAILED, Kind.PASSED),
        result(TWO, Kind.SKIPPED),
        result(THREE),  # never measured
    ],
)
def test_who_did_not_pass_at_once_or_was_not_measured_has_no_evidence(
    empty_repository: Repository, tmp_path: Path, other: TestResult
) -> None:
    empty_repository.commit(SOURCES)
    root = empty_repository.root
    lines = {f"{ONE}|call": {"pkg/a.py": [3]}, f"{TWO}|call": {"pkg/a.py": [5]}}
    item = measured(tmp_path / "i", lines, result(ONE), other)

    _, notes = record(root, "all", read_head(root), KEYS, [item])
    found, _ = read_map(root, "all", KEYS)

    assert notes == ("i: no evidence of 1 tests: they did not pass at once, or were not measured",)
    assert found is not None
    assert set(found.evidence()) == {ONE}


def test_incomplete_coverage_is_evidence_of_a_part_and_broken_of_none(
    empty_repository: Repository, tmp_path: Path
) -> None:
    empty_repository.commit(SOURCES)
    root = empty_repository.root
    whole = measured(tmp_path / "w", {f"{ONE}|call": {"pkg/a.py": [3]}}, result(ONE))
    lines = {f"{TWO}|call": {"pkg/a.py": [3]}}
    killed = measured(tmp_path / "k", lines, result(TWO), reasons=("a process was killed",))
    cut = measured(tmp_path / "c", {f"{THREE}|call": {"pkg/a.py": [3]}}, result(THREE))
    (cut.folder / DATA).write_bytes((cut.folder / DATA).read_bytes()[:100])

    _, notes = record(root, "all", read_head(root), KEYS, [whole, killed, cut])
    found, _ = read_map(root, "all", KEYS)

    assert found is not None
    evidence = found.evidence()
    assert set(evidence) == {ONE, TWO}
    assert evidence[ONE].partial == ""
    assert evidence[TWO].partial == "its coverage is incomplete (a process was killed)"
    assert notes[0] == f"k: {evidence[TWO].partial}"
    assert notes[1].startswith("c: no evidence of 1 tests: ")


def test_without_any_evidence_there_is_no_new_map(
    empty_repository: Repository, tmp_path: Path
) -> None:
    empty_repository.commit(SOURCES)
    root = empty_repository.root
    item = measured(tmp_path / "i", {"": {"pkg/a.py": [1]}}, result(ONE))

    with pytest.raises(HarnessError, match="contexts"):
        record(root, "all", read_head(root), KEYS, [item])

    assert not map_file(root, "all").exists()


def test_a_dirty_head_has_no_map(empty_repository: Repository) -> None:
    empty_repository.commit(SOURCES)
    empty_repository.write({"pkg/a.py": ""})
    root = empty_repository.root

    with pytest.raises(HarnessError, match="commit first"):
        record(root, "all", read_head(root), KEYS, [])


@pytest.fixture
def recorded(empty_repository: Repository, tmp_path: Path) -> Path:
    """The root of a repository that has a map of its suite ``all``."""
    empty_repository.commit(SOURCES)
    root = empty_repository.root
    item = measured(tmp_path / "i", {f"{ONE}|call": {"pkg/a.py": [3]}}, result(ONE))
    record(root, "all", read_head(root), KEYS, [item])
    return root


def test_a_map_of_another_worker_is_not_used(recorded: Path) -> None:
    for keys in ({"unit": "k2"}, {**KEYS, "more": "k1"}):
        found, words = read_map(recorded, "all", keys)

        assert found is None
        assert "another worker" in words


def test_without_a_map_imports_alone_judge(recorded: Path) -> None:
    assert read_map(recorded, "other", KEYS) == (
        None,
        "no impact map: judged by imports alone",
    )


def test_a_map_whose_commit_is_not_here_is_not_used(recorded: Path) -> None:
    path = map_file(recorded, "all")
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, "commit": "1" * 40}), encoding="utf-8")

    found, words = read_map(recorded, "all", KEYS)

    assert found is None
    assert "111111111111 is not here" in words


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "traces": [1]}', "\0"])
def test_a_broken_map_is_named(recorded: Path, text: str) -> None:
    map_file(recorded, "all").write_text(text, encoding="utf-8")

    with pytest.raises(HarnessError, match="the impact map"):
        read_map(recorded, "all", KEYS)


def test_a_map_of_another_format_is_not_used(recorded: Path) -> None:
    map_file(recorded, "all").write_text('{"format": 0}', encoding="utf-8")

    assert read_map(recorded, "all", KEYS)[0] is None
