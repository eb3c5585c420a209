"""Environments: base, system packages and workers as layers, named by all that decides them.

The key is the digest of the base's layers, of the Dockerfile and what it is given, and of the keys
of the workers. It is known before anything is built, and what has one key is built once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exacthead.bootstrap import PinnedUv, pinned_uv
from exacthead.errors import HarnessError
from exacthead.images import buildkit, normal
from exacthead.images.base import ensure_base
from exacthead.images.context import ROOT, write_context
from exacthead.images.interpreters import described, read_interpreters
from exacthead.images.oci import ENVIRONMENT, PYTHONS, WORKERS, ImageFile
from exacthead.images.stages import Stage, Stages
from exacthead.workers.index import Indexes, read_indexes
from exacthead.workers.resolve import resolve
from exacthead.workers.store import BUILD_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exacthead.config import Harness
    from exacthead.images.cache import Cache
    from exacthead.images.engine import Engine
    from exacthead.images.layer import Layer
    from exacthead.workers.spec import Interpreter, Spec

SYSTEM, _ENVIRONMENT = "system", "environment"


@dataclass(frozen=True)
class Environment:
    """An environment that is ready.

    Attributes:
        key: the digest of all that decides it.
        layers: of base, system and workers, bottom first.
        specs: of the workers in it, by name.
        interpreters: the Pythons in it, by minor version.
        built: whether this call has built it.
    """

    key: str
    layers: tuple[Layer, ...]
    specs: Mapping[str, Spec]
    interpreters: Mapping[str, Interpreter]
    built: bool = False

    @property
    def python(self) -> str:
        """The newest Python in it, on which the harness's own part in a container runs."""
        newest = max(self.interpreters, key=lambda minor: int(minor.partition(".")[2]))
        return str(self.interpreters[newest].path)

    @property
    def labels(self) -> dict[str, str]:
        """What an image says of the environment in it."""
        pythons = described(self.interpreters)
        workers = {name: spec.key for name, spec in sorted(self.specs.items())}
        return {
            ENVIRONMENT: self.key,
            WORKERS: json.dumps(workers, sort_keys=True),
            PYTHONS: json.dumps(pythons, sort_keys=True),
        }

    @property
    def file(self) -> ImageFile:
        """The environment as an image of its own, without any head."""
        return ImageFile(self.layers, self.labels)

    @property
    def tag(self) -> str:
        """The name that this image has in an engine."""
        return f"exacthead/environment:{self.key[:32]}"

    def worker(self, name: str) -> str:
        """The path of a worker's interpreter in the image."""
        return worker_python(self.specs[name].key)


@dataclass(frozen=True)
class Making:
    """What making environments needs.

    Attributes:
        harness: the declarations.
        cache: where layers are kept.
        engine: where it is built.
        say: is told what takes long.
        fresh: whether earlier builds and the cache count for nothing.
        base: the name of another base than the image declares.
        home: the checkout in whose cache uv is kept; the declarations' own by default.
    """

    harness: Harness
    cache: Cache
    engine: Engine
    say: Callable[[str], None]
    fresh: bool = False
    base: str = ""
    home: Path | None = None

    def ensure(self, name: str) -> Environment:
        """The environment of a declared image, built unless it is ready.

        Raises:
            HarnessError: it cannot be built; nothing half-built is left.
        """
        image = self.harness.image(name)
        declared = self.harness.base(self.base or image.base)
        base = ensure_base(declared, self.cache, self.engine, self.say)
        minors = {self.harness.worker(worker).python for worker in image.workers}
        stages = Stages(
            name=name,
            image=image,
            dockerfile=self.harness.root / image.dockerfile,
            base=base,
            minors=tuple(sorted(minors, key=lambda minor: int(minor.partition(".")[2]))),
            cache=self.cache,
            engine=self.engine,
            fresh=self.fresh,
        )
        uv = pinned_uv(self.harness.root, self.home)
        system = self._system(stages, uv)
        specs = {
            worker: image_spec(self.harness, worker, image.flavour, system.interpreters)
            for worker in image.workers
        }
        key = environment_key(system.key, specs, uv.version)
        pythons = system.interpreters
        found = None if self.fresh else self.cache.read(_ENVIRONMENT, key)
        if found:
            return Environment(key, tuple(found[0]), specs, pythons)
        with self.cache.building(_ENVIRONMENT, key):
            found = None if self.fresh else self.cache.read(_ENVIRONMENT, key)
            if found:
                return Environment(key, tuple(found[0]), specs, pythons)
            self.say(f"image {name}: environment {key[:12]} is built now")
            layers = [*system.layers, *self._workers(stages, system, specs, uv.path)]
            self.cache.write(
                _ENVIRONMENT,
                key,
                layers,
                {"image": name, "workers": {worker: spec.key for worker, spec in specs.items()}},
            )
        return Environment(key, tuple(layers), specs, pythons, built=True)

    def _system(self, stages: Stages, uv: PinnedUv) -> System:
        """Base and system packages, and the Pythons in them."""
        base = stages.base
        buildkit.check_dockerfile(stages.dockerfile)
        decided = {
            "normal": normal.VERSION,
            "base": [layer.diff_id for layer in base.layers],
            "dockerfile": hashlib.sha256(stages.dockerfile.read_bytes()).hexdigest(),
            "packages": list(stages.image.packages),
            "minors": stages.minors,
            "uv": uv.version,
        }
        key = hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()
        found = None if self.fresh else self.cache.read(SYSTEM, key)
        if found is None:
            with self.cache.building(SYSTEM, key):
                found = None if self.fresh else self.cache.read(SYSTEM, key)
                found = found or self._build_system(stages, uv, key)
        interpreters = read_interpreters(found[1]["interpreters"])
        return System(key, tuple(found[0]), interpreters, found[1]["count"])

    def _build_system(
        self, stages: Stages, uv: PinnedUv, key: str
    ) -> tuple[list[Layer], dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(uv.path, Path(folder) / "uv")
            stage = Stage("system", len(stages.base.layers), "system packages", Path(folder))
            built, own, count = stages.build(stage)
        layers = [*stages.base.layers, *own]
        facts: dict[str, Any] = {"interpreters": stages.interpreters(built), "count": count}
        stages.discard(built)
        self.cache.write(SYSTEM, key, layers, facts)
        return layers, facts

    def _workers(
        self, stages: Stages, system: System, specs: Mapping[str, Spec], uv: Path
    ) -> list[Layer]:
        """The layers of the workers alone."""
        with tempfile.TemporaryDirectory(dir=self.cache.work) as folder:
            indexes = read_indexes(os.environ)
            context = write_context(self.harness, specs, indexes, uv, Path(folder))
            stage = Stage(
                "workers",
                system.count,
                "workers",
                context.folder,
                context.secrets,
                # They are built in one step, and each has as long as outside.
                deadline_s=buildkit.DEADLINE_S + BUILD_S * len(specs),
            )
            built, layers, _ = stages.build(stage)
            stages.discard(built)
            return layers


@dataclass(frozen=True)
class System:
    """Base and system packages: key, layers, and the Pythons in them by minor version.

    ``count`` is the number of layers that the build made of them, empty ones included.
    """

    key: str
    layers: tuple[Layer, ...]
    interpreters: Mapping[str, Interpreter]
    count: int


def image_spec(
    harness: Harness, name: str, flavour: str, interpreters: Mapping[str, Interpreter]
) -> Spec:
    """The spec of a worker in an image: that of outside, on the image's own interpreter.

    Folders of this machine, from which distributions could be swapped, are not in an image.
    """
    worker = harness.worker(name)
    if worker.provided is not None:
        raise HarnessError(
            f"worker {name!r} in an image",
            f"it is provided: {worker.provided}",
            "take it out of the image's `workers`, or declare it as one that is built",
        )
    interpreter = interpreters[worker.python]
    return resolve(harness, name, flavour, indexes=Indexes(), interpreter=interpreter)


def environment_key(system: str, specs: Mapping[str, Spec], uv: str) -> str:
    """The digest of all that decides an environment."""
    decided = {
        "system": system,
        "workers": sorted(spec.key for spec in specs.values()),
        "uv": uv,
        "root": ROOT,
        "normal": normal.VERSION,
    }
    return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()


def worker_python(key: str) -> str:
    """The path of the interpreter of a worker in an image."""
    return f"{ROOT}/workers/{key[:32]}/bin/python"


@dataclass(frozen=True)
class Claimed:
    """What an image says of its environment: key, layers, Pythons by minor version, worker keys."""

    key: str
    layers: tuple[Layer, ...]
    pythons: Mapping[str, Mapping[str, Any]]
    workers: Mapping[str, str]

    def checked(self, harness: Harness, flavour: str) -> Environment:
        """The environment, if its workers are those that the head asks for.

        Raises:
            HarnessError: a worker in it is another than the head declares and locks.
        """
        interpreters = read_interpreters(self.pythons)
        specs = {}
        for name, found in self.workers.items():
            spec = image_spec(harness, name, flavour, interpreters)
            if spec.key != found:
                raise HarnessError(
                    f"worker {name!r} of key {spec.key[:12]} in the image",
                    f"it has one of key {found[:12]}: another lock, declaration or flavour",
                    "build the image again: ./noxw -s images",
                )
            specs[name] = spec
        return Environment(self.key, self.layers, specs, interpreters)
