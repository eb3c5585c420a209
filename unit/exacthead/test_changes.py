from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from exacthead.changes import EMPTY, GONE, Changes, read_changes

if TYPE_CHECKING:
    from pathlib import Path

    from unit.exacthead.conftest import Repository


@pytest.fixture
def repository(empty_repository: Repository) -> Repository:
    empty_repository.commit({"tracked": "one\n", "folder/tracked": "two\n"})
    return empty_repository


def another(repository: Repository, path: Path) -> Path:
    """A repository with one commit at ``path``."""
    path.mkdir(parents=True)
    inner = type(repository)(path)
    inner.git("init", "--quiet", "--initial-branch=main")
    inner.commit({"file": "inside\n"})
    return path


def with_submodule(repository: Repository, origin: Path) -> None:
    allowed = ("-c", "protocol.file.allow=always")
    repository.git(*allowed, "submodule", "--quiet", "add", str(origin), "lib")
    repository.commit({})


def test_a_clean_checkout_makes_its_commit_s_tree(repository: Repository) -> None:
    tree = repository.git("rev-parse", "HEAD^{tree}")

    assert read_changes(repository.root) == Changes(content=tree)


def test_the_content_is_the_tree_that_a_commit_of_everything_would_have(
    repository: Repository,
) -> None:
    repository.write({"tracked": "changed\n", "new/file": "new\n", "staged": "staged\n"})
    (repository.root / "folder/tracked").unlink()
    (repository.root / "link").symlink_to("nowhere")
    repository.git("add", "staged")

    changes = read_changes(repository.root)

    blob = repository.git("hash-object", "staged")
    repository.commit({})
    assert changes.content == repository.git("rev-parse", "HEAD^{tree}")
    assert set(changes.files) == {"tracked", "new/file", "staged", "folder/tracked", "link"}
    assert changes.files["folder/tracked"] == GONE
    assert changes.files["staged"] == f"100644 {blob}"
    assert changes.files["link"].startswith("120000 ")


def test_looking_leaves_index_objects_and_stashes_as_they_were(repository: Repository) -> None:
    repository.write({"stashed": "x"})
    repository.git("stash", "--include-untracked", "--quiet")
    repository.write({"tracked": "changed\n", "new": "new\n"})
    # A time that the index does not know: git would note it at the first look.
    os.utime(repository.root / "folder/tracked", (1, 1))

    def everything() -> dict[str, bytes]:
        files = (path for path in (repository.root / ".git").rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files}

    before = everything()
    read_changes(repository.root)

    assert everything() == before


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_was_told_not_to_look_at_is_looked_at(
    repository: Repository, mark: str
) -> None:
    repository.git("update-index", mark, "tracked")
    repository.write({"tracked": "changed\n"})
    assert repository.git("status", "--porcelain") == ""

    assert set(read_changes(repository.root).files) == {"tracked"}


def test_an_edit_of_the_same_size_in_the_second_of_the_commit_is_seen(
    repository: Repository,
) -> None:
    repository.commit({"tracked": "new\n"})
    repository.write({"tracked": "old\n"})

    assert set(read_changes(repository.root).files) == {"tracked"}


def test_a_sparse_checkout_misses_nothing(repository: Repository) -> None:
    repository.git("sparse-checkout", "set", "--cone", "elsewhere")
    assert not (repository.root / "folder").exists()

    assert read_changes(repository.root).files == {}


def test_what_was_staged_and_is_as_committed_again_is_no_change(repository: Repository) -> None:
    repository.write({"tracked": "changed\n", "__pycache__/ignored": "but tracked\n"})
    repository.git("add", "--force", "__pycache__/ignored")
    repository.commit({"tracked": "one\n"})
    repository.write({"tracked": "changed\n"})
    repository.git("add", "tracked")
    repository.write({"tracked": "one\n"})
    repository.git("rm", "--quiet", "--cached", "folder/tracked", "__pycache__/ignored")

    assert read_changes(repository.root).files == {}


def test_a_merge_that_is_not_resolved_is_told_by_its_files(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "other")
    repository.commit({"tracked": "theirs\n"})
    repository.git("checkout", "--quiet", "main")
    repository.commit({"tracked": "ours\n"})
    with pytest.raises(Exception, match="merge"):
        repository.git("merge", "--quiet", "other")

    assert "<<<<<<<" in (repository.root / "tracked").read_text(encoding="utf-8")
    assert set(read_changes(repository.root).files) == {"tracked"}


def test_a_folder_in_the_place_of_a_file_and_a_link_in_that_of_a_folder(
    repository: Repository,
) -> None:
    (repository.root / "tracked").unlink()
    repository.write({"tracked/inside": "x\n", "elsewhere/tracked": "two\n"})
    (repository.root / "folder/tracked").unlink()
    (repository.root / "folder").rmdir()
    (repository.root / "folder").symlink_to("elsewhere")

    files = read_changes(repository.root).files

    assert files["tracked"] == files["folder/tracked"] == GONE
    assert files["folder"].startswith("120000 ")
    assert {"tracked/inside", "elsewhere/tracked"} < set(files)


def test_the_harness_s_own_folders_are_no_change_also_where_nobody_ignores_them(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository.root / ".gitignore").unlink()
    repository.commit({})
    monkeypatch.setenv("EXACTHEAD_CACHE", str(repository.root / "cache [1]"))
    repository.write({"runs/x": "", "cache [1]/y": "", "folder/runs/z": ""})

    assert set(read_changes(repository.root).files) == {"folder/runs/z"}


def test_what_is_no_file_cannot_be_told(repository: Repository) -> None:
    (repository.root / "tracked").unlink()
    os.mkfifo(repository.root / "tracked")

    assert read_changes(repository.root).untold == ("tracked",)


def test_a_large_new_file_is_told_without_being_read(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exacthead.changes.LARGE", 100)
    repository.write({"large": 101 * "x", "small": 100 * "x", "tracked": 200 * "x"})

    changes = read_changes(repository.root)

    time = (repository.root / "large").stat().st_mtime_ns
    assert changes.large == {"large": f"101 {time}"}
    assert set(changes.files) == {"small", "tracked"}
    assert not changes.told
    os.utime(repository.root / "large", (1, 1))
    assert read_changes(repository.root).unlike(changes) == ["large"]


def test_a_repository_inside_the_checkout_cannot_be_told(repository: Repository) -> None:
    another(repository, repository.root / "vendored")

    changes = read_changes(repository.root)

    assert changes.untold == ("vendored/",)
    assert changes.files == {}


def test_a_submodule_is_told_by_its_state(repository: Repository, tmp_path: Path) -> None:
    with_submodule(repository, another(repository, tmp_path / "origin"))
    commit = repository.git("-C", "lib", "rev-parse", "HEAD")

    index = repository.root / ".git/modules/lib/index"
    os.utime(repository.root / "lib/file", (1, 1))
    before = index.read_bytes()
    there = read_changes(repository.root)
    assert index.read_bytes() == before
    (repository.root / "lib/file").write_text("edited\n", encoding="utf-8")
    edited = read_changes(repository.root)
    repository.git("-C", "lib", "commit", "--quiet", "--all", "--message", "Another")
    moved = read_changes(repository.root)
    repository.git("submodule", "--quiet", "deinit", "--force", "lib")
    empty = read_changes(repository.root)

    another_commit = moved.apart["lib"]
    assert another_commit != commit
    assert [each.apart["lib"] for each in (there, edited, empty)] == [
        commit,
        f"{commit}-dirty",
        EMPTY,
    ]
    assert [each.untold for each in (there, edited, moved, empty)] == [(), ("lib",), (), ()]
    assert moved.files == {"lib": f"160000 {another_commit}"}
    assert there.files == edited.files == empty.files == {}
    assert there.unlike(empty) == ["lib"]
    assert there.unlike(there) == []


def test_two_states_differ_in_the_paths_that_differ(repository: Repository) -> None:
    repository.write({"tracked": "changed\n", "same": "same\n"})
    before = read_changes(repository.root)
    repository.write({"tracked": "changed again\n", "more": ""})

    assert read_changes(repository.root).unlike(before) == ["more", "tracked"]


def test_a_folder_of_a_checkout_is_told_with_the_whole_of_it(repository: Repository) -> None:
    repository.write({"tracked": "changed\n"})

    assert read_changes(repository.root / "folder") == read_changes(repository.root)
