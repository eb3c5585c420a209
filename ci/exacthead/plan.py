"""Plan: everything that is decided before anything runs, as one JSON document with a digest."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from exacthead.errors import HarnessError, nearest
from exacthead.head import Head
from exacthead.runs.files import read_json
from exacthead.runs.gates import Gates, in_order
from exacthead.units.shard import Shard, read_shard
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from exacthead.workers.spec import Spec

# Order of iteration and hash seeds are part of a plan, so that a replay meets the same ones.
SEED = 0
# The command of a suite's item: the driver, in the harness's own interpreter. It needs no package,
# and without site it is not itself measured when its children are.
DRIVER = ("{harness}", "-I", "-S", "{exacthead}/units/drive.py", "{folder}/order.json", "{folder}")


@dataclass(frozen=True)
class Item:
    """One thing that gets a verdict: a leg of a job, or a suite.

    Attributes:
        id: unique in its plan; also the name of its folder's subject.
        kind: ``leg`` or ``suite``.
        command: program and arguments, relative to the repository's root. ``{python:ROLE}`` stands
            for the interpreter of that role's worker and ``{folder}`` for the item's folder: paths
            that a plan cannot hold, since it is the same on every machine.
        workers: role -> worker name; exported as ``EXACTHEAD_PYTHON_<ROLE>``.
        environment: the item's own variables.
        timeout_s: seconds until its processes are ended.
        contract: path of its contract, relative to the root; empty for suites.
        seed: exported as ``EXACTHEAD_SEED`` and ``PYTHONHASHSEED``.
        shard: the tests of a suite's item.
        settled: a verdict that needs no run: a suite that cannot run here, a shard without tests.
        required: whether the run is red when this item is not green.
        notes: what its report must say of how it was planned.
        network: whether it reaches one, where it is run in a container.
        cpus: how many processors it takes while it runs.
        memory_gb: how much memory, in GB of 10^9 bytes.
        accelerators: how many it takes, and is given in a container.
        needs: its gates: items, or suites and jobs as a whole, that must be green before it runs.
        secrets: names of variables that its processes are given too; their values are nobody's.
    """

    id: str
    kind: Literal["leg", "suite"]
    command: tuple[str, ...]
    workers: dict[str, str]
    environment: dict[str, str]
    timeout_s: float
    contract: str = ""
    seed: int = SEED
    shard: Shard | None = None
    settled: Verdict | None = None
    required: bool = True
    notes: tuple[str, ...] = ()
    network: bool = False
    cpus: int = 1
    memory_gb: float = 1.0
    accelerators: int = 0
    needs: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    @property
    def void(self) -> bool:
        """Whether it is a shard that is empty by plan."""
        settled = self.settled is not None and self.settled.kind is Kind.SKIPPED
        return settled and self.shard is not None and not self.shard.groups

    @property
    def measured(self) -> bool:
        """Whether its processes measure what they run."""
        return self.shard is not None and self.shard.coverage and self.settled is None


@dataclass(frozen=True)
class Plan:
    """Items in the order they run, with the head, the worker keys and the runner they are for.

    ``images`` are the ids of the images that items run in, by item; empty outside of images.
    """

    head: Head
    runner: str
    flavour: str
    items: tuple[Item, ...]
    keys: dict[str, str]
    notes: tuple[str, ...] = ()
    images: dict[str, str] = field(default_factory=dict)
    invocation: str = field(default="", compare=False)

    def as_data(self) -> dict[str, Any]:
        """JSON-ready content with its own digest under ``digest``."""
        data = asdict(self)
        return {"digest": self.digest, **data}

    @property
    def digest(self) -> str:
        """SHA-256 over everything decided, but not over how it was asked for."""
        data = asdict(self)
        del data["invocation"]
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

    @cached_property
    def gating(self) -> frozenset[str]:
        """The ids of the items that others wait for."""
        return frozenset(g for gates in Gates.of(self.items).before.values() for g in gates)

    def item(self, item_id: str) -> Item:
        """The item of that id; an unknown one is an error with the nearest."""
        for item in self.items:
            if item.id == item_id:
                return item
        raise HarnessError(
            f"item {item_id!r}",
            "no such item in the plan",
            nearest(item_id, [item.id for item in self.items]),
        )

    def only(self, item_id: str) -> Plan:
        """The same plan reduced to one item and the workers it uses."""
        item = self.item(item_id)
        used = set(item.workers.values())
        return replace(
            self,
            items=(item,),
            keys={name: k for name, k in self.keys.items() if name in used},
            images={name: i for name, i in self.images.items() if name == item_id},
        )


def read_plan(path: Path) -> Plan:
    """Read a plan: plan.json of a run, or what the session `plan` wrote.

    Raises:
        HarnessError: there is none, preflight refused it, or its digest does not match its content.
    """
    todo = "name a folder that a run of this harness has written"
    plan, digest = read_json(path, _plan, todo, "the plan")
    if plan.digest != digest:
        raise HarnessError(
            f"the plan {path}",
            f"its content has digest {plan.digest[:12]}, it says {digest[:12]}",
            "it was changed after the run; plan again",
        )
    return plan


def _plan(data: dict[str, Any]) -> tuple[Plan, str]:
    """A plan, and the digest that it had when it was written."""
    if "plan" in data:
        if data["plan"] is None:
            raise ValueError(f"preflight refused it: {len(data['problems'])} problems")
        data = data["plan"]
    digest = str(data.pop("digest"))
    items = tuple(_read_item(item) for item in data.pop("items"))
    head, notes = Head(**data["head"]), tuple(data["notes"])
    return Plan(**{**data, "head": head, "items": items, "notes": notes}), digest


def _read_item(data: dict[str, Any]) -> Item:
    settled = data["settled"]
    return Item(
        **{
            **data,
            "command": tuple(data["command"]),
            "notes": tuple(data["notes"]),
            "needs": tuple(data.get("needs", ())),
            "secrets": tuple(data.get("secrets", ())),
            "shard": read_shard(data["shard"]),
            "settled": Verdict(Kind(settled["kind"]), settled["reason"]) if settled else None,
        }
    )


def worker_names(items: Iterable[Item]) -> list[str]:
    """The names of the workers that ``items`` use, sorted."""
    return sorted({name for item in items for name in item.workers.values()})


def make_plan(  # noqa: PLR0913 - the parts of a plan are what they are
    head: Head,
    items: tuple[Item, ...],
    specs: Mapping[str, Spec],
    *,
    runner: str,
    flavour: str,
    invocation: str,
    images: Mapping[str, str] | None = None,
) -> Plan:
    """Join what was selected with the keys of the workers it needs.

    Raises:
        HarnessError: nothing is selected, or two workers of one item disagree on a variable.
    """
    if not items:
        raise HarnessError("a plan", "nothing is selected", "name at least one job or suite")
    for item in items:
        _check_environment(item, specs)
    return Plan(
        head=head,
        runner=runner,
        flavour=flavour,
        items=in_order(items),
        keys={name: spec.key for name, spec in sorted(specs.items())},
        notes=worker_notes(specs),
        images=dict(images or {}),
        invocation=invocation,
    )


def worker_notes(specs: Mapping[str, Spec]) -> tuple[str, ...]:
    """What a report must say of the workers that a plan uses."""
    return tuple(
        f"worker {name} {note}" for name, spec in sorted(specs.items()) for note in spec.notes
    )


def _check_environment(item: Item, specs: Mapping[str, Spec]) -> None:
    """Refuse an item in which one variable would have two values: neither could win."""
    variables = Counter(map(python_variable, item.workers))
    shared = [role for role in item.workers if variables[python_variable(role)] > 1]
    if shared:
        raise HarnessError(
            f"the roles of item {item.id!r}",
            f"{' and '.join(map(repr, shared))} would both be {python_variable(shared[0])}",
            "rename one of them",
        )
    said: dict[str, tuple[str, str]] = {}
    for worker in sorted(set(item.workers.values())):
        for name, value in specs[worker].environment:
            other, before = said.setdefault(name, (worker, value))
            if before != value and name not in item.environment:
                raise HarnessError(
                    f"the environment of item {item.id!r}",
                    f"{name} is {before!r} in worker {other!r}, {value!r} in worker {worker!r}",
                    "set it in the leg's own environment, or make the workers agree",
                )


def seeded(variables: Mapping[str, str], seed: int = SEED) -> dict[str, str]:
    """Variables of an item's processes, with those that tell its seed."""
    return {**variables, "EXACTHEAD_SEED": str(seed), "PYTHONHASHSEED": str(seed)}


def python_variable(role: str) -> str:
    """The variable that names the interpreter of ``role``: letters and digits, in capitals."""
    return f"EXACTHEAD_PYTHON_{re.sub('[^A-Z0-9]', '_', role.upper())}"
