"""What an image may be made from: the head, or on request the content of a dirty checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.images import head_layer
from exacthead.images.snapshot import behind, check, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unit.exacthead.conftest import Repository


def test_the_head_is_its_commit_tree_and_date(repository: Repository) -> None:
    with snapshot(repository.root) as made_from:
        assert made_from.commit == repository.git("rev-parse", "HEAD")
        assert made_from.tree == repository.git("rev-parse", "HEAD^{tree}")
        assert made_from.created == int(repository.git("show", "-s", "--format=%ct"))
        assert not made_from.dirty
        assert made_from.below == "."


@pytest.mark.parametrize("change", ["edited", "untracked", "deleted", "staged"])
def test_a_dirty_checkout_is_refused_with_the_paths(repository: Repository, change: str) -> None:
    match change:
        case "edited":
            repository.write({"a.py": "a = 2\n"})
        case "untracked":
            repository.write({"new.py": "n = 1\n"})
        case "deleted":
            (repository.root / "a.py").unlink()
        case "staged":
            repository.write({"a.py": "a = 2\n"})
            repository.git("add", "a.py")

    path = "new.py" if change == "untracked" else "a.py"
    with pytest.raises(HarnessError, match=rf"not that commit: {path}[\s\S]*--dirty"):  # noqa: SIM117
        with snapshot(repository.root):
            pass


def test_on_request_a_dirty_checkout_is_named_by_its_content(
    repository: Repository, tmp_path: Path, names_in: Callable[[Path], dict[str, bytes]]
) -> None:
    head = repository.git("rev-parse", "HEAD")
    repository.write({"a.py": "a = 2\n", "new.py": "n = 1\n"})
    (repository.root / "b" / "c.txt").unlink()
    other = tmp_path / "other"
    shutil.copytree(repository.root, other)

    with snapshot(repository.root, dirty=True) as made_from:
        head_layer.write(made_from, tmp_path / "head.tar")
        one = made_from.commit, head_layer.diff_id(made_from)
        assert made_from.dirty
        assert "dirty" in str(made_from)
        assert made_from.commit != head
    with snapshot(other, dirty=True) as made_from:
        two = made_from.commit, head_layer.diff_id(made_from)
    (other / "new.py").write_text("n = 2\n", encoding="utf-8")
    with snapshot(other, dirty=True) as made_from:
        three = made_from.commit, head_layer.diff_id(made_from)

    assert one == two
    assert one[0] != three[0]
    assert one[1] != three[1]
    assert names_in(tmp_path / "head.tar") == {
        "workspace/.gitignore": (repository.root / ".gitignore").read_bytes(),
        "workspace/a.py": b"a = 2\n",
        "workspace/new.py": b"n = 1\n",
    }
    # Nothing was written into the user's own repository.
    kinds = repository.git("cat-file", "--batch-check", "--batch-all-objects", "--unordered")
    assert one[0] not in kinds


def test_a_clean_checkout_is_its_head_also_when_a_dirty_one_was_allowed(
    repository: Repository,
) -> None:
    with snapshot(repository.root, dirty=True) as made_from:
        assert made_from.commit == repository.git("rev-parse", "HEAD")
        assert not made_from.dirty


def test_content_that_git_cannot_tell_is_refused(repository: Repository) -> None:
    inner = repository.root / "inner"
    subprocess.run(["git", "init", "-q", inner], check=True)
    (inner / "x").write_text("x", encoding="utf-8")

    with pytest.raises(HarnessError, match="cannot tell the content of inner/"):  # noqa: SIM117
        with snapshot(repository.root, dirty=True):
            pass


def test_a_root_below_the_checkout_is_told(repository: Repository) -> None:
    with snapshot(repository.root / "b") as made_from:
        assert made_from.below == "b"


def test_submodules_pointers_and_links_that_lead_out_are_refused_by_name(
    repository: Repository, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "clone", "-q", repository.root, other], check=True)
    allow = ("-c", "protocol.file.allow=always")
    repository.git(*allow, "submodule", "add", "-q", str(other), "third/party")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12\n"
    repository.write({"model.bin": pointer, "deep/inside.txt": "x\n"})
    (repository.root / "deep" / "out").symlink_to("../../elsewhere")
    (repository.root / "deep" / "absolute").symlink_to("/etc/passwd")
    (repository.root / "deep" / "in").symlink_to("../a.py")
    (repository.root / "deep" / "gone").symlink_to("nothing-there")
    repository.commit({})

    with snapshot(repository.root) as made_from, pytest.raises(HarnessError) as caught:
        check(made_from)

    said = [line.strip() for line in caught.value.found.splitlines() if line.strip()]
    assert said == [
        "deep/absolute: a link to /etc/passwd, out of the repository",
        "deep/out: a link to ../../elsewhere, out of the repository",
        "model.bin: a pointer of Git LFS, not the file itself",
        "third/party: a submodule, whose files git does not archive",
    ]


def test_a_link_that_leads_out_by_way_of_another_is_refused(repository: Repository) -> None:
    deep = repository.root / "a" / "b"
    deep.mkdir(parents=True)
    # Its text stays inside; behind the link `top`, `..` is the folder above the repository.
    (deep / "top").symlink_to("../..")
    (deep / "out").symlink_to("top/../etc/passwd")
    (deep / "in").symlink_to("top/a.py")
    (deep / "loop").symlink_to("loop/../..")
    repository.commit({})

    with snapshot(repository.root) as made_from, pytest.raises(HarnessError) as caught:
        check(made_from)

    assert caught.value.found.split("\n    ")[1:] == [
        "a/b/out: a link to top/../etc/passwd, out of the repository"
    ]


def test_a_name_that_an_engine_takes_for_a_deletion_is_refused(repository: Repository) -> None:
    repository.commit({"b/.wh.c.txt": "x", ".wh..wh..opq/y": "y", "b/.what": "z"})

    with snapshot(repository.root) as made_from, pytest.raises(HarnessError) as caught:
        check(made_from)

    assert [line.partition(":")[0] for line in caught.value.found.split("\n    ")[1:]] == [
        ".wh..wh..opq/y",
        "b/.wh.c.txt",
    ]


def test_a_name_cannot_write_lines_of_its_own_into_an_error(repository: Repository) -> None:
    (repository.root / "x\nall is well\x1b[2J").symlink_to("/etc")
    odd = os.fsdecode(b"\xff")
    (repository.root / odd).symlink_to("/etc")

    with pytest.raises(HarnessError, match=r"not that commit: x\\nall is well\\x1b\[2J, "):  # noqa: SIM117
        with snapshot(repository.root):
            pass
    repository.commit({})
    with snapshot(repository.root) as made_from, pytest.raises(HarnessError) as caught:
        check(made_from)
    assert caught.value.found.split("\n    ")[1:] == [
        "x\\nall is well\\x1b[2J: a link to /etc, out of the repository",
        "\\udcff: a link to /etc, out of the repository",
    ]


def test_a_revision_is_never_an_option_of_git(repository: Repository, tmp_path: Path) -> None:
    target = tmp_path / "written"

    with pytest.raises(HarnessError, match="--output"):  # noqa: SIM117
        with snapshot(repository.root, revision=f"--output={target}"):
            pass

    assert list(tmp_path.glob("written*")) == []


def test_a_replacement_in_this_clone_changes_no_head(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    second = repository.commit({"a.py": "a = 2\n"})
    with snapshot(repository.root) as made_from:
        before = made_from, head_layer.diff_id(made_from)

    repository.git("replace", second, first)

    with snapshot(repository.root) as made_from:
        assert (made_from, head_layer.diff_id(made_from)) == before
    repository.git("checkout", "-q", second, "--", ".")
    with pytest.raises(HarnessError, match=r"not that commit: a.py"):  # noqa: SIM117
        with snapshot(repository.root):
            pass


def test_an_ordinary_head_may_be_in_an_image(repository: Repository) -> None:
    repository.commit({"notes.txt": "see version https://git-lfs.github.com/spec/v1\n" * 4})

    with snapshot(repository.root) as made_from:
        check(made_from)


def test_how_far_the_head_is_from_another_commit(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.commit({"a.py": "a = 2\n"})
    assert behind(repository.root, first) == "1 commit behind"
    repository.commit({"a.py": "a = 3\n"})
    assert behind(repository.root, first) == "2 commits behind"
    repository.git("checkout", "-q", "-b", "side", first)
    side = repository.commit({"s.py": "s = 1\n"})
    repository.git("checkout", "-q", "main")
    assert behind(repository.root, side) == "2 commits behind, and 1 that the head has not"


def test_a_shallow_clone_does_not_know_how_far_the_head_is(
    repository: Repository, tmp_path: Path
) -> None:
    first = repository.git("rev-parse", "HEAD")
    for number in (2, 3):
        repository.commit({"a.py": f"a = {number}\n"})
    clone = tmp_path / "shallow"
    address = f"file://{repository.root}"
    subprocess.run(["git", "clone", "-q", "--depth=1", address, clone], check=True)
    subprocess.run(["git", "fetch", "-q", "--depth=1", "origin", first], cwd=clone, check=True)

    assert behind(clone, first).endswith(" as far as this shallow clone can tell")
