"""Place: an item inside a container: its paths there, and the supervisor that runs it.

The supervisor in the container is the one of outside, run from a copy of this harness that the
container sees and cannot change: so it is this harness that runs an item, in whatever image. Its
order comes by the container's standard input, which is the dead man's pipe; the item's log goes
straight to its file.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import exacthead
from exacthead.images.box import Box, BoxSpec, Limits, give, how_it_ended, own_ids
from exacthead.images.head import workspace
from exacthead.images.owner import this

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

    from exacthead.images.engine import Engine
    from exacthead.images.environment import Environment
    from exacthead.runs.order import Order

RESULTS = Path("/results")
_HARNESS = Path("/harness")
# What a supervisor and a shard's driver are made of; they need the standard library alone.
_PARTS = ("runs", "shards", "units", "__pycache__")
_PACKAGE = Path(exacthead.__file__).parent.name
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from exacthead.runs.supervisor import main; main()"
)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Seconds over an item's own limits after which its container is ended, whatever it does.
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class InImage:
    """A verified image as the place of items.

    Attributes:
        engine: where containers are started.
        name: the declared image's, or ``given``.
        image: the image's id.
        environment: what is in it.
        root: the repository's root on this machine, which is the workspace there.
        below: the root below the checkout.
        limits: of each container.
        harness: the copy of the harness that containers see; :func:`copy_harness` makes it.
        run: the id of the run, for the containers' labels.
        network: whether the item reaches one.
        notes: what every report must say of the image.
        seconds: how long it took to have the image, built or found.
    """

    engine: Engine
    name: str
    image: str
    environment: Environment
    root: Path
    below: str
    limits: Limits
    harness: Path
    run: str = ""
    network: bool = False
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    private: Path = Path("/tmp/eh")  # noqa: S108 - of the container
    inherited: Mapping[str, str] = field(default_factory=lambda: {"PATH": _PATH})

    @property
    def python(self) -> str:
        """The interpreter of the harness's own part."""
        return self.environment.python

    @property
    def workspace(self) -> Path:
        """The repository's root there."""
        return Path(workspace(self.below))

    @property
    def package(self) -> Path:
        """The harness's package there."""
        return _HARNESS / _PACKAGE

    def describe(self) -> dict[str, str]:
        """What it is, for the request's file."""
        return {"image": self.image, "environment": self.environment.key}

    def seen(self, path: Path, folder: Path) -> Path:
        """A path of this machine as the container names it."""
        for here, there in ((folder, RESULTS), (self.root.resolve(), self.workspace)):
            for spelling in (path, path.resolve()):
                if spelling.is_relative_to(here):
                    return there / spelling.relative_to(here)
        return path

    @contextmanager
    def start(self, order: Order, folder: Path) -> Iterator[Contained]:
        """Start a supervisor in a container of its own, which goes with the block."""
        give(folder, *own_ids())
        item = order.environment.get("EXACTHEAD_ITEM_NAME", folder.name)
        spec = BoxSpec(
            image=self.image,
            command=(self.python, "-S", "-E", "-B", "-c", _BOOT, str(_HARNESS)),
            owner=this(self.run, item),
            limits=self.limits,
            folder=(folder, str(RESULTS)),
            shown=(self.harness, str(_HARNESS)),
            environment={"PATH": _PATH, "LC_ALL": "C.UTF-8"},
            network=self.network,
        )
        limit = order.timeout_s + order.grace_s + order.leftover_grace_s + _PATIENCE_S
        try:
            with Box(self.engine, spec, limit) as box:
                yield Contained(box)
        finally:
            give(folder, os.getuid(), os.getgid())


@dataclass(frozen=True)
class Contained:
    """A supervisor in a container."""

    box: Box

    @property
    def stdin(self) -> IO[bytes]:
        """Takes the order."""
        return self.box.stdin  # type: ignore[return-value]

    @property
    def stdout(self) -> IO[bytes]:
        """Gives the facts."""
        return self.box.stdout

    def lost(self) -> str:
        """Why there are no facts."""
        ended = self.box.end()
        said = self.box.said[-500:]
        return f"its container ended: {how_it_ended(ended)}{'; it said: ' + said if said else ''}"


def copy_harness(target: Path) -> Path:
    """Copy what containers run of this harness; once for all items of a run.

    Files keep their times, so that byte code that lies beside them stays valid there.
    """
    source = Path(exacthead.__file__).parent

    def others(folder: str, names: list[str]) -> list[str]:
        return [
            name
            for name in names
            if Path(folder) == source and name not in _PARTS and Path(folder, name).is_dir()
        ]

    shutil.copytree(source, target / _PACKAGE, ignore=others)
    give(target, *own_ids())
    return target
