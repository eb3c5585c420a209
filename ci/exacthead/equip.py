"""The workers that a plan needs: their specs resolved on this machine, then built or reused."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal

from exacthead.bootstrap import cache_folder
from exacthead.preflight import machine
from exacthead.preflight.problem import refuse
from exacthead.workers.index import read_indexes
from exacthead.workers.resolve import build_supplies, resolve
from exacthead.workers.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Built

BUILD_DEADLINE_S = 1800.0


def open_store(root: Path) -> Store:
    """The worker store of the checkout at ``root``: below its cache folder."""
    return Store(cache_folder(root) / "workers")


def check_machine(harness: Harness, names: Iterable[str], flavour: str, store: Store) -> None:
    """Refuse a machine that lacks something for the named workers; all of it is said at once."""
    refuse(list(machine.lacking(machine.worker_needs(harness, names, flavour, store))))


def resolve_all(harness: Harness, names: Iterable[str], flavour: str) -> dict[str, Spec]:
    """The spec of each named worker, in the given order; a missing or stale lock is an error."""
    indexes = read_indexes(os.environ)
    distinct = dict.fromkeys(names)
    for name in distinct:
        harness.worker(name)  # a misspelt one is said before interpreters are looked for
    return {name: resolve(harness, name, flavour, indexes=indexes) for name in distinct}


@contextmanager
def ready(
    harness: Harness, specs: dict[str, Spec], store: Store, say: Callable[[str], None]
) -> Iterator[dict[str, Built]]:
    """Build what is not ready, one worker after the other, and mark all as in use meanwhile."""
    indexes = read_indexes(os.environ)
    built = {}
    with ExitStack() as in_use:
        for name, spec in specs.items():

            def progress(stage: str, name: str = name) -> None:
                say(f"worker {name}: {stage}")

            worker = store.ensure(
                spec,
                deadline_s=BUILD_DEADLINE_S,
                progress=progress,
                **build_supplies(harness, spec, indexes),
            )
            if not spec.provided:
                in_use.enter_context(store.using(worker.key, "a run"))
            say(
                f"worker {name}: {how(spec, worker)} {worker.key[:12]}"
                f" in {worker.timings['total']:.2f} s"
            )
            built[name] = worker
        yield built


def how(spec: Spec, worker: Built) -> Literal["built", "reused", "provided", "image"]:
    """How a worker came about in this call, in one word."""
    if worker.inside:
        return "image"
    if spec.provided:
        return "provided"
    return "reused" if worker.reused else "built"
