"""Tables of harness.toml that describe images: what they begin with, and what is in them."""

from __future__ import annotations

import re

from pydantic import Field, field_validator, model_validator

from exacthead.tables import Flavour, Table

_PINNED = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
_DIGEST = r"^sha256:[0-9a-f]{64}$"


class Base(Table):
    """What an image begins with: a public image pinned by digest, or a Debian made on this machine.

    ``image`` is a reference that ends in ``@sha256:...``. ``suite`` is a release of Debian that
    mmdebstrap makes from ``mirror`` (None: the one that this machine's apt has) with ``packages``;
    ``digest`` is what its layer must be, where that is known.
    """

    image: str | None = None
    suite: str | None = Field(default=None, pattern=r"^[a-z]+$")
    mirror: str | None = None
    packages: tuple[str, ...] = ()
    digest: str | None = Field(default=None, pattern=_DIGEST)

    @field_validator("image")
    @classmethod
    def _pinned(cls, image: str | None) -> str | None:
        if image is not None and not _PINNED.fullmatch(image):
            message = f"{image!r} is not pinned: a tag can move, so it must end in @sha256:..."
            raise ValueError(message)
        return image

    @model_validator(mode="after")
    def _one_kind(self) -> Base:
        if (self.image is None) == (self.suite is None):
            message = "a base has either an image or a suite"
            raise ValueError(message)
        if self.image is not None and (self.packages or self.digest):
            message = "packages and digest are for a base that is made here"
            raise ValueError(message)
        return self


class Image(Table):
    """An image of the head: its base, its workers, and the Dockerfile that puts them together.

    ``packages`` are Debian packages that the Dockerfile adds to the base.
    """

    base: str
    workers: tuple[str, ...]
    flavour: Flavour = "cpu"
    dockerfile: str = "containers/workers.Dockerfile"
    packages: tuple[str, ...] = ()
