"""The head layer: the raw ``git archive`` of a commit, whose digest can be told from git alone.

Equal commits give equal bytes on every machine, whatever git is configured with there: it is
archived through a repository of our own that has no settings, and lends nothing but objects. That
repository also switches off ``export-ignore``, which would leave files out without a word, and
``export-subst``, which would write the names of branches into them.

In a repository without such attributes it is the same as
``git -c tar.umask=0022 archive --prefix=workspace/ COMMIT``.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.images.layer import Layer
from exacthead.images.snapshot import alternates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.images.snapshot import Snapshot

# Where the head lies in an image.
WORKSPACE = "workspace"
_CHUNK = 1 << 20


def diff_id(made_from: Snapshot) -> str:
    """The digest that the head layer of a commit must have, recomputed from git's objects."""
    digest = hashlib.sha256()
    with _archive(made_from) as stream:
        while data := stream.read(_CHUNK):
            digest.update(data)
    return f"sha256:{digest.hexdigest()}"


def write(made_from: Snapshot, path: Path) -> Layer:
    """Write the head layer of a commit to ``path``.

    Raises:
        HarnessError: git cannot archive it, or it cannot be written.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("wb") as file, _archive(made_from) as stream:
            while data := stream.read(_CHUNK):
                digest.update(data)
                size += file.write(data)
    except OSError as error:
        raise HarnessError(
            f"the head layer of {made_from} in {path}", str(error), "make room there"
        ) from error
    return Layer(f"sha256:{digest.hexdigest()}", size, path, f"git archive {made_from.commit}")


@contextmanager
def _archive(made_from: Snapshot) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryDirectory(prefix="exacthead-archive-") as folder:
        repository = _bare(Path(folder), made_from)
        kept = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
        environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "GIT_DIR": str(repository),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": alternates(made_from.objects),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "LC_ALL": "C",
        }
        command = ["git", "-c", "tar.umask=0022", "-c", f"core.attributesFile={os.devnull}"]
        command += ["archive", "--format=tar", f"--prefix={WORKSPACE}/", made_from.commit]
        with (
            tempfile.TemporaryFile() as said,
            subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=said,
            ) as process,
        ):  # fmt: skip
            if process.stdout is None:
                raise HarnessError("git archive", "no pipe to it", "report this fault")
            yield process.stdout
            process.stdout.close()
            if process.wait() != 0:
                said.seek(0)
                raise HarnessError(
                    f"git archive {made_from.commit}",
                    said.read().decode(errors="replace").strip() or f"exit code {process.wait()}",
                    "git fsck; a partial clone has to fetch its objects first",
                )


def _bare(folder: Path, made_from: Snapshot) -> Path:
    """A repository without settings; one of SHA-256 has to say so."""
    for below in ("objects", "refs", "info"):
        (folder / below).mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
    attributes = "* -export-ignore -export-subst\n"
    (folder / "info" / "attributes").write_text(attributes, encoding="ascii")
    settings = "[core]\n\tbare = true\n\trepositoryformatversion = "
    long = len(made_from.commit) > len(hashlib.sha1(usedforsecurity=False).hexdigest())
    settings += "1\n[extensions]\n\tobjectFormat = sha256\n" if long else "0\n"
    (folder / "config").write_text(settings, encoding="ascii")
    return folder
