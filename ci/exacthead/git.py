"""Git, asked as a program: of the folder's own repository, without its hooks and their variables.

Nothing here writes a user's index: reads take no optional lock, and what has to be staged is staged
in an :class:`Scratch`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

# A git hook sets these; they would make git look at another repository than the folder's own.
_ELSEWHERE = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX"),
    }
)
# A hook or a monitor of the user's is a program that would run in the middle of a question.
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")

# A replacement is of one clone: a commit is what its id says, here as anywhere.
_ALWAYS = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1"}


def git(root: Path, *args: str) -> str:
    """Run git in ``root`` and return its standard output without the line end.

    Raises:
        HarnessError: git is not there or failed, in its own words.
    """
    return git_bytes(root, *args).decode(errors="replace").rstrip("\n")


def git_bytes(
    root: Path,
    *args: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    accepted: Collection[int] = (0,),
) -> bytes:
    """Run git in ``root`` with further variables, if need be, and return its standard output.

    Args:
        root: a folder of the checkout.
        args: of git.
        stdin: what it reads.
        environment: further variables.
        accepted: the exit codes that are an answer and no failure.

    Raises:
        HarnessError: git is not there or failed, in its own words.
    """
    asked = f"git {' '.join(args)} in {root}"
    inherited = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        done = subprocess.run(
            ["git", *_QUIET, "-C", str(root), *args],
            env={**inherited, **_ALWAYS, **(environment or {})},
            input=stdin,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise HarnessError(asked, "no git on PATH", "apt-get install git") from None
    if done.returncode not in accepted:
        raise HarnessError(
            asked,
            done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}",
            "run inside a git checkout that has at least one commit",
        )
    return done.stdout


def names(listed: bytes) -> list[str]:
    """The paths of a ``-z`` listing; bytes that are no UTF-8 survive as surrogates."""
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def listing(paths: list[str]) -> bytes:
    """Paths as git reads them from standard input with ``-z``."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


@dataclass(frozen=True)
class Scratch:
    """An index and an object store of our own over a checkout's: git writes into these only."""

    root: Path
    folder: Path
    _objects: str

    @property
    def index(self) -> Path:
        """The index file; git makes it when it is missing."""
        return self.folder / "index"

    def git(
        self,
        *args: str,
        stdin: bytes = b"",
        own_index: bool = False,
        accepted: Collection[int] = (0,),
    ) -> bytes:
        """Run git over both; with ``own_index`` over the checkout's index and our store."""
        # Quoted as git reads it: a colon in the path would end it.
        escaped = self._objects.replace("\\", "\\\\").replace('"', '\\"')
        environment = {
            "GIT_OBJECT_DIRECTORY": str(self.folder / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{escaped}"',
        }
        if not own_index:
            environment["GIT_INDEX_FILE"] = str(self.index)
        # A split index would keep its shared half in the checkout's own git folder.
        arguments = ("-c", "core.splitIndex=false", *args)
        return git_bytes(
            self.root, *arguments, stdin=stdin, environment=environment, accepted=accepted
        )

    def write_tree(self) -> str:
        """The tree of the index; its objects need not be in any store."""
        return self.git("write-tree", "--missing-ok").decode().strip()


@contextmanager
def scratch(root: Path) -> Iterator[Scratch]:
    """A scratch over the checkout at ``root``, gone when the block ends."""
    objects = (root / git(root, "rev-parse", "--git-path", "objects")).resolve()
    with tempfile.TemporaryDirectory(prefix="exacthead-git-") as folder:
        (Path(folder) / "objects").mkdir()
        yield Scratch(root, Path(folder), str(objects))


def merge_base(root: Path, rev: str) -> str:
    """The full id of the commit at which the head's branch left ``rev``; nothing is fetched.

    Raises:
        HarnessError: there is no such commit here, or none in common.
    """
    asked = f"the merge base with {rev!r}"
    shallow = git(root, "rev-parse", "--is-shallow-repository") == "true"
    more = "this is a shallow clone: git fetch --unshallow" if shallow else ""
    try:
        commit = git(root, "rev-parse", "--verify", "--end-of-options", f"{rev}^{{commit}}")
    except HarnessError as error:
        todo = "name a commit that is here, or fetch it first; nothing is fetched for you"
        raise HarnessError(asked, "no such commit in this clone", more or todo) from error
    try:
        return git(root, "merge-base", commit, "HEAD")
    except HarnessError as error:
        todo = "name a branch that this one began on"
        raise HarnessError(asked, "no common ancestor in this clone", more or todo) from error
