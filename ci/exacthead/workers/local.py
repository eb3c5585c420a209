"""Local packages: folders of the repository that are built into a worker, by their content."""

from __future__ import annotations

import hashlib
import os
import shutil
import tomllib
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exacthead.config import Worker

# What building or running leaves in a package's folder; never part of its content.
_LEFTOVERS = frozenset({"__pycache__", ".git"})
_BUILD_FOLDERS = frozenset({"build", "dist"})


def local_packages(root: Path, worker: Worker) -> dict[str, Path]:
    """The worker's local packages, sorted: the name that each has for installers -> its folder.

    Raises:
        HarnessError: a folder is no package, or two have one name.
    """
    found: dict[str, Path] = {}
    for entry in worker.local_packages:
        folder = root / entry
        asked = f"local package {entry!r}"
        try:
            data = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
            name = canonicalize_name(data["project"]["name"])
        except (FileNotFoundError, NotADirectoryError):
            raise HarnessError(
                asked, f"no pyproject.toml in {folder}", "name the folder of a package"
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
                f"{found[name].relative_to(root)} is called {name!r} as well",
                "keep one of the two",
            )
        found[name] = folder
    return dict(sorted(found.items()))


def package_files(folder: Path) -> Iterator[Path]:
    """The files and links of a local package, sorted, without byte code, .git and build results."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        leftover = (
            not _LEFTOVERS.isdisjoint(parts)
            or parts[0] in _BUILD_FOLDERS
            or any(part.endswith(".egg-info") for part in parts)
        )
        if not leftover and (path.is_symlink() or not path.is_dir()):
            yield path


def digest_folder(folder: Path) -> str:
    """64 hexadecimal digits of a local package: each file's relative name, mode and content.

    The folder's own name and place are not in it.
    """
    digest = hashlib.sha256()
    for path in package_files(folder):
        relative = path.relative_to(folder).as_posix()
        if path.is_symlink():
            kind, content = "link", hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        else:
            kind = "program" if os.access(path, os.X_OK) else "file"
            content = digest_file(path)
        # Neither a kind nor a digest holds a NUL, and no file name does: no two lists meet.
        digest.update(os.fsencode(f"{relative}\0{kind}\0{content}\0"))
    return digest.hexdigest()


def copy_package(folder: Path, target: Path) -> None:
    """Copy what :func:`digest_folder` looks at, and nothing else."""
    target.mkdir()
    for path in package_files(folder):
        place = target / path.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place, follow_symlinks=False)


def digest_file(path: Path) -> str:
    """64 hexadecimal digits of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
