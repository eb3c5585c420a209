"""Device arithmetic: which device each actor of a recipe sits on, before anything is started.

A device is an accelerator where the recipe asks for any, else a CPU. Colocated, policy ranks and
engines share devices from the first one on; otherwise engines follow the ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from posttrain.errors import RecipeError

if TYPE_CHECKING:
    from posttrain.config.acceptance import AcceptRecipe
    from posttrain.config.schema import Recipe

# Two actors on one device take half of it each; Ray schedules with fractions, it enforces nothing.
_SHARED = 0.5


@dataclass(frozen=True)
class Seat:
    """One actor's place.

    Attributes:
        actor: ``policy/<rank>`` or ``generation/<worker>``.
        bundles: the devices it uses, as bundle indices; several for a tensor-parallel engine.
        fraction: how much of each of them it takes, 0.5 when colocated, else 1.
    """

    actor: str
    bundles: tuple[int, ...]
    fraction: float


@dataclass(frozen=True)
class Placement:
    """Bundles of a Ray placement group, one a device, and who sits on them.

    Attributes:
        resource: Ray's name of the device, ``CPU`` or ``GPU``.
        devices: number of bundles.
        seats: policy ranks, then engines, each in order.
    """

    resource: str
    devices: int
    seats: tuple[Seat, ...]

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The bundles for ``ray.util.placement_group``."""
        return [{self.resource: 1.0} for _ in range(self.devices)]

    def seat(self, actor: str) -> Seat:
        """The seat of the actor of that name."""
        return next(seat for seat in self.seats if seat.actor == actor)

    def options(self, seat: Seat) -> dict[str, float]:
        """``num_cpus`` and ``num_gpus`` of one process on one of the seat's bundles."""
        taken = {"CPU": "num_cpus", "GPU": "num_gpus"}[self.resource]
        return {"num_cpus": 0.0, "num_gpus": 0.0, taken: seat.fraction}


@dataclass(frozen=True)
class Demand:
    """How many devices the actors of a recipe need.

    Attributes:
        resource: Ray's name of the device, ``CPU`` or ``GPU``.
        needed: how many devices.
        offered: how many ``cluster`` has.
        arithmetic: the sum in words.
    """

    resource: str
    needed: int
    offered: int
    arithmetic: str


def training_demand(recipe: Recipe) -> Demand:
    """The devices of ranks and engines, whether or not there are so many."""
    ranks, engines = recipe.policy.ranks, recipe.generation.workers
    parallel = engines * recipe.generation.tensor_parallel
    needed = max(ranks, parallel) if recipe.generation.colocated else ranks + parallel
    return _demand(recipe, needed, _arithmetic(recipe))


def engines_demand(recipe: AcceptRecipe) -> Demand:
    """The devices of engines that no policy is trained beside."""
    needed = recipe.generation.workers * recipe.generation.tensor_parallel
    return _demand(recipe, needed, _workers(recipe))


def _demand(recipe: Recipe | AcceptRecipe, needed: int, arithmetic: str) -> Demand:
    resource, offered = _offered(recipe)
    return Demand(resource, needed, offered, f"{arithmetic} = {_devices(resource, needed)}")


def plan_devices(recipe: Recipe) -> Placement:
    """Place the recipe's actors on the devices that it asks for.

    Raises:
        RecipeError: when the actors need more devices than ``cluster`` has, with the arithmetic.
    """
    ranks, engines = recipe.policy.ranks, recipe.generation.workers
    demand = training_demand(recipe)
    _check(
        demand,
        f"place {ranks} policy {_plural(ranks, 'rank')} and {engines} generation"
        f" {_plural(engines, 'worker')}",
        "policy.ranks, generation.workers or generation.tensor_parallel",
    )
    colocated = recipe.generation.colocated
    fraction = _SHARED if colocated else 1.0
    first = 0 if colocated else ranks
    policy = [Seat(f"policy/{rank}", (rank,), fraction) for rank in range(ranks)]
    seats = _engines(engines, recipe.generation.tensor_parallel, first, fraction)
    return Placement(demand.resource, demand.needed, (*policy, *seats))


def plan_engines(recipe: AcceptRecipe) -> Placement:
    """Place engines that no policy is trained beside.

    Raises:
        RecipeError: when they need more devices than ``cluster`` has, with the arithmetic.
    """
    engines, parallel = recipe.generation.workers, recipe.generation.tensor_parallel
    demand = engines_demand(recipe)
    _check(
        demand,
        f"place {engines} generation {_plural(engines, 'worker')}",
        "generation.workers or generation.tensor_parallel",
    )
    return Placement(demand.resource, demand.needed, tuple(_engines(engines, parallel, 0, 1.0)))


def _check(demand: Demand, asked: str, keys: str) -> None:
    if demand.needed > demand.offered:
        key = "cluster.accelerators" if demand.resource == "GPU" else "cluster.cpus"
        raise RecipeError(
            asked,
            f"{demand.arithmetic}, {key} is {demand.offered}",
            f"ask for fewer {keys}, or raise {key} if the runner has more",
        )


def check_parallel(recipe: Recipe) -> None:
    """Check that an engine's ranks find their devices.

    Raises:
        RecipeError: an engine is spread over accelerators.
    """
    if recipe.cluster.accelerators and recipe.generation.tensor_parallel > 1:
        # An actor sees the accelerator of one bundle only; its other ranks would find none.
        raise RecipeError(
            "one engine over several accelerators",
            f"generation.tensor_parallel {recipe.generation.tensor_parallel} with"
            f" cluster.accelerators {recipe.cluster.accelerators}",
            "use tensor_parallel 1 and more workers; several ranks an engine work on CPUs",
        )


def _offered(recipe: Recipe | AcceptRecipe) -> tuple[str, int]:
    if recipe.cluster.accelerators:
        return "GPU", recipe.cluster.accelerators
    return "CPU", recipe.cluster.cpus


def _engines(engines: int, parallel: int, first: int, fraction: float) -> list[Seat]:
    return [
        Seat(
            f"generation/{worker}",
            tuple(range(first + worker * parallel, first + (worker + 1) * parallel)),
            fraction,
        )
        for worker in range(engines)
    ]


def check_transport(recipe: Recipe) -> None:
    """Check that weights can get from where the policy is to where generation is.

    Raises:
        RecipeError: the recipe's transport does not reach that far.
    """
    if recipe.refit.transport == "shared_memory" and not recipe.generation.colocated:
        raise RecipeError(
            "refit.transport shared_memory with generation.colocated false",
            "a separate engine may run on another machine, where this one's memory is not",
            "use refit.transport broadcast, or http where nothing else gets through",
        )


def check_machine(recipe: Recipe | AcceptRecipe, cpus: int, accelerators: int) -> None:
    """Check that the runner has what the recipe's ``cluster`` asks for.

    Args:
        recipe: the recipe.
        cpus: CPUs that this process may use.
        accelerators: accelerators of the runner.

    Raises:
        RecipeError: naming every resource that is short.
    """
    asked = recipe.cluster
    short = [
        f"{_devices(resource, wanted)} ({key}), the runner has {had}"
        for key, resource, wanted, had in (
            ("cluster.cpus", "CPU", asked.cpus, cpus),
            ("cluster.accelerators", "GPU", asked.accelerators, accelerators),
        )
        if wanted > had
    ]
    if short:
        raise RecipeError(
            "run the recipe on this runner",
            f"it asks for {' and for '.join(short)}",
            "lower these keys, or use a larger runner",
        )


def _arithmetic(recipe: Recipe) -> str:
    ranks = f"{recipe.policy.ranks} policy {_plural(recipe.policy.ranks, 'rank')}"
    engines = _workers(recipe)
    if recipe.generation.colocated:
        return f"colocated, the larger of {ranks} and {engines}"
    return f"{ranks} + {engines}"


def _workers(recipe: Recipe | AcceptRecipe) -> str:
    return (
        f"{recipe.generation.workers} generation {_plural(recipe.generation.workers, 'worker')}"
        f" x {recipe.generation.tensor_parallel} tensor parallel"
    )


def _devices(resource: str, count: int) -> str:
    return f"{count} {_plural(count, 'accelerator' if resource == 'GPU' else 'CPU')}"


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
