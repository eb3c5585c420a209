"""Where: the image of each item of a plan. It decides where an item runs, never what it is."""

from __future__ import annotations

import tempfile
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.bootstrap import cache_folder
from exacthead.errors import HarnessError
from exacthead.images.box import Limits
from exacthead.images.cache import Cache
from exacthead.images.engine import Engine
from exacthead.images.find import Finder, built, check_workers, specs_of
from exacthead.images.oci import REVISION
from exacthead.images.place import InImage, copy_harness
from exacthead.images.reaper import reap
from exacthead.images.snapshot import snapshot

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from exacthead.config import Harness
    from exacthead.plan import Item, Plan
    from exacthead.session import Session
    from exacthead.tables import Runner
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Built

IMAGE = "image"
# The name of an image that was given and not declared.
GIVEN = "given"


@dataclass(frozen=True)
class Wanted:
    """What was asked of where items run.

    Attributes:
        reference: an image that exists; empty for the one that the head makes.
        reuse: the commit that the image is of, when that is another than the head on purpose.
        dirty: whether the content of a dirty checkout is wanted, which is no head.
        base: another base than the images declare.
    """

    reference: str = ""
    reuse: str = ""
    dirty: bool = False
    base: str = ""

    def __post_init__(self) -> None:
        if self.reuse and not self.reference:
            raise HarnessError(
                f"--reuse {self.reuse}", "no --image", "name the image of that commit"
            )
        if self.reference and self.base:
            raise HarnessError(
                f"--base-image {self.base} and --image {self.reference}",
                "an image that exists has its base",
                "give one of them",
            )
        if self.reuse and self.dirty:
            raise HarnessError("--reuse and --dirty", "both", "give one of them")


@dataclass(frozen=True)
class Placed:
    """The places of items.

    Attributes:
        by_item: the place of each item, by its id.
        specs: of the workers in the images, by name.
        workers: the same, as a run wants them.
        images: the ids of the images, by item.
        remarks: what every report must say.
    """

    by_item: Mapping[str, InImage]
    specs: Mapping[str, Spec]
    workers: Mapping[str, Built]
    images: Mapping[str, str]
    remarks: tuple[str, ...] = ()


def wanted(arguments: Namespace) -> Wanted | None:
    """What a command's options ask for; None for this machine itself.

    Raises:
        HarnessError: an option for images without one.
    """
    asked = Wanted(arguments.image, arguments.reuse, arguments.dirty, arguments.base_image)
    if arguments.where == IMAGE or arguments.image:
        return asked
    given = [name for name in ("reuse", "dirty", "base_image") if getattr(arguments, name)]
    if given:
        raise HarnessError(
            f"--{given[0].replace('_', '-')}", "this is not run in an image", "add --in image"
        )
    return None


def open_cache(root: Path) -> Cache:
    """The cache of images of the checkout at ``root``."""
    cache = Cache(cache_folder(root) / "images")
    cache.create()
    return cache


def image_for(harness: Harness, item: Item, flavour: str) -> str:
    """The first declared image of a flavour that holds all workers of an item.

    Raises:
        HarnessError: none does.
    """
    return image_with(harness, item.id, item.workers.values(), flavour)


def image_with(harness: Harness, item_id: str, workers: Iterable[str], flavour: str) -> str:
    """The same for an item of that id that needs these workers."""
    needed = set(workers)
    for name, image in harness.images.items():
        if image.flavour == flavour and needed <= set(image.workers):
            return name
    declared = [f"{name}: {', '.join(each.workers)}" for name, each in harness.images.items()]
    raise HarnessError(
        f"an image of flavour {flavour} with the workers {', '.join(sorted(needed))} of {item_id}",
        "; ".join(declared) or "no image is declared",
        "declare one in harness.toml: [images.NAME] workers = [...]",
    )


@contextmanager
def placed(  # noqa: PLR0913 - what a place is made of
    harness: Harness,
    items: Sequence[Item],
    asked: Wanted,
    *,
    flavour: str,
    runner: Runner,
    say: Callable[[str], None],
    home: Path | None = None,
) -> Iterator[Placed]:
    """Make or verify the image of every item, before any of them runs.

    Args:
        harness: the declarations.
        items: the items.
        asked: where they run.
        flavour: of their workers.
        runner: whose resources a container gets.
        say: is told what takes long.
        home: the checkout whose caches are used, where that is another.

    Raises:
        HarnessError: no engine, no such image, an image of something else, or one without a worker
            that an item needs.
    """
    home = home or harness.root
    cache = open_cache(home)
    with closing(Engine()) as engine, tempfile.TemporaryDirectory(dir=cache.work) as folder:
        for line in reap(engine):
            say(line)
        revision = asked.reuse or "HEAD"
        with snapshot(harness.root, dirty=asked.dirty, revision=revision) as made_from:
            finder = Finder(harness, engine, cache, made_from, asked, flavour, say, home)
            names = {
                item.id: GIVEN if asked.reference else image_for(harness, item, flavour)
                for item in items
            }
            found, seconds = {}, {}
            for name in dict.fromkeys(names.values()):
                started = time.monotonic()
                found[name] = finder.find(name)
                seconds[name] = round(time.monotonic() - started, 3)
        copied = copy_harness(Path(folder))
        by_item = {}
        for item in items:
            image = found[names[item.id]]
            check_workers(item, image)
            by_item[item.id] = InImage(
                engine=engine,
                name=names[item.id],
                image=image.id,
                environment=image.environment,
                root=harness.root,
                below=made_from.below,
                limits=Limits(runner.cpus, runner.memory_gb, runner.pids, item.accelerators),
                harness=copied,
                network=item.network,
                notes=image.notes,
                seconds=seconds[names[item.id]],
            )
        specs = specs_of(found)
        yield Placed(
            by_item=by_item,
            specs=specs,
            workers={name: built(name, found, spec) for name, spec in specs.items()},
            images={item_id: place.image for item_id, place in by_item.items()},
            remarks=tuple(dict.fromkeys(note for image in found.values() for note in image.notes)),
        )


def again(plan: Plan, engine: Engine) -> Wanted:
    """What was wanted of the image of an earlier run's item: the same one, if it is still there.

    The commit that it is of is taken from its label as a guess, which is then verified.
    """
    (reference,) = plan.images.values()
    facts = engine.image(reference)
    if facts is None:
        return Wanted(dirty=plan.head.dirty)
    commit = facts.labels.get(REVISION, "")
    other = commit and commit != plan.head.commit
    return Wanted(reference, reuse=commit if other else "", dirty=plan.head.dirty)


def used(images: Placed | None, names: Iterable[str]) -> dict[str, Spec]:
    """The specs of the named workers in images; none outside of images."""
    return {name: images.specs[name] for name in names} if images else {}


def in_images(session: Session, images: Placed | None) -> Session:
    """The session with its items in their images, if they have any."""
    if images is None:
        return session
    inside = {name: images.workers[name] for name in session.specs if name in images.workers}
    return replace(
        session,
        held={**(session.held or {}), **inside},
        inside=images.by_item,
        remarks=(*session.remarks, *images.remarks),
    )
