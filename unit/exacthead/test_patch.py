from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exacthead.changes import read_changes
from exacthead.errors import HarnessError
from exacthead.patch import keep_changes, put_back, read_kept
from unit.exacthead.conftest import Repository

BASE: dict[str, bytes] = {
    "text": b"one\ntwo\nthree\n",
    "no line end": b"one\ntwo",
    "binary": bytes(range(256)) * 8,
    "folder/a": b"a\n",
    "folder/b": b"b\n",
}
NAMES = [
    *BASE,
    *("new", "folder", "folder/a/deep", "-dash", " space ", 'quote"', "tab\tname", "line\nend"),
    *("ünïcode", os.fsdecode(b"no\xffutf"), "script.sh", "link", "diff --git a/x b/x"),
]
Change = Callable[[Repository], object]


def clear(path: Path) -> None:
    """Make room for something at ``path``: neither it nor a file in its way stays."""
    for each in (*reversed(path.parents), path):
        if each.is_symlink() or each.is_file():
            each.unlink()
    if path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)


def write(name: str, content: bytes, mode: int) -> Change:
    def change(repository: Repository) -> None:
        path = repository.root / name
        clear(path)
        path.write_bytes(content)
        path.chmod(mode)

    return change


def link(name: str, target: str) -> Change:
    def change(repository: Repository) -> None:
        clear(repository.root / name)
        (repository.root / name).symlink_to(target)

    return change


def delete(name: str) -> Change:
    return lambda repository: clear(repository.root / name)


def stage(name: str) -> Change:
    def change(repository: Repository) -> None:
        listed = subprocess.run(
            ["git", "-C", repository.root, "add", "--all", "--", f":(literal){name}"], check=False
        )
        assert listed.returncode in {0, 128}  # 128: there is nothing of that name

    return change


def move(name: str, to: str) -> Change:
    def change(repository: Repository) -> None:
        if (repository.root / name).is_file() and not to.startswith(f"{name}/"):
            content = (repository.root / name).read_bytes()
            clear(repository.root / to)
            (repository.root / to).write_bytes(content)
            (repository.root / name).unlink(missing_ok=True)

    return change


names = st.sampled_from(NAMES)
contents = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"one\r\ntwo\r\n", b"one\ntwo\nthree\nfour", b"\n", bytes(300), b"x "]),
)
changes = st.one_of(
    st.builds(write, names, contents, st.sampled_from([0o644, 0o755])),
    st.builds(link, names, st.sampled_from(["text", "folder", "no where"])),
    st.builds(delete, names),
    st.builds(stage, names),
    st.builds(move, names, names),
)


def files(root: Path) -> dict[str, tuple[object, ...]]:
    """What is in a checkout: links by target, files by content and executable bit."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, inner, outer in os.walk(root):
        inner[:] = [name for name in inner if name != ".git"]
        for path in (Path(folder, name) for name in (*inner, *outer) if name != ".git"):
            name = str(path.relative_to(root))
            if path.is_symlink():
                found[name] = ("link", str(path.readlink()))
            elif path.is_file():
                found[name] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found


def own(repository: Repository) -> tuple[bytes, str, str, str]:
    """What is the user's own: the index, the stashes, the status, the loose objects."""
    return (
        (repository.root / ".git/index").read_bytes(),
        repository.git("stash", "list"),
        repository.git("--no-optional-locks", "status", "--porcelain"),
        repository.git("count-objects"),
    )


def replayed(repository: Repository, folder: Path) -> Path:
    """A work tree of the commit into which the kept changes were put back."""
    kept = read_kept(folder)
    assert kept is not None
    tree = folder / "tree"
    repository.git("worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
    assert put_back(tree, kept) == []
    assert Repository(tree).git("diff", "--cached", "HEAD") == ""
    return tree


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("base") / "checkout"
    root.mkdir()
    repository = Repository(root)
    repository.git("init", "--quiet", "--initial-branch=main")
    for name, content in BASE.items():
        write(name, content, 0o644)(repository)
    write("script.sh", b"exit\n", 0o755)(repository)
    link("link", "text")(repository)
    repository.commit({})
    return root


@pytest.fixture
def repository(base: Path, tmp_path: Path) -> Repository:
    shutil.copytree(base, tmp_path / "checkout", symlinks=True)
    return Repository(tmp_path / "checkout")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@settings(max_examples=15)
@given(steps=st.lists(changes, min_size=1, max_size=6))
def test_whatever_was_changed_is_put_back_exactly_and_nothing_of_the_user_s_is_touched(
    base: Path, steps: list[Change]
) -> None:
    with TemporaryDirectory() as place:
        shutil.copytree(base, Path(place, "checkout"), symlinks=True)
        repository, folder = Repository(Path(place, "checkout")), Path(place, "run")
        folder.mkdir()
        for step in steps:
            step(repository)
        before = own(repository)

        keep_changes(repository.root, folder)

        assert own(repository) == before
        if read_changes(repository.root).files:
            assert files(replayed(repository, folder)) == files(repository.root)
        else:
            assert list(folder.iterdir()) == []


def test_a_large_file_that_was_renamed_is_a_line(repository: Repository, folder: Path) -> None:
    write("large", os.urandom(100_000), 0o644)(repository)
    repository.commit({})
    move("large", "folder/elsewhere")(repository)

    keep_changes(repository.root, folder)

    assert (folder / "changes.diff").stat().st_size < 1000
    assert files(replayed(repository, folder)) == files(repository.root)


def test_a_user_s_settings_change_neither_the_patch_nor_what_it_makes(
    repository: Repository, folder: Path
) -> None:
    for name, value in {
        "diff.noprefix": "true",
        "diff.context": "0",
        "diff.external": "false",
        "color.ui": "always",
        "core.quotePath": "false",
        "core.splitIndex": "true",
        "apply.whitespace": "fix",
        "core.hooksPath": str(repository.root / "hooks"),
    }.items():
        repository.git("config", name, value)
    write("hooks/post-index-change", b"#!/bin/sh\n: >.git/hooked\n", 0o755)(repository)
    write("text", b"one \ntwo\nthree\n", 0o644)(repository)
    inside = sorted((repository.root / ".git").rglob("*"))

    keep_changes(repository.root, folder)

    assert sorted((repository.root / ".git").rglob("*")) == inside
    assert b"--- a/text\n" in (folder / "changes.diff").read_bytes()
    assert files(replayed(repository, folder)) == files(repository.root)


def test_a_file_that_git_keeps_in_another_form_is_named_unless_it_comes_back_the_same(
    repository: Repository, folder: Path
) -> None:
    write(".gitattributes", b"* text=auto\n*.dos eol=crlf\n", 0o644)(repository)
    write("a.dos", b"one\r\ntwo\r\n", 0o644)(repository)
    write("unix", b"one\ntwo\n", 0o644)(repository)
    write("mixed\n", b"one\r\ntwo\n", 0o644)(repository)

    keep_changes(repository.root, folder)

    kept = read_kept(folder)
    assert kept is not None
    assert set(kept.converted) == {"a.dos", "mixed\n"}
    tree = folder / "tree"
    repository.git("worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
    assert put_back(tree, kept) == ["mixed\n"]
    assert (tree / "a.dos").read_bytes() == b"one\r\ntwo\r\n"


def test_what_is_too_large_is_not_kept_and_the_largest_are_named(
    repository: Repository, folder: Path
) -> None:
    for number in range(1, 6):
        write(f"data {number}", bytes(number * 1_000_000), 0o644)(repository)
    (repository.root / "binary").unlink()

    keep_changes(repository.root, folder, limit=10_000_000)

    kept = read_kept(folder)
    assert kept is not None
    assert kept.patch is None
    assert kept.changes == read_changes(repository.root)
    assert kept.note == (
        "15.0 MB of changed files, more than the 10.0 MB that are kept;"
        " the largest: data 5 (5.0 MB), data 4 (4.0 MB), data 3 (3.0 MB)"
    )


def test_what_was_deleted_counts_as_well(repository: Repository, folder: Path) -> None:
    (repository.root / "binary").unlink()

    keep_changes(repository.root, folder, limit=2047)

    kept = read_kept(folder)
    assert kept is not None
    assert "the largest: binary (0.0 MB)" in kept.note


def test_a_clean_checkout_leaves_nothing(repository: Repository, folder: Path) -> None:
    keep_changes(repository.root, folder)

    assert list(folder.iterdir()) == []
    assert read_kept(folder) is None


def test_a_patch_that_was_changed_is_not_believed(repository: Repository, folder: Path) -> None:
    write("text", b"one\ntwo\nfour\n", 0o644)(repository)
    keep_changes(repository.root, folder)
    patch = folder / "changes.diff"
    patch.write_bytes(patch.read_bytes().replace(b"+four", b"+five"))

    with pytest.raises(HarnessError, match="another content"):
        replayed(repository, folder)


def test_a_patch_that_is_gone_is_missed(repository: Repository, folder: Path) -> None:
    write("text", b"", 0o644)(repository)
    keep_changes(repository.root, folder)
    (folder / "changes.diff").unlink()

    kept = read_kept(folder)

    assert kept is not None
    assert kept.note.endswith("changes.diff is gone")


def test_a_state_that_is_not_one_is_an_error(folder: Path) -> None:
    (folder / "changes.json").write_text(json.dumps({"content": ""}), encoding="utf-8")

    with pytest.raises(HarnessError, match="name the folder of a whole run"):
        read_kept(folder)


def test_other_settings_of_git_are_named_by_what_they_change(
    repository: Repository, folder: Path
) -> None:
    write("script.sh", b"exit\n", 0o644)(repository)
    write("text", b"", 0o644)(repository)
    keep_changes(repository.root, folder)
    kept = read_kept(folder)
    assert kept is not None
    tree = folder / "tree"
    repository.git("worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
    repository.git("config", "core.fileMode", "false")

    assert put_back(tree, kept) == ["script.sh"]
