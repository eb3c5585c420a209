"""Stages: what the Dockerfile of an image adds to its base, one stage at a time, in normal form."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.images import buildkit, normal, owner
from exacthead.images.base import mirror_of
from exacthead.images.box import BoxSpec, Limits, run_plain
from exacthead.images.load import load
from exacthead.images.oci import ENVIRONMENT, ImageFile
from exacthead.images.saved import saved_layers
from exacthead.workers.index import read_indexes
from exacthead.workers.interpreter import QUESTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.images.base import MadeBase
    from exacthead.images.cache import Cache
    from exacthead.images.engine import Engine
    from exacthead.images.layer import Layer
    from exacthead.images.tables import Image

# Enough for a question to an interpreter.
_SMALL = Limits(cpus=1, memory_gb=0.5, pids=64)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Stage:
    """One stage to be built.

    Attributes:
        target: its name in the Dockerfile.
        below: how many of the image's layers are not its own.
        made_by: what its layers are, for people.
        context: the folder that its steps can look into.
        secrets: files that its steps may read, by id.
        deadline_s: seconds after which its build is ended.
    """

    target: str
    below: int
    made_by: str
    context: Path
    secrets: Mapping[str, Path] = field(default_factory=dict)
    deadline_s: float = buildkit.DEADLINE_S


@dataclass(frozen=True)
class Stages:
    """The Dockerfile of one image, on one base.

    Attributes:
        name: the image's.
        image: its declaration.
        dockerfile: the file.
        base: what it begins with.
        minors: the minor versions of Python that it must have, oldest first.
        cache: where layers are kept.
        engine: where it is built.
        fresh: whether earlier builds count for nothing.
    """

    name: str
    image: Image
    dockerfile: Path
    base: MadeBase
    minors: tuple[str, ...]
    cache: Cache
    engine: Engine
    fresh: bool = False

    def build(self, stage: Stage) -> tuple[str, list[Layer], int]:
        """Build a stage: the built image, the stage's own layers, and how many it has in all.

        Raises:
            HarnessError: it failed, or did not begin with the base.
        """
        below = ImageFile(self.base.layers, {ENVIRONMENT: f"base {self.base.key}"})
        tag = f"exacthead/base:{below.id.removeprefix('sha256:')[:32]}"
        load(self.engine, below, tag)
        log = self.cache.log(stage.target, f"{self.name}-{self.base.key}")
        log.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            order = buildkit.BuildOrder(
                dockerfile=self.dockerfile,
                context=stage.context,
                target=stage.target,
                arguments={
                    "BASE": tag,
                    "PACKAGES": " ".join(self.image.packages),
                    "PYTHONS": " ".join(self.minors),
                },
                secrets={**self._secrets(Path(folder)), **stage.secrets},
                fresh=self.fresh,
                deadline_s=stage.deadline_s,
            )
            built = buildkit.build(self.engine, order, log)
        layers, count = self._own_layers(built, stage)
        return built, layers, count

    def _secrets(self, folder: Path) -> dict[str, Path]:
        """This machine's certificates, and where the packages on a base made here come from."""
        bundle = dict(read_indexes(os.environ).passed).get("SSL_CERT_FILE")
        secrets = {"certificates": Path(bundle)} if bundle else {}
        declared = self.base.declared
        if declared.suite and self.image.packages:
            # Its address may hold credentials, so the base itself does not say it.
            secrets["mirror"] = folder / "mirror"
            secrets["mirror"].touch(mode=0o600)
            line = f"deb {mirror_of(declared)} {declared.suite} main\n"
            secrets["mirror"].write_text(line, encoding="utf-8")
        return secrets

    def interpreters(self, image: str) -> dict[str, dict[str, str]]:
        """What the Python of each minor version in a built image says of itself.

        Raises:
            HarnessError: there is none of a minor version.
        """
        said = {}
        for minor in self.minors:
            name = f"python{minor}"
            spec = BoxSpec(
                image=image,
                command=("sh", "-c", 'exec "$(command -v "$0")" -I -S -c "$1"', name, QUESTION),
                owner=owner.this(),
                limits=_SMALL,
                environment={"PATH": _PATH, "LC_ALL": "C.UTF-8"},
            )
            try:
                answer, _ = run_plain(self.engine, spec)
            except HarnessError as error:
                raise HarnessError(
                    f"Python {minor} in the image {self.name}",
                    error.found,
                    f"add {name} to `packages` of its base or of itself",
                ) from error
            said[minor] = json.loads(answer)
        return said

    def discard(self, built: str) -> None:
        """Take a built image out of the engine; BuildKit's own cache keeps what it is made of."""
        facts = self.engine.image(built)
        if facts is not None and not facts.tags:
            self.engine.remove_image(built)

    def _own_layers(self, built: str, stage: Stage) -> tuple[list[Layer], int]:
        facts = self.engine.image(built)
        known = tuple(layer.diff_id for layer in self.base.layers)
        if facts is None or facts.layers[: len(known)] != known:
            raise HarnessError(
                f"an image on the base {known}",
                f"it has the layers {facts.layers if facts else 'of no image'}",
                "mend the Dockerfile: it must begin with `FROM ${BASE}`",
            )
        layers = []
        with tempfile.TemporaryDirectory(dir=self.cache.work) as folder:
            place = Path(folder)
            for number, path in enumerate(saved_layers(self.engine.save(built), place)):
                if number >= stage.below:
                    target = place / f"normal-{number}.tar"
                    with path.open("rb") as file:
                        layer = normal.normalise(file, target, stage.made_by)
                    layers += [self.cache.keep(layer)] if layer else []
                path.unlink()
        return layers, len(facts.layers)
