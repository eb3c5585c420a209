"""Archives: an image as one file for another machine, and such a file checked and taken in.

The file is an OCI layout in a tar. Every blob in it is named by its digest, and every digest is
recomputed before anything gets to the engine.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError
from exacthead.images import head_layer
from exacthead.images.layer import Layer
from exacthead.images.load import load
from exacthead.images.oci import ImageFile, write_archive
from exacthead.images.snapshot import check

if TYPE_CHECKING:
    from exacthead.images.cache import Cache
    from exacthead.images.engine import Engine
    from exacthead.images.environment import Environment
    from exacthead.images.snapshot import Snapshot

_TODO = "export it again, and compare the digests of both files"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Exported:
    """An archive that was written: the image's id, the digest of its manifest, its bytes."""

    image: str
    digest: str
    size: int


def export(
    made_from: Snapshot, environment: Environment, source: str, target: Path, work: Path
) -> Exported:
    """Write the image of a commit as an archive; equal images are equal bytes.

    Raises:
        HarnessError: the commit cannot be in an image, or the archive cannot be written; nothing is
            left there then.
    """
    from exacthead.images.head import head_image, tag_of

    check(made_from)
    partial = target.with_name(f"{target.name}.partial")
    with tempfile.TemporaryDirectory(dir=work) as folder:
        head = head_layer.write(made_from, Path(folder) / "head.tar")
        image = head_image(made_from, environment, head, source)
        try:
            with partial.open("wb") as file:
                write_archive(image, file, name=tag_of(made_from))
            partial.replace(target)
        except OSError as error:
            raise HarnessError(f"the archive {target}", str(error), "make room there") from error
        finally:
            partial.unlink(missing_ok=True)
    return Exported(image.id, image.manifest.digest, target.stat().st_size)


def take_in(archive: Path, engine: Engine, cache: Cache) -> str:
    """Check an archive and load its image; returns the id.

    Raises:
        HarnessError: it is no such archive, a digest in it is wrong, or the engine refuses it.
    """
    with tempfile.TemporaryDirectory(dir=cache.work) as folder:
        image = read_archive(archive, Path(folder))
        load(engine, image, f"exacthead/imported:{image.id.removeprefix('sha256:')[:12]}")
    return image.id


def read_archive(archive: Path, folder: Path) -> ImageFile:
    """The image in an archive, its layers unpacked into ``folder``, all digests checked.

    Raises:
        HarnessError: naming what is wrong.
    """
    asked = f"the archive {archive}"
    blobs: dict[str, Path] = {}
    index: dict[str, Any] = {}
    try:
        with tarfile.open(archive, "r:") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content is None:
                    continue
                if member.name == "index.json":
                    index = json.loads(content.read())
                elif member.name.startswith("blobs/sha256/"):
                    digest = f"sha256:{member.name.rpartition('/')[2]}"
                    path = folder / f"{len(blobs)}.blob"
                    with path.open("wb") as file:
                        shutil.copyfileobj(content, file, _CHUNK)
                    with path.open("rb") as file:
                        found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
                    if found != digest:
                        raise HarnessError(
                            f"{asked}, blob {digest}", f"its digest is {found}", _TODO
                        )
                    blobs[digest] = path
        (described,) = index["manifests"]
        manifest = json.loads(blobs[described["digest"]].read_bytes())
        config_text = blobs[manifest["config"]["digest"]].read_bytes()
        config = json.loads(config_text)
        layers = tuple(
            Layer(each["digest"], each["size"], blobs[each["digest"]], "an archive")
            for each in manifest["layers"]
        )
        image = ImageFile(
            layers=layers,
            labels=config["config"].get("Labels") or {},
            created=_seconds(config["created"]),
            folder=config["config"].get("WorkingDir") or "/",
            architecture=config["architecture"],
        )
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise HarnessError(
            asked, f"no OCI archive of ours: {type(error).__name__}: {error}", _TODO
        ) from error
    if image.config.text != config_text:
        raise HarnessError(
            f"{asked} with image {image.id}, which its layers and labels make",
            f"its configuration is {manifest['config']['digest']}",
            "it was not written by this harness, or was changed; build the image here",
        )
    return image


def _seconds(stamp: str) -> int:
    from datetime import datetime

    return int(datetime.fromisoformat(stamp).timestamp())
