"""Local packages: folders of the repository that are built into a worker, by their content."""

from __future__ import annotations

import hashlib
import os
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from exacthead.changes import own_folders, toplevel
from exacthead.errors import HarnessError
from exacthead.git import git_bytes, names
from exacthead.suites import in_suite, is_test
from exacthead.triage.known import FILE as KNOWN_FAILURES
from exacthead.workers.lock import lock_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exacthead.config import Harness
    from exacthead.tables import Worker

# What building or running leaves in a package's folder; never part of its content.
_LEFTOVERS = frozenset({"__pycache__", ".git"})
_BUILD_FOLDERS = frozenset({"build", "dist"})
_PROJECT = "pyproject.toml"


@dataclass(frozen=True)
class LocalPackage:
    """A folder of the repository that is built and installed: which of its files decide that.

    Those that git tracks or would track, without what changes nothing of a distribution: the files
    of the harness, the suites' test files. In a folder that git does not know (ignored as a whole,
    or in no checkout), all files. Byte code and untracked results of a build never count.

    It is built from a copy of just these, so that nothing else can get into it.

    Attributes:
        folder: with its pyproject.toml.
        harness: the declarations of its checkout; None for a folder by itself.
    """

    folder: Path
    harness: Harness | None = None

    def files(self) -> list[Path]:
        """The files and links that count, sorted."""
        listed = self._known_to_git()
        paths = everything(self.folder) if listed is None else listed
        return sorted(path for path in paths if not self._apart(path))

    def digest(self) -> str:
        """64 hexadecimal digits of them: each one's relative name, mode and content."""
        return _digest(self.folder, self.files())

    def copy(self, target: Path) -> str:
        """Copy them, and nothing else; returns the digest of what is in the copy."""
        target.mkdir()
        copied = []
        for path in self.files():
            place = target / path.relative_to(self.folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place, follow_symlinks=False)
            copied.append(place)
        return _digest(target, copied)

    def _known_to_git(self) -> list[Path] | None:
        """What git lists below the folder; None where it does not know the folder."""
        if not any((each / ".git").exists() for each in (self.folder, *self.folder.parents)):
            return None
        found = list(_listed(self.folder, self.harness.root if self.harness else None))
        return found if self.folder / _PROJECT in found else None

    def _apart(self, path: Path) -> bool:
        """Whether a file is the harness's business, and none of the distribution's."""
        harness = self.harness
        if harness is None or not path.is_relative_to(harness.root):
            return False
        relative = path.relative_to(harness.root).as_posix()
        ours = {"ci/harness.toml", harness.project.durations, KNOWN_FAILURES.as_posix()}
        if relative in ours or path.parent == lock_path(harness.root, "any").parent:
            return True
        helper = path.name == "conftest.py"
        return in_suite(harness, relative) and (helper or is_test(harness, relative))


def local_packages(harness: Harness, worker: Worker) -> dict[str, LocalPackage]:
    """The worker's local packages, sorted: the name that each has for installers -> its folder.

    Raises:
        HarnessError: a folder is no package, or two have one name.
    """
    found: dict[str, LocalPackage] = {}
    for entry in worker.local_packages:
        # Normal, since "." is the root itself.
        folder = harness.root.joinpath(*PurePosixPath(entry).parts)
        asked = f"local package {entry!r}"
        try:
            data = tomllib.loads((folder / _PROJECT).read_text(encoding="utf-8"))
            name = canonicalize_name(data["project"]["name"])
        except (FileNotFoundError, NotADirectoryError):
            raise HarnessError(
                asked, f"no {_PROJECT} in {folder}", "name the folder of a package"
            ) from None
        except (tomllib.TOMLDecodeError, KeyError) as error:
            raise HarnessError(
                asked,
                f"its pyproject.toml has no readable [project] name: {error}",
                "give it a [project] table with a name",
            ) from error
        if name in found:
            raise HarnessError(
                asked,
                f"{found[name].folder.relative_to(harness.root)} is called {name!r} as well",
                "keep one of the two",
            )
        found[name] = LocalPackage(folder, harness)
    return dict(sorted(found.items()))


def everything(folder: Path) -> Iterator[Path]:
    """The files and links of a folder, without byte code, .git and build results."""
    for path in folder.rglob("*"):
        if not _left_over(path, folder) and (path.is_symlink() or not path.is_dir()):
            yield path


def digest_folder(folder: Path) -> str:
    """64 hexadecimal digits of :func:`everything`: relative names, modes and contents."""
    return _digest(folder, sorted(everything(folder)))


def _left_over(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    return (
        not _LEFTOVERS.isdisjoint(parts)
        or parts[0] in _BUILD_FOLDERS
        or any(part.endswith(".egg-info") for part in parts)
    )


def _listed(folder: Path, root: Path | None) -> Iterator[Path]:
    """What git tracks or would track, in the checkouts inside this one too.

    Raises:
        HarnessError: git's own words.
    """
    hidden = own_folders(root, toplevel(folder)) if root else []
    excluded = ("--exclude-standard", *(f"--exclude={pattern}" for pattern in hidden))
    tracked = names(git_bytes(folder, "ls-files", "-z", "--cached"))
    others = names(git_bytes(folder, "ls-files", "-z", "--others", *excluded))
    paths = [folder / name for name in dict.fromkeys(tracked)]
    paths += [path for name in others if not _left_over(path := folder / name, folder)]
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            yield from _listed(path, root)
        elif "__pycache__" not in path.parts and (path.is_symlink() or path.exists()):
            yield path


def _digest(folder: Path, paths: Iterable[Path]) -> str:
    """Of the files' names relative to the folder, whose own name and place are not in it."""
    digest = hashlib.sha256()
    for path in paths:
        relative = path.relative_to(folder).as_posix()
        if path.is_symlink():
            kind, content = "link", hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        else:
            kind = "program" if os.access(path, os.X_OK) else "file"
            content = digest_file(path)
        # Neither a kind nor a digest holds a NUL, and no file name does: no two lists meet.
        digest.update(os.fsencode(f"{relative}\0{kind}\0{content}\0"))
    return digest.hexdigest()


def digest_file(path: Path) -> str:
    """64 hexadecimal digits of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
