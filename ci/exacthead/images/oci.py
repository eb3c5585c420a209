"""An image as documents: configuration, manifest and index, and the archive that carries them.

https://github.com/opencontainers/image-spec (config.md, manifest.md, image-layout.md). An archive
is an OCI layout in a tar, as skopeo reads it, with the ``manifest.json`` beside it that
``docker load`` wants. Its bytes are decided by the image alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError
from exacthead.images.layer import plain_member

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import IO

    from exacthead.images.layer import Layer

_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
REVISION = "org.opencontainers.image.revision"
SOURCE = "org.opencontainers.image.source"
CREATED = "org.opencontainers.image.created"
# Ours: the key of the environment, the workers in it, and what a dirty checkout holds.
ENVIRONMENT = "exacthead.environment"
WORKERS = "exacthead.workers"
CONTENT = "exacthead.content"
PYTHONS = "exacthead.pythons"
# For a person who starts the image by hand; items are given their whole environment.
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Document:
    """JSON in the one form that it is hashed in."""

    text: bytes

    @classmethod
    def of(cls, data: Any) -> Document:
        """The document of ``data``: sorted keys, no spaces."""
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return cls(text.encode())

    @property
    def digest(self) -> str:
        """``sha256:`` and its digest."""
        return f"sha256:{hashlib.sha256(self.text).hexdigest()}"

    def described(self, kind: str) -> dict[str, object]:
        """What points at it in another document."""
        return {"mediaType": kind, "digest": self.digest, "size": len(self.text)}


@dataclass(frozen=True)
class ImageFile:
    """Everything that an image is.

    Attributes:
        layers: bottom first; the head is the last.
        labels: what they say is for people; nothing is decided by them.
        created: seconds since the epoch: the head's date, never the time of a build.
        folder: the working folder.
        architecture: as Go names it.
    """

    layers: tuple[Layer, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    created: int = 0
    folder: str = "/"
    architecture: str = "amd64"

    @property
    def config(self) -> Document:
        """The configuration, whose digest is the image's id."""
        when = timestamp(self.created)
        return Document.of(
            {
                "architecture": self.architecture,
                "config": {
                    "Env": [_PATH],
                    "Labels": dict(self.labels),
                    "WorkingDir": self.folder,
                },
                "created": when,
                # How a layer came about differs where its content does not (a mirror's address).
                "history": [{"created": when} for _ in self.layers],
                "os": "linux",
                "rootfs": {"diff_ids": [layer.diff_id for layer in self.layers], "type": "layers"},
            }
        )

    @property
    def id(self) -> str:
        """The image's id: the digest of its configuration."""
        return self.config.digest

    @property
    def manifest(self) -> Document:
        """The manifest over layers that are not compressed."""
        return Document.of(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": self.config.described(_CONFIG),
                "layers": [
                    {"mediaType": _LAYER, "digest": layer.diff_id, "size": layer.size}
                    for layer in self.layers
                ],
            }
        )


def timestamp(seconds: int) -> str:
    """A point in time as images say it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_archive(
    image: ImageFile, target: IO[bytes], *, name: str = "", without: Collection[str] = ()
) -> None:
    """Write an image as an archive.

    Args:
        image: the image.
        target: where to; it need not be seekable.
        name: the tag that the archive gives it, ``repository:tag``; none by default.
        without: digests of layers that are left out, since the engine has them already; such an
            archive is for that engine alone.

    Raises:
        HarnessError: a layer that is needed has no file here, or it has changed there.
    """
    index: dict[str, Any] = {
        "schemaVersion": 2,
        "manifests": [image.manifest.described(_MANIFEST)],
    }
    if name:
        index["manifests"][0]["annotations"] = {
            "org.opencontainers.image.ref.name": name.rpartition(":")[2],
            "io.containerd.image.name": name,
        }
    documents = {
        "oci-layout": Document.of({"imageLayoutVersion": "1.0.0"}).text,
        "index.json": Document.of(index).text,
        "manifest.json": Document.of(
            [
                {
                    "Config": _blob(image.id),
                    "RepoTags": [name] if name else None,
                    "Layers": [_blob(layer.diff_id) for layer in image.layers],
                }
            ]
        ).text,
        _blob(image.id): image.config.text,
        _blob(image.manifest.digest): image.manifest.text,
    }
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path, data in documents.items():
            archive.addfile(plain_member(path, len(data)), io.BytesIO(data))
        for digest, layer in {layer.diff_id: layer for layer in image.layers}.items():
            if digest not in without:
                _add(archive, layer)


def _add(archive: tarfile.TarFile, layer: Layer) -> None:
    if layer.path is None:
        raise HarnessError(
            f"the layer {layer.diff_id} ({layer.made_by})",
            "its file is not in the cache",
            "build the environment again: ./noxw -s images -- --rebuild",
        )
    with layer.path.open("rb") as file:
        archive.addfile(plain_member(_blob(layer.diff_id), layer.size), file)


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"
