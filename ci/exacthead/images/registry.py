"""Registries: images go there and come back by digest; a tag is only how they travel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from exacthead.images.engine import Engine

_REACH = "see whether the registry is reachable and you are logged in (docker login)"


def push(engine: Engine, image: str, repository: str) -> str:
    """Push an image; returns the ``repository@sha256:...`` that it can be pulled by.

    Raises:
        HarnessError: the registry or the engine refused, at whatever point.
    """
    if "@" in repository or ":" in repository.rpartition("/")[2]:
        raise HarnessError(
            f"push to {repository!r}", "a tag or a digest", "name the repository alone"
        )
    name = f"{repository}:{image.removeprefix('sha256:')[:32]}"
    engine.tag(image, name)
    try:
        digest = engine.push(name, _REACH)
    finally:
        facts = engine.image(image)
        # An image goes with the last of its names.
        if facts is not None and len(facts.tags) > 1:
            engine.remove_image(name)
    return f"{repository}@{digest}"


def pull(engine: Engine, reference: str) -> str:
    """Pull an image by its digest; returns its id.

    Raises:
        HarnessError: no digest was named, or the registry has not got it.
    """
    if "@sha256:" not in reference:
        raise HarnessError(
            f"pull {reference!r}", "a name that can move", "name it by digest: ...@sha256:..."
        )
    engine.pull(reference, _REACH)
    facts = engine.image(reference)
    if facts is None:
        raise HarnessError(f"pull {reference}", "the engine has not got it after that", _REACH)
    return facts.id
