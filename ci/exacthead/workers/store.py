"""Store: worker environments by key; built once, checked on each reuse, shared by all who ask."""

from __future__ import annotations

import json
import os
import time
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from exacthead.environ import clean_environment
from exacthead.errors import HarnessError
from exacthead.workers import claim, gc, record
from exacthead.workers import verify as verification
from exacthead.workers.build import Build
from exacthead.workers.command import Commands
from exacthead.workers.layout import Layout
from exacthead.workers.publish import publish

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from exacthead.workers.build import Supplies
    from exacthead.workers.command import Progress
    from exacthead.workers.manifest import Damage
    from exacthead.workers.spec import Spec

# Waiting for a worker and building it, together.
BUILD_S = 1800.0
# Claims other than a build's are short: a removal or a change of one record.
_SHORT_S = 120.0


@dataclass(frozen=True)
class Built:
    """A ready worker. ``timings`` are the seconds of this call's stages and its ``total``.

    One that is ``inside`` lies in an image, and its paths are that image's.
    """

    name: str
    key: str
    root: Path
    python: Path
    reused: bool
    timings: dict[str, float]
    notes: tuple[str, ...]
    inside: bool = False


@dataclass(frozen=True)
class Record:
    """A worker of the store, for people.

    Attributes:
        key: whole, or its first 32 digits where the worker is not ready.
        names: everybody's names for it, in the order in which they first asked.
        root: its folder.
        state: ``ready``, ``building`` (somebody holds its claim) or ``unfinished``.
        size: bytes, each hard link in full; 0 unless ready.
        last_used: seconds since the epoch; 0 for never.
        users: those who have marked it as in use.
    """

    key: str
    names: tuple[str, ...]
    root: Path
    state: str
    size: int
    last_used: float
    users: tuple[claim.Holder, ...]


class Store:
    """The workers below one folder, safe for any number of processes and threads at once.

    Args:
        root: the folder; it is created. Keep it on the file system of uv's cache, for hard links.
        environment: of builds and probes, of which only a clean part is used; ``os.environ``
            unless given.
    """

    def __init__(self, root: Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.layout = Layout(root.resolve())
        self.layout.create()
        self._environment = dict(os.environ if environment is None else environment)

    def ensure(
        self,
        spec: Spec,
        *,
        deadline_s: float = BUILD_S,
        progress: Progress | None = None,
        **supplies: Unpack[Supplies],
    ) -> Built:
        """The worker of ``spec``, built unless it is ready.

        Args:
            spec: what it must be. A provided one is not built: its own interpreter is given back.
            deadline_s: seconds for waiting and building together.
            progress: is told the name of each stage of a build as it begins.
            **supplies: where a build takes things from, see
                :class:`exacthead.workers.build.Supplies`: ``uv_arguments``, ``uv_environment``,
                ``patches``, ``local_packages``.

        Raises:
            HarnessError: the build failed (its log is kept, no worker is), or another process
                holds the worker past the deadline (it is named).
        """
        started = time.perf_counter()
        if spec.provided:
            return self._provided(spec, started)
        deadline = time.monotonic() + deadline_s
        timings: dict[str, float] = {}
        ready = self._ready(spec.key, deadline)
        reused = ready is not None
        if ready is None:
            purpose = f"build worker {spec.name!r}"
            with claim.hold(self.layout.lock(spec.key), purpose, deadline=deadline) as held:
                timings["wait"] = time.perf_counter() - started
                # Another may have built it while this call waited.
                ready = self._intact(spec.key)
                reused = ready is not None
                if ready is None:
                    log = self.layout.log(spec.key)
                    commands = Commands(spec.name, log, held.descriptor, deadline, progress)
                    ready = self._build(spec, supplies, commands)
                    timings |= ready.timings
        self._stamp(spec)
        timings["total"] = time.perf_counter() - started
        root = self.layout.worker(spec.key)
        python = root / "bin" / "python"
        return Built(spec.name, spec.key, root, python, reused, timings, ready.notes)

    @contextmanager
    def using(self, key: str, purpose: str) -> Iterator[Path]:
        """Mark the ready worker ``key`` as in use while the block runs; gives its folder.

        The mark ends with this process, however that ends.

        Args:
            key: of a worker that :meth:`ensure` returned.
            purpose: what for, as others will read it.

        Raises:
            HarnessError: it is not ready any more.
        """
        with ExitStack() as stack:
            # Under the claim, so that it is either removed before or marked before.
            with self._claimed(key, f"use worker {key}: {purpose}"):
                if record.read(self.layout, key) is None:
                    raise HarnessError(
                        f"use worker {key}", "it is not ready (any more)", "ensure it again"
                    )
                stack.enter_context(claim.mark(self.layout.uses(key), purpose))
            yield self.layout.worker(key)

    def list(self) -> list[Record]:
        """Every worker that has a folder or a record, those used last first."""
        found = [self._describe(stem) for stem in self.layout.stems()]
        return sorted(found, key=lambda item: (-item.last_used, item.key))

    def find(self, key: str) -> Record | None:
        """The worker of a whole key, or of its beginning where only one worker has it."""
        found = [item for item in self.list() if item.key.startswith(key) or key == item.key]
        return found[0] if len(found) == 1 else None

    def verify(self, key: str) -> Sequence[Damage]:
        """Hash every file of a ready worker; an empty list means that nothing has changed."""
        return verification.verify(self.layout, key)

    def repair(self, key: str) -> verification.Repair:
        """Verify, purge what is damaged from uv's cache, invalidate every worker that shares it.

        Nothing is built: the next :meth:`ensure` of each does that.
        """
        deadline = time.monotonic() + _SHORT_S
        with claim.hold(self.layout.mending(), f"repair worker {key}", deadline=deadline):
            environment = clean_environment(self._environment)
            return verification.repair(self.layout, key, environment, deadline)

    def invalidate(self, key: str) -> None:
        """Take a worker's readiness away, so that the next :meth:`ensure` builds it anew."""
        verification.invalidate(self.layout, key, time.monotonic() + _SHORT_S)

    def gc(self, max_bytes: int) -> Sequence[str]:
        """Remove leftovers, then workers by last use until ``max_bytes`` are kept; gives keys."""
        return gc.collect(self.layout, max_bytes)

    @staticmethod
    def _provided(spec: Spec, started: float) -> Built:
        """The user's own environment: resolving it has checked it, and nothing here changes it."""
        python = spec.interpreter.path
        timings = {"total": time.perf_counter() - started}
        root = python.parent.parent
        return Built(
            spec.name, spec.key, root, python, reused=True, timings=timings, notes=spec.notes
        )

    def _claimed(self, key: str, purpose: str) -> AbstractContextManager[claim.Claim]:
        return claim.hold(self.layout.lock(key), purpose, deadline=time.monotonic() + _SHORT_S)

    def _intact(self, key: str) -> record.Readiness | None:
        found = record.read(self.layout, key)
        return found if found and record.unchanged(self.layout, found) else None

    def _ready(self, key: str, deadline: float) -> record.Readiness | None:
        """The record of an intact worker; one that looks touched is verified and mended first."""
        if record.read(self.layout, key) is None:
            return None
        intact = self._intact(key)
        if intact:
            return intact
        with claim.hold(self.layout.mending(), f"mend worker {key}", deadline=deadline):
            intact = self._intact(key)
            if intact or record.read(self.layout, key) is None:
                return intact
            environment = clean_environment(self._environment)
            if verification.repair(self.layout, key, environment, deadline).damages:
                return None
            return self._look_again(key, deadline)

    def _look_again(self, key: str, deadline: float) -> record.Readiness | None:
        """Record the sentinels anew: their times have changed, their content has not."""
        with claim.hold(self.layout.lock(key), f"record worker {key}", deadline=deadline):
            found = record.read(self.layout, key)
            return record.refresh(self.layout, found) if found else None

    def _build(self, spec: Spec, supplies: Supplies, commands: Commands) -> record.Readiness:
        users = claim.marks(self.layout.uses(spec.key))
        if users:
            raise HarnessError(
                f"build worker {spec.name!r} anew",
                "it is damaged or invalidated, yet in use by " + "; ".join(map(str, users)),
                "end those processes or wait for them, then ask again",
            )
        gc.remove(self.layout, spec.key)
        commands.log.unlink(missing_ok=True)
        build = Build(
            spec,
            self.layout.worker(spec.key),
            supplies,
            commands,
            clean_environment(self._environment),
            [*spec.notes],
        )
        try:
            return publish(self.layout, build)
        except BaseException:
            gc.remove(self.layout, spec.key)
            raise

    def _stamp(self, spec: Spec) -> None:
        """Remember who asked and when; names are content of the file, never a path."""
        stamp = self.layout.stamp(spec.key)
        line = json.dumps(spec.name).encode() + b"\n"
        known = stamp.read_bytes().splitlines(keepends=True) if stamp.exists() else []
        if line in known:
            os.utime(stamp)
        else:
            # One write in append mode: two processes may add a name at once.
            with stamp.open("ab", buffering=0) as file:
                file.write(line)

    def _describe(self, stem: str) -> Record:
        layout = self.layout
        ready = record.read(layout, stem)
        stamp = layout.stamp(stem)
        lines = stamp.read_bytes().splitlines() if stamp.exists() else []
        state = "ready" if ready else "unfinished"
        if not ready and claim.is_held(layout.lock(stem)):
            state = "building"
        return Record(
            key=ready.key if ready else stem,
            names=tuple(dict.fromkeys(json.loads(line) for line in lines)),
            root=layout.worker(stem),
            state=state,
            size=ready.size if ready else 0,
            last_used=gc.last_used(layout, stem),
            users=tuple(claim.marks(layout.uses(stem))),
        )
