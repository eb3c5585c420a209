"""The command ``images``: build the images of the head, look at them, ship them, clean up."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.equip import resolve_all
from exacthead.errors import HarnessError
from exacthead.images import archive, registry, share
from exacthead.images.collect import collect
from exacthead.images.engine import Engine
from exacthead.images.environment import Making
from exacthead.images.head import ensure_head
from exacthead.images.plan import describe
from exacthead.images.reaper import reap
from exacthead.images.snapshot import snapshot
from exacthead.images.verify import Verifier
from exacthead.images.where import open_cache
from exacthead.workers.explain import explain

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from exacthead.config import Harness
    from exacthead.images.cache import Cache
    from exacthead.images.environment import Environment
    from exacthead.images.oci import ImageFile

_GB = 1e9


def images(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Do what the options ask for; without one, build."""
    cache = open_cache(harness.root)
    if arguments.plan:
        plans = [
            describe(harness, name, cache, arguments.base_image)
            for name in _names(harness, arguments)
        ]
        console.out(json.dumps(plans, indent=2))
        return 0
    if arguments.save_cache:
        console.out(f"{len(share.save(cache, Path(arguments.save_cache)))} layers saved")
        return 0
    if arguments.load_cache:
        for line in share.load(cache, Path(arguments.load_cache)):
            console.out(f"ready: {line}")
        return 0
    with closing(Engine()) as engine:
        for line in reap(engine):
            console.out(f"exacthead: {line}")
        if arguments.reap:
            return 0
        return _Session(harness, engine, cache, arguments, console).run()


class _Session:
    """One call of the command, with an engine."""

    def __init__(
        self, harness: Harness, engine: Engine, cache: Cache, arguments: Namespace, console: Console
    ) -> None:
        self.harness, self.engine, self.cache = harness, engine, cache
        self.arguments, self.console = arguments, console

    def run(self) -> int:
        asked = self.arguments
        if asked.list:
            self._list()
        elif asked.gc is not None:
            self._collect(asked.gc)
        elif asked.verify:
            self._verify(asked.verify)
        elif asked.import_:
            image = archive.take_in(Path(asked.import_), self.engine, self.cache)
            self.console.out(f"image {image}")
        elif asked.pull:
            self.console.out(f"image {registry.pull(self.engine, asked.pull)}")
        elif asked.explain:
            self._explain()
        else:
            self._make()
        return 0

    def _make(self) -> None:
        asked = self.arguments
        names = _names(self.harness, asked)
        if (asked.export or asked.push) and len(names) != 1:
            raise HarnessError(
                "ship an image", f"{len(names)} images: {', '.join(names)}", "name exactly one"
            )
        with snapshot(self.harness.root, dirty=asked.dirty) as made_from:
            source = self.harness.project.source
            for name in names:
                environment = self._environment(name)
                if asked.export:
                    target = Path(asked.export)
                    done = archive.export(made_from, environment, source, target, self.cache.work)
                    self.console.out(f"image {name}: {done.image}")
                    self.console.out(f"{target}: {done.digest}, {done.size / _GB:.3f} GB")
                    continue
                image = ensure_head(self.engine, self.cache, made_from, environment, source)
                verifier = Verifier(self.harness, self.engine, self.cache)
                found = verifier.verify(image.id, made_from, flavour=asked.flavour)
                self._tell(name, environment, image, str(made_from))
                if asked.push:
                    self.console.out(registry.push(self.engine, found.id, asked.push))

    def _environment(self, name: str) -> Environment:
        asked = self.arguments

        def say(line: str) -> None:
            self.console.out(f"exacthead: {line}")

        making = Making(
            self.harness, self.cache, self.engine, say, fresh=asked.rebuild, base=asked.base_image
        )
        return making.ensure(name)

    def _tell(self, name: str, environment: Environment, image: ImageFile, head: str) -> None:
        how = "built" if environment.built else "reused"
        self.console.out(f"image {name} of {head}: {image.id}")
        self.console.out(f"  environment {environment.key[:12]} {how}")
        for worker, spec in environment.specs.items():
            for note in spec.notes:
                self.console.out(f"  worker {worker} {note}")

    def _verify(self, reference: str) -> None:
        with snapshot(self.harness.root, dirty=self.arguments.dirty) as made_from:
            verifier = Verifier(self.harness, self.engine, self.cache)
            found = verifier.verify(reference, made_from, flavour=self.arguments.flavour)
            self.console.out(f"{reference}: {found.id} is that of {made_from}")
            for note in found.notes:
                self.console.out(f"  {note}")

    def _explain(self) -> None:
        """How each worker in an image differs from the same one outside."""
        for name in _names(self.harness, self.arguments):
            environment = self._environment(name)
            outside = resolve_all(self.harness, environment.specs, self.arguments.flavour)
            for worker, spec in environment.specs.items():
                lines = explain(outside[worker], spec) or ["the same key"]
                for line in lines:
                    told = line.replace("the first", "the one outside")
                    told = told.replace("the second", f"image {name}")
                    self.console.out(f"worker {worker}: {told}")

    def _list(self) -> None:
        for image in self.engine.our_images():
            names = ", ".join(image.tags) or "(no name)"
            self.console.out(f"{image.id[:19]} {image.size / _GB:7.2f} GB  {names}")

    def _collect(self, keep_gb: float) -> None:
        runs = self.harness.root / "runs"
        swept = collect(self.engine, self.cache, runs, int(keep_gb * _GB))
        for image in swept.images:
            self.console.out(f"removed image {image[:19]}")
        self.console.out(f"removed {len(swept.layers)} layers, {swept.bytes / _GB:.2f} GB")


def _names(harness: Harness, arguments: Namespace) -> list[str]:
    """The images that are meant: the named ones, or all of the flavour.

    Raises:
        HarnessError: there is none, or a named one is of another flavour.
    """
    if not arguments.names:
        found = [
            name for name, image in harness.images.items() if image.flavour == arguments.flavour
        ]
        if not found:
            raise HarnessError(
                f"images of flavour {arguments.flavour}", "none declared", "add [images.NAME]"
            )
        return found
    for name in arguments.names:
        if harness.image(name).flavour != arguments.flavour:
            raise HarnessError(
                f"image {name!r} of flavour {arguments.flavour}",
                f"it is of flavour {harness.image(name).flavour}",
                f"add --flavour {harness.image(name).flavour}",
            )
    return list(arguments.names)
