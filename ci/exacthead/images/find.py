"""Find: the verified image of a name, and the workers that are in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.images.environment import Making
from exacthead.images.head import ensure_head
from exacthead.images.snapshot import behind
from exacthead.images.verify import Verified, Verifier
from exacthead.workers.store import Built

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exacthead.config import Harness
    from exacthead.images.cache import Cache
    from exacthead.images.engine import Engine
    from exacthead.images.snapshot import Snapshot
    from exacthead.images.where import Wanted
    from exacthead.plan import Item
    from exacthead.workers.spec import Spec


@dataclass(frozen=True)
class Finder:
    """Finds the image of a name: makes or takes it, and verifies it in both cases."""

    harness: Harness
    engine: Engine
    cache: Cache
    made_from: Snapshot
    asked: Wanted
    flavour: str
    say: Callable[[str], None]
    home: Path

    def find(self, name: str) -> Verified:
        """A declared image, made if need be, or the given one; verified in both cases."""
        reference = self.asked.reference
        if not reference:
            making = Making(
                self.harness,
                self.cache,
                self.engine,
                self.say,
                base=self.asked.base,
                home=self.home,
            )
            environment = making.ensure(name)
            source = self.harness.project.source
            image = ensure_head(self.engine, self.cache, self.made_from, environment, source)
            reference = image.id
        verifier = Verifier(self.harness, self.engine, self.cache)
        found = verifier.verify(reference, self.made_from, flavour=self.flavour)
        self.say(f"image {name}: {found.id[:19]} is that of {self.made_from}")
        return Verified(found.id, found.environment, (*found.notes, *self._remarks(found.id)))

    def _remarks(self, image: str) -> tuple[str, ...]:
        if self.asked.reuse:
            words = behind(self.harness.root, self.made_from.commit)
            return (f"image {image[:19]} of {self.made_from.commit[:12]} reused, {words}",)
        if self.made_from.dirty:
            return (f"image {image[:19]} is of {self.made_from}, which is no head",)
        return ()


def check_workers(item: Item, image: Verified) -> None:
    """Refuse an image without a worker that an item needs."""
    missing = sorted(set(item.workers.values()) - set(image.environment.specs))
    if missing:
        raise HarnessError(
            f"item {item.id} in image {image.id[:19]}",
            f"it has no worker {', '.join(missing)}",
            "name an image that has them; which items run does not depend on it",
        )


def specs_of(found: Mapping[str, Verified]) -> dict[str, Spec]:
    """The workers in all images of a run, by name; two of one name must have one key."""
    specs: dict[str, Spec] = {}
    for image in found.values():
        for name, spec in image.environment.specs.items():
            if specs.setdefault(name, spec).key != spec.key:
                raise HarnessError(
                    f"one worker {name!r} in all images of a run",
                    f"keys {specs[name].key[:12]} and {spec.key[:12]}",
                    "give these images one base, or run their items in two calls",
                )
    return specs


def built(name: str, found: Mapping[str, Verified], spec: Spec) -> Built:
    """A worker in an image, as a run wants it."""
    environment = next(
        image.environment for image in found.values() if name in image.environment.specs
    )
    python = Path(environment.worker(name))
    root = python.parent.parent
    return Built(
        name, spec.key, root, python, reused=True, timings={"total": 0.0}, notes=spec.notes,
        inside=True,
    )  # fmt: skip
