"""What a run used, for its provenance: workers, locks and fixtures, by content."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from exacthead.equip import how
from exacthead.runs.provenance import Provenance, WorkerUse, gather
from exacthead.workers.local import digest_folder
from exacthead.workers.lock import lock_path

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.images.place import InImage
    from exacthead.plan import Plan
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Built

FIXTURES = "fixtures"


def evidence(
    harness: Harness,
    plan: Plan,
    specs: Mapping[str, Spec],
    workers: Mapping[str, Built],
    images: Collection[InImage] = (),
) -> Provenance:
    """The provenance of a run.

    Args:
        harness: the declarations.
        plan: what is run.
        specs: of its workers, by name.
        workers: those that were made ready, by name.
        images: the places of its items in images.
    """
    locks = {
        name: lock_path(harness.root, name, plan.flavour)
        for name, spec in specs.items()
        if not spec.provided
    }
    return gather(
        plan.head,
        workers=[_use(specs[name], worker) for name, worker in workers.items()],
        locks=locks,
        fixtures=fixture_digests(harness.root / FIXTURES),
        images={place.name: place.image for place in images},
        image_seconds={place.name: place.seconds for place in images},
    )


def _use(spec: Spec, worker: Built) -> WorkerUse:
    interpreter = spec.interpreter
    return WorkerUse(
        name=spec.name,
        key=worker.key,
        flavour=spec.flavour,
        interpreter=f"{interpreter.implementation} {interpreter.version}",
        how=how(spec, worker),
        seconds=round(worker.timings["total"], 3),
        notes=spec.notes,
        packages=tuple(spec.lock.split()) if spec.provided else (),
    )


def fixture_digests(folder: Path) -> dict[str, str]:
    """A digest of each file and each folder directly in ``folder``, by name; none without it."""
    if not folder.is_dir():
        return {}
    return {
        path.name: digest_folder(path)
        if path.is_dir()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != "__pycache__"
    }
