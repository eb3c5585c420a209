"""The image of a head: an environment, and on it the head's own files."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from exacthead.images import head_layer
from exacthead.images.load import load
from exacthead.images.oci import CONTENT, CREATED, REVISION, SOURCE, ImageFile, timestamp
from exacthead.images.snapshot import check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.images.cache import Cache
    from exacthead.images.engine import Engine
    from exacthead.images.environment import Environment
    from exacthead.images.layer import Layer
    from exacthead.images.snapshot import Snapshot


def head_image(
    made_from: Snapshot, environment: Environment, head: Layer, source: str = ""
) -> ImageFile:
    """The image of a commit: its id is decided by the commit and the environment alone."""
    return compose(made_from, (*environment.layers, head), environment.labels, source)


def compose(
    made_from: Snapshot, layers: tuple[Layer, ...], labels: Mapping[str, str], source: str
) -> ImageFile:
    """The image of a commit on layers whose environment has ``labels``."""
    named = {CONTENT: made_from.commit} if made_from.dirty else {REVISION: made_from.commit}
    named |= {SOURCE: source} if source else {}
    return ImageFile(
        layers=layers,
        labels={**labels, **named, CREATED: timestamp(made_from.created)},
        created=made_from.created,
        folder=str(workspace(made_from.below)),
    )


def workspace(below: str = ".") -> PurePosixPath:
    """Where the repository's root lies in an image."""
    return PurePosixPath("/", head_layer.WORKSPACE, below)


def ensure_head(
    engine: Engine, cache: Cache, made_from: Snapshot, environment: Environment, source: str
) -> ImageFile:
    """The image of a commit in the engine; only the head's layer is sent, if need be.

    Raises:
        HarnessError: the commit cannot be in an image, or the engine does not take it.
    """
    check(made_from)
    with tempfile.TemporaryDirectory(dir=cache.work) as folder:
        head = head_layer.write(made_from, Path(folder) / "head.tar")
        image = head_image(made_from, environment, head, source)
        below = environment.file
        if engine.image(image.id) is None:
            load(engine, below, environment.tag)
        load(engine, image, tag_of(made_from), below=below.id)
    return image


def tag_of(made_from: Snapshot) -> str:
    """The name that people find the image by; nothing is decided by it."""
    return f"exacthead/head:{'dirty-' * made_from.dirty}{made_from.commit[:12]}"
