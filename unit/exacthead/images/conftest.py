"""What the tests of images share that need no engine."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unit.exacthead.conftest import Repository


@pytest.fixture
def by_git() -> Callable[[Path, str], bytes]:
    """The archive of a commit as a person makes it, without any code of ours."""

    def archive(root: Path, commit: str = "HEAD") -> bytes:
        return subprocess.run(
            ["git", "-c", "tar.umask=0022", "archive", "--prefix=workspace/", commit],
            cwd=root,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
            capture_output=True,
            check=True,
        ).stdout

    return archive


@pytest.fixture
def names_in() -> Callable[[Path], dict[str, bytes]]:
    """The regular files in a tar, by name."""

    def read(path: Path) -> dict[str, bytes]:
        found = {}
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is not None:
                    found[member.name] = content.read()
        return found

    return read


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.fixture
def repository(empty_repository: Repository) -> Repository:
    empty_repository.commit({"a.py": "a = 1\n", "b/c.txt": "c\n"})
    return empty_repository
