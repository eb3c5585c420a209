from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.git import git
from exacthead.head import Head, read_head

if TYPE_CHECKING:
    from pathlib import Path

    from unit.exacthead.conftest import Repository


def test_a_clean_checkout_is_exactly_its_commit(empty_repository: Repository) -> None:
    head = read_head(empty_repository.root)

    assert head.commit == empty_repository.git("rev-parse", "HEAD")
    assert head.tree == empty_repository.git("rev-parse", "HEAD^{tree}")
    assert head.content == head.tree
    assert not head.dirty
    assert str(head) == head.commit[:12]


@pytest.mark.parametrize(
    "files", [{".gitignore": "changed\n"}, {"new": ""}, {"folder/ünusual name": "x"}]
)
def test_a_change_or_a_new_file_makes_it_dirty(
    empty_repository: Repository, files: dict[str, str]
) -> None:
    empty_repository.write(files)

    head = read_head(empty_repository.root)

    assert head.dirty
    assert str(head).endswith("-dirty")
    empty_repository.commit({})
    assert read_head(empty_repository.root) == Head(
        commit=empty_repository.git("rev-parse", "HEAD"),
        tree=head.content,
        dirty=False,
        content=head.content,
    )


def test_an_ignored_file_does_not_make_it_dirty(empty_repository: Repository) -> None:
    empty_repository.write({".cache/x": "", "runs/y": ""})

    assert not read_head(empty_repository.root).dirty


def test_the_user_s_settings_cannot_hide_a_new_file(empty_repository: Repository) -> None:
    empty_repository.git("config", "status.showUntrackedFiles", "no")
    empty_repository.write({"new": ""})

    assert read_head(empty_repository.root).dirty


def test_a_hook_s_variables_do_not_lead_to_another_repository(
    empty_repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_head(empty_repository.root)
    other = tmp_path / "other"
    shutil.copytree(empty_repository.root, other)
    (other / "new").write_text("", encoding="utf-8")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))

    assert read_head(empty_repository.root) == expected


def test_a_repository_inside_the_checkout_makes_it_dirty(empty_repository: Repository) -> None:
    (empty_repository.root / "inner").mkdir()
    empty_repository.git("init", "--quiet", "inner")

    head = read_head(empty_repository.root)

    assert head.dirty
    assert head.content == head.tree


def test_outside_a_repository_git_s_own_words_are_shown(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="not a git repository"):
        read_head(tmp_path)


def test_without_git_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(HarnessError, match="apt-get install git"):
        git(tmp_path, "status")
