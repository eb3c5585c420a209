from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.head import read_head
from exacthead.reproduce import checkout
from unit.exacthead.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from exacthead.reproduce import Past
    from unit.exacthead.conftest import Repository

    Make = Callable[[Repository], Past]


def trees(repository: Repository) -> list[str]:
    """The work trees that git knows, and those that are there."""
    known = repository.git("worktree", "list", "--porcelain").splitlines()
    heads = repository.root / ".cache/heads"
    there = [path.name for path in heads.iterdir() if path.is_dir()] if heads.exists() else []
    return [line for line in known if line.startswith("worktree ")][1:] + there


def test_the_same_files_are_run_in_place(empty_repository: Repository, past: Make) -> None:
    for changed in ({}, {"new": "new\n"}):
        empty_repository.write(changed)
        with checkout(empty_repository.root, past(empty_repository)) as (root, differs):
            assert root == empty_repository.root
            assert differs == ()


def test_another_commit_is_run_in_a_work_tree_that_is_gone_afterwards(
    empty_repository: Repository, past: Make
) -> None:
    empty_repository.commit({"file": "then\n"})
    run = past(empty_repository)
    empty_repository.commit({"file": "now\n"})

    with checkout(empty_repository.root, run) as (root, differs):
        assert read_head(root) == run.plan.head
        assert (root / "file").read_text(encoding="utf-8") == "then\n"
        assert differs == ()
        assert len(trees(empty_repository)) == 2

    assert trees(empty_repository) == []
    assert (empty_repository.root / "file").read_text(encoding="utf-8") == "now\n"


@pytest.mark.parametrize("now", [{}, {"tracked": "other\n"}, {"another": "x"}])
def test_changes_are_put_into_a_work_tree_whatever_is_here_now(
    empty_repository: Repository, past: Make, now: dict[str, str]
) -> None:
    empty_repository.commit({"tracked": "committed\n", "removed": ""})
    empty_repository.write({"tracked": "changed\n", "new/file": "new\n"})
    (empty_repository.root / "removed").unlink()
    run = past(empty_repository)
    empty_repository.git("stash", "--include-untracked", "--quiet")
    empty_repository.write(now)
    before = empty_repository.git("status", "--porcelain")

    with checkout(empty_repository.root, run) as (root, differs):
        assert root != empty_repository.root
        assert differs == ()
        assert read_head(root) == run.plan.head
        assert (root / "tracked").read_text(encoding="utf-8") == "changed\n"
        assert (root / "new/file").read_text(encoding="utf-8") == "new\n"
        assert not (root / "removed").exists()

    assert empty_repository.git("status", "--porcelain") == before


def test_changes_that_were_not_kept_are_named(empty_repository: Repository, past: Make) -> None:
    empty_repository.write({"large": "x", "small": "y"})
    run = past(empty_repository)
    (run.folder / "changes.diff").unlink()
    empty_repository.commit({})

    with checkout(empty_repository.root, run) as (root, differs):
        assert differs == (
            f"the run's changes are missing (large, small): {run.folder / 'changes.diff'} is gone",
        )
        assert read_head(root).content == run.plan.head.tree


def test_a_commit_that_is_not_here_is_to_be_fetched(
    empty_repository: Repository, past: Make, tmp_path: Path
) -> None:
    clone = type(empty_repository)(tmp_path / "clone")
    empty_repository.git("clone", "--quiet", str(empty_repository.root), str(clone.root))
    commit = clone.commit({"file": "there only\n"})
    run = past(clone)

    with (
        pytest.raises(HarnessError, match=f"git fetch REMOTE {commit}"),
        checkout(empty_repository.root, run),
    ):
        pass


def test_a_submodule_that_is_not_populated_in_the_work_tree_is_named(
    empty_repository: Repository, past: Make, tmp_path: Path
) -> None:
    origin = tmp_path / "origin"
    empty_repository.git("clone", "--quiet", str(empty_repository.root), str(origin))
    allowed = ("-c", "protocol.file.allow=always")
    empty_repository.git(*allowed, "submodule", "--quiet", "add", str(origin), "lib")
    empty_repository.commit({})
    empty_repository.git("-C", "lib", "commit", "--quiet", "--allow-empty", "--message", "Theirs")
    theirs = empty_repository.git("-C", "lib", "rev-parse", "HEAD")
    (empty_repository.root / "vendored").mkdir()
    empty_repository.git("init", "--quiet", "vendored")
    run = past(empty_repository)
    empty_repository.git("commit", "--quiet", "--allow-empty", "--message", "Another")

    with checkout(empty_repository.root, run) as (_, differs):
        assert differs == (
            f"submodule lib: empty here, at {theirs[:12]} there",
            "git cannot tell what vendored/ held",
        )
    empty_repository.git("reset", "--quiet", "--hard", "HEAD~")
    with checkout(empty_repository.root, run) as (root, differs):
        assert root == empty_repository.root
        assert differs == ("git cannot tell what vendored/ held",)


def test_a_large_file_is_not_kept_and_named_where_it_is_missed(
    empty_repository: Repository, past: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exacthead.changes.LARGE", 100)
    empty_repository.write({"large": 101 * "x", "small": "y"})
    run = past(empty_repository)

    with checkout(empty_repository.root, run) as (root, differs):
        assert (root, differs) == (empty_repository.root, ())
    os.utime(empty_repository.root / "large", (1, 1))
    with checkout(empty_repository.root, run) as (root, differs):
        assert (root, differs) == (empty_repository.root, ("large file large: another here",))
    (empty_repository.root / "small").unlink()
    with checkout(empty_repository.root, run) as (root, differs):
        assert differs == ("large file large: none here",)
        assert (root / "small").read_text(encoding="utf-8") == "y"


def test_two_at_once_do_not_meet(empty_repository: Repository, past: Make) -> None:
    run = past(empty_repository)
    empty_repository.commit({"file": ""})

    with ExitStack() as both:
        one, other = (both.enter_context(checkout(empty_repository.root, run))[0] for _ in range(2))
        assert one != other
        (one / "written").touch()
        assert read_head(other) == run.plan.head
        assert read_head(one) != run.plan.head

    assert trees(empty_repository) == []


def test_what_a_killed_one_has_left_is_removed_by_the_next(
    empty_repository: Repository, past: Make
) -> None:
    run = past(empty_repository)
    empty_repository.commit({"file": ""})
    source = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from exacthead.reproduce import checkout, find\n"
        "with checkout(Path(sys.argv[1]), find(Path(sys.argv[2]))) as (root, _):\n"
        "    print(root, flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", source, empty_repository.root, run.folder / "count.plain"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "ci")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        tree = killed.stdout.readline().strip()
        killed.send_signal(signal.SIGKILL)
    assert len(trees(empty_repository)) == 2

    with checkout(empty_repository.root, run) as (root, _):
        assert str(root) == tree
        assert read_head(root) == run.plan.head

    assert trees(empty_repository) == []


def test_a_folder_that_git_knows_nothing_of_and_one_that_is_only_known_are_replaced(
    empty_repository: Repository, past: Make
) -> None:
    run = past(empty_repository)
    empty_repository.commit({"file": ""})
    heads = empty_repository.root / ".cache/heads"
    empty_repository.write({".cache/heads/0.lock": "", ".cache/heads/0/rubbish": ""})
    empty_repository.git("worktree", "add", "--quiet", "--detach", "--lock", str(heads / "1"))
    for name in (".git", "file", ".gitignore"):
        (heads / "1" / name).unlink()
    (heads / "1").rmdir()
    (heads / "1.lock").touch()

    with checkout(empty_repository.root, run) as (root, _):
        assert read_head(root) == run.plan.head

    assert trees(empty_repository) == []


def test_a_work_tree_of_the_user_s_that_is_not_mounted_now_stays_known(
    empty_repository: Repository, past: Make, tmp_path: Path
) -> None:
    run = past(empty_repository)
    empty_repository.commit({"file": ""})
    theirs = tmp_path / "theirs"
    empty_repository.git("worktree", "add", "--quiet", "--detach", str(theirs))
    theirs.rename(tmp_path / "unplugged")

    with checkout(empty_repository.root, run):
        pass

    assert trees(empty_repository) == [f"worktree {theirs}"]


def test_a_folder_that_a_test_has_closed_is_removed_too(
    empty_repository: Repository, past: Make
) -> None:
    run = past(empty_repository)
    empty_repository.commit({"file": ""})

    with checkout(empty_repository.root, run) as (root, _):
        (root / "closed/inner").mkdir(parents=True)
        (root / "closed/inner/file").touch()
        (root / "closed/inner").chmod(0o500)
        (root / "closed").chmod(0o000)

    assert trees(empty_repository) == []


def test_a_project_below_the_checkout_s_top_is_found_there(
    empty_repository: Repository, past: Make
) -> None:
    empty_repository.commit({"project/file": "then\n"})
    project = type(empty_repository)(empty_repository.root / "project")
    project.write({"file": "changed\n"})
    run = past(project)
    empty_repository.commit({"project/file": "now\n"})

    with checkout(project.root, run) as (root, differs):
        assert differs == ()
        assert root.name == "project"
        assert (root / "file").read_text(encoding="utf-8") == "changed\n"
