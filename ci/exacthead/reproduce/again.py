"""Again: the plan of an earlier run with what this machine has, and how that differs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from exacthead.config import load
from exacthead.differences import between, keys, packages
from exacthead.equip import check_machine, resolve_all
from exacthead.evidence import evidence
from exacthead.head import read_head
from exacthead.images.where import used
from exacthead.plan import worker_notes

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.images.where import Placed
    from exacthead.plan import Plan
    from exacthead.reproduce.past import Past
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Store


def plan_again(
    past: Past, root: Path, store: Store, invocation: str, images: Placed | None = None
) -> tuple[Harness, Plan, dict[str, Spec], tuple[str, ...]]:
    """The plan with this machine's keys, its specs, and what differs from the run.

    The item itself stays word for word: command, order, seed, variables and limits.
    """
    harness = load(root)
    plan = past.plan
    names = sorted(plan.keys)
    specs = used(images, names)
    if not images:
        check_machine(harness, names, plan.flavour, store)
        specs = resolve_all(harness, names, plan.flavour)
    again = replace(
        plan,
        head=read_head(root),
        keys={name: spec.key for name, spec in specs.items()},
        notes=worker_notes(specs),
        images=dict(images.images) if images else {},
        invocation=invocation,
    )
    there = past.provenance
    differences = keys(specs, plan.keys, there)
    if sorted(again.images.values()) != sorted(plan.images.values()):
        used_here = ", ".join(again.images.values()) or "no image"
        differences += (f"{used_here} here, {', '.join(plan.images.values()) or 'no image'} there",)
    if there is None:
        differences += ("that run ended before it told what it used",)
    else:
        here = evidence(harness, again, specs, {})
        differences += (*packages(specs, there), *between(here, there, plan.runner))
    return harness, again, specs, differences
