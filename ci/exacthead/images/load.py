"""Load: bring an image into the engine, without the layers that it has already."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.images.oci import write_archive

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from exacthead.images.engine import Engine
    from exacthead.images.oci import ImageFile

_CHUNK = 1 << 20


def load(engine: Engine, image: ImageFile, name: str = "", *, below: str = "") -> None:
    """Make sure that the engine has ``image``, and nothing else under its id.

    Args:
        engine: the engine.
        image: the image.
        name: a tag for people, ``repository:tag``.
        below: the id of an image that the engine has, whose layers this one begins with; those are
            not sent again.

    Raises:
        HarnessError: it cannot be loaded, or the engine has made another image of it.
    """
    if engine.architecture != image.architecture:
        raise HarnessError(
            f"image {image.id[:19]} of {image.architecture}",
            f"the engine at {engine.host} is of {engine.architecture or 'no known architecture'}",
            "use an engine on a machine of that architecture",
        )
    if engine.image(image.id) is None:
        known = engine.image(below) if below and engine.takes_parts else None
        without = known.layers if known else ()
        if tuple(layer.diff_id for layer in image.layers[: len(without)]) != without:
            without = ()
        engine.load(_stream(image, name, without), f"load image {image.id[:19]}")
        if (found := engine.image(image.id)) is None:
            raise HarnessError(
                f"image {image.id}",
                "the engine has loaded it under another id",
                "choose an engine whose image ids are digests of configurations",
            )
        expected = tuple(layer.diff_id for layer in image.layers)
        if found.layers != expected:
            raise HarnessError(
                f"image {image.id} with layers {expected}", f"layers {found.layers}", "load again"
            )
    if name:
        engine.tag(image.id, name)


def _stream(image: ImageFile, name: str, without: Collection[str]) -> Iterator[bytes]:
    """The archive in pieces, written by another thread as it is read."""
    reading, writing = os.pipe()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            with os.fdopen(writing, "wb", buffering=_CHUNK) as target:
                write_archive(image, target, name=name, without=without)
        except BrokenPipeError:
            return  # the engine has had enough; it says why
        except (HarnessError, OSError) as error:
            failed.append(error)

    writer = threading.Thread(target=write, name="archive", daemon=True)
    writer.start()
    with os.fdopen(reading, "rb", buffering=0) as source:
        while data := source.read(_CHUNK):
            yield data
    writer.join()
    if failed:
        raise failed[0]
