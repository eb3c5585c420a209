from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.git import merge_base
from exacthead.impact.changes import Change, Changes, changes_since
from exacthead.impact.source import ON_IMPORT

if TYPE_CHECKING:
    from pathlib import Path

    from unit.exacthead.conftest import Repository

CODE = "def f():\n    return 1\n\ndef g():\n    return 2\n"


def test_all_states_of_a_change_count(empty_repository: Repository) -> None:
    repository = empty_repository
    first = repository.commit(dict.fromkeys(("a.py", "b.py", "c.py", "d.py", "same.py"), CODE))
    repository.commit({"a.py": CODE.replace("1", "3")})
    repository.write({"b.py": CODE.replace("2", "3")})
    repository.git("add", "b.py")
    repository.write({"c.py": "LIMIT = 1\n" + CODE, "new ü.py": "", ".cache/ignored.py": ""})
    (repository.root / "d.py").unlink()

    assert changes_since(repository.root, first) == Changes(
        {
            "a.py": Change("a.py", "modified", frozenset({"f"})),
            "b.py": Change("b.py", "modified", frozenset({"g"})),
            "c.py": Change("c.py", "modified", frozenset({ON_IMPORT})),
            "d.py": Change("d.py", "deleted"),
            "new ü.py": Change("new ü.py", "added"),
        }
    )


def test_a_clean_checkout_has_no_changes_since_its_head(empty_repository: Repository) -> None:
    assert changes_since(empty_repository.root, "HEAD") == Changes()


def test_a_renamed_file_is_one_that_went_and_one_that_came(empty_repository: Repository) -> None:
    first = empty_repository.commit({"a.py": CODE})
    empty_repository.git("mv", "a.py", "b.py")

    assert changes_since(empty_repository.root, first).files == {
        "a.py": Change("a.py", "deleted"),
        "b.py": Change("b.py", "added"),
    }


def test_an_edit_of_the_same_second_and_size_is_seen(empty_repository: Repository) -> None:
    for number in range(3):
        first = empty_repository.commit({"a.py": CODE, "b.py": f"COUNT = {number}\n"})
        empty_repository.write({"a.py": CODE.replace("1", "3")})

        assert set(changes_since(empty_repository.root, first).files) == {"a.py"}


def test_a_new_file_that_is_too_large_for_a_tree_counts(
    empty_repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exacthead.changes.LARGE", 10)
    empty_repository.write({"large.bin": "x" * 20})

    assert changes_since(empty_repository.root, "HEAD").files == {
        "large.bin": Change("large.bin", "added")
    }


def test_a_mark_in_the_index_hides_no_change(empty_repository: Repository) -> None:
    first = empty_repository.commit({"a.py": CODE})
    empty_repository.git("update-index", "--assume-unchanged", "a.py")
    empty_repository.write({"a.py": ""})

    assert set(changes_since(empty_repository.root, first).files) == {"a.py"}


def test_a_file_that_cannot_be_parsed_is_judged_as_a_whole(empty_repository: Repository) -> None:
    first = empty_repository.commit({"a.py": CODE, "rows.json": "[1]"})
    empty_repository.write({"a.py": "def :", "rows.json": "[2]"})

    changes = changes_since(empty_repository.root, first).files

    assert changes["a.py"].parts is None
    assert changes["rows.json"].parts is None
    assert changes["a.py"].within(frozenset())


def test_links_and_repositories_inside_are_not_judged_by_file(
    empty_repository: Repository,
) -> None:
    first = empty_repository.commit({"a.py": CODE})
    (empty_repository.root / "link").symlink_to("a.py")
    empty_repository.git("init", "--quiet", "inner")

    untold = changes_since(empty_repository.root, first).untold

    assert [line.split()[0] for line in untold] == ["inner/", "link"]


def test_a_moved_submodule_is_not_judged_by_file(
    empty_repository: Repository, tmp_path: Path
) -> None:
    repository = empty_repository
    inner = tmp_path / "inner"
    repository.git("init", "--quiet", str(inner))
    who = ("-c", "user.name=T", "-c", "user.email=t@example.test")
    commit = ("commit", "--quiet", "--allow-empty", "--message", "A step")
    repository.git("-C", str(inner), *who, *commit)
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    repository.git(*add)
    first = repository.commit({})
    assert changes_since(repository.root, first) == Changes()

    repository.git("-C", str(repository.root / "sub"), *who, *commit)

    assert changes_since(repository.root, first).untold == ("sub (a submodule)",)


def test_what_lies_outside_of_the_root_is_not_judged_by_file(
    empty_repository: Repository,
) -> None:
    first = empty_repository.commit({"part/a.py": CODE, "b.py": CODE})
    empty_repository.write({"part/a.py": CODE.replace("1", "3")})
    part = empty_repository.root / "part"
    assert changes_since(part, first).files == {
        "a.py": Change("a.py", "modified", frozenset({"f"}))
    }

    empty_repository.write({"b.py": ""})

    assert changes_since(part, first).untold == ("b.py (outside of the root)",)


def test_the_base_is_where_the_branches_parted(empty_repository: Repository) -> None:
    repository = empty_repository
    parted = repository.commit({"a.py": CODE})
    repository.git("checkout", "--quiet", "-b", "topic")
    repository.commit({"b.py": CODE})
    repository.git("checkout", "--quiet", "main")
    repository.commit({"c.py": CODE})
    repository.git("checkout", "--quiet", "topic")

    assert merge_base(repository.root, "main") == parted
    assert set(changes_since(repository.root, parted).files) == {"b.py"}


@pytest.mark.parametrize("rev", ["nowhere", "--all", "HEAD:a.py", ""])
def test_a_revision_that_is_no_commit_is_named(empty_repository: Repository, rev: str) -> None:
    with pytest.raises(HarnessError, match="no such commit"):
        merge_base(empty_repository.root, rev)


def test_a_history_of_its_own_has_no_base(empty_repository: Repository) -> None:
    empty_repository.git("checkout", "--quiet", "--orphan", "other")
    empty_repository.commit({"a.py": CODE})

    with pytest.raises(HarnessError, match="no common ancestor"):
        merge_base(empty_repository.root, "main")


def test_changes_since_two_commits_are_all_of_both() -> None:
    one = Changes(
        {
            "a.py": Change("a.py", "modified", frozenset({"f"})),
            "b.py": Change("b.py", "modified", frozenset({"f"})),
        },
        ("x",),
    )
    two = Changes(
        {
            "a.py": Change("a.py", "modified", frozenset({"g"})),
            "b.py": Change("b.py", "added"),
            "c.py": Change("c.py", "deleted"),
        },
        ("x", "y"),
    )

    both = one.joined(two)

    assert both.files["a.py"].parts == {"f", "g"}
    assert both.files["b.py"].parts is None
    assert both.files["c.py"] == Change("c.py", "deleted")
    assert both.untold == ("x", "y")
    assert set(two.joined(one).files) == set(both.files)
