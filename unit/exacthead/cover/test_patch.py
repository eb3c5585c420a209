from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exacthead.cover.patch import Patch, gate
from exacthead.cover.settings import Settings
from exacthead.errors import HarnessError
from unit.exacthead.cover.measuring import commit, git, make_checkout, run_of, write

TEN = "".join(f"a{number} = {number}\n" for number in range(1, 11))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout on a branch that has just begun on main."""
    files = {"lib/old.py": TEN, "README.md": "one\n"}
    checkout = make_checkout(tmp_path / "checkout", files)
    git(checkout, "checkout", "-q", "-b", "change")
    return checkout


def judge(
    root: Path, lines: dict[str, set[int]], *, base: str = "main", limit: float = 80.0
) -> Patch:
    """The gate's word on the checkout after a run in which these lines ran."""
    run = root.parent / "run"
    run.mkdir()
    coverage = run_of(run, root, Settings(sources=("lib",)), {"unit.x": lines})
    return gate(run, root, base, coverage, limit)


@pytest.mark.parametrize(("ran", "state"), [({1, 2, 3, 4}, "passed"), ({1, 2, 3}, "failed")])
def test_the_limit_is_the_least_that_passes(root: Path, ran: set[int], state: str) -> None:
    write(root / "lib" / "new.py", "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n")
    base = git(root, "rev-parse", "main")
    commit(root)
    patch = judge(root, {"lib/new.py": ran})
    assert patch == Patch(
        state=state,  # type: ignore[arg-type]  # a literal, from the table above
        base=base,
        limit=80.0,
        covered=len(ran),
        total=5,
        missing={"lib/new.py": tuple(sorted({1, 2, 3, 4, 5} - ran))},
    )
    assert patch.green == (state == "passed")
    assert f"{len(ran)} of 5 executable lines" in str(patch)
    written = json.loads((root.parent / "run" / "patch_coverage.json").read_text())
    assert (written["state"], written["total"]) == (state, 5)


def test_a_change_without_an_executable_line_is_not_applicable(root: Path) -> None:
    write(root / "README.md", "two\n")
    write(root / "tests.py", "x = 1\n")
    write(root / "lib" / "old.py", "# a remark\n" + TEN)
    commit(root)
    patch = judge(root, {})
    assert (patch.state, patch.total, patch.green) == ("n/a", 0, True)
    assert "no executable line changed" in str(patch)


def test_a_new_file_that_nothing_imported_did_not_run(root: Path) -> None:
    write(root / "lib" / "deep" / "new.py", "x = 1\ny = 2\n")
    commit(root)
    patch = judge(root, {"lib/old.py": set(range(1, 11))})
    assert (patch.state, patch.missing) == ("failed", {"lib/deep/new.py": (1, 2)})


def test_only_changed_lines_of_a_renamed_file_count(root: Path) -> None:
    git(root, "mv", "lib/old.py", "lib/renamed.py")
    write(root / "lib" / "renamed.py", TEN.replace("a3 = 3", "a3 = 33"))
    commit(root)
    patch = judge(root, {"lib/renamed.py": {3}})
    assert (patch.covered, patch.total, patch.state) == (1, 1, "passed")


def test_a_deleted_file_has_no_lines(root: Path) -> None:
    (root / "lib" / "old.py").unlink()
    commit(root)
    assert judge(root, {"lib/old.py": {1}}).state == "n/a"


def test_what_is_not_committed_belongs_to_the_change_at_its_own_lines(root: Path) -> None:
    write(root / "lib" / "old.py", TEN.replace("a9 = 9", "a9 = 99"))
    commit(root)
    # Above the committed change: its line is now another one.
    write(root / "lib" / "old.py", "top = 1\n" + TEN.replace("a9 = 9", "a9 = 99"))
    write(root / "lib" / "untracked.py", "x = 1\n")
    before = git(root, "status", "--porcelain")
    patch = judge(root, {"lib/old.py": {10}})
    assert patch.missing == {"lib/old.py": (1,), "lib/untracked.py": (1,)}
    assert (patch.covered, patch.total) == (1, 3)
    assert git(root, "status", "--porcelain") == before


def test_a_file_without_a_last_line_end_keeps_its_line_numbers(root: Path) -> None:
    git(root, "checkout", "-q", "main")
    write(root / "lib" / "old.py", "a = 1\nb = 2")
    commit(root)
    git(root, "checkout", "-q", "-B", "change")
    write(root / "lib" / "old.py", "a = 1\nb = 3\nc = 4")
    commit(root)
    assert judge(root, {}).missing == {"lib/old.py": (2, 3)}


def test_only_what_came_after_the_merge_base_counts(root: Path) -> None:
    write(root / "lib" / "mine.py", "x = 1\n")
    commit(root)
    git(root, "checkout", "-q", "main")
    write(root / "lib" / "theirs.py", "x = 1\ny = 2\n")
    commit(root)
    git(root, "checkout", "-q", "change")
    git(root, "merge", "-q", "-m", "merge", "main~1")
    assert judge(root, {"lib/mine.py": {1}}).total == 1


def test_settings_and_names_of_the_user_make_no_difference(root: Path) -> None:
    for name, value in (
        *(("diff.noprefix", "true"), ("diff.mnemonicPrefix", "true"), ("color.ui", "always")),
        *(("diff.external", "false"), ("core.quotePath", "true"), ("diff.context", "9")),
        ("diff.interHunkContext", "9"),
    ):
        git(root, "config", name, value)
    write(root / ".gitattributes", "*.py -diff\n")
    write(root / "lib" / "größe [1] b.py", "x = 1\n")
    write(root / "lib" / "old.py", TEN.replace("a2 = 2", "a2 = 22").replace("a8 = 8", "a8 = 88"))
    commit(root)
    patch = judge(root, {"lib/old.py": {2, 8}})
    assert patch.missing == {"lib/größe [1] b.py": (1,)}
    assert patch.covered == 2


def test_incomplete_coverage_never_passes(root: Path) -> None:
    run = root.parent / "run"
    run.mkdir()
    settings = Settings(sources=("lib",))
    coverage = run_of(run, root, settings, {"a": {"lib/old.py": {1}}})
    broken = replace(coverage, reasons=("b: it has no coverage",))
    patch = gate(run, root, "main", broken, limit=0.0)
    assert (patch.state, patch.green) == ("incomplete", False)
    assert str(patch).endswith("b: it has no coverage")
    assert gate(run, root, "main", coverage, limit=0.0).state == "n/a"


def test_a_base_that_is_not_here_is_an_error(root: Path) -> None:
    with pytest.raises(HarnessError, match="no such commit") as caught:
        judge(root, {}, base="origin/main")
    assert "fetch it first" in caught.value.todo


def test_a_base_without_a_common_ancestor_is_an_error(root: Path) -> None:
    git(root, "checkout", "-q", "--orphan", "apart")
    write(root / "README.md", "another beginning\n")
    commit(root)
    with pytest.raises(HarnessError, match="no common ancestor"):
        judge(root, {})


def test_a_shallow_clone_says_how_to_get_its_history(root: Path) -> None:
    write(root / "lib" / "new.py", "x = 1\n")
    commit(root)
    clone = root.parent / "work" / "clone"
    clone.parent.mkdir()
    options = ("--depth", "1", "--no-single-branch", "-b", "change")
    git(root, "clone", "-q", *options, Path(root).as_uri(), str(clone))
    with pytest.raises(HarnessError, match="shallow clone: git fetch --unshallow"):
        judge(clone, {}, base="origin/main")
