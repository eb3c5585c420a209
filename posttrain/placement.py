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


def plan_devices(recipe: Recipe) -> Placement:
    """Place the recipe's actors on the devices that it asks for.

    Raises:
        RecipeError: when the actors need more devices than ``cluster`` has, with the arithmetic.
    """
    ranks, engines = recipe.policy.ranks, recipe.generation.workers
    parallel, colocated = recipe.generation.tensor_parallel, recipe.generation.colocated
    resource, offered = _offered(recipe)
    needed = max(ranks, engines * parallel) if colocated else ranks + engines * parallel
    if needed > offered:
        key = "cluster.accelerators" if resource == "GPU" else "cluster.cpus"
        raise RecipeError(
            f"place {ranks} policy {_plural(ranks, 'rank')} and {engines} generation"
            f" {_plural(engines, 'worker')}",
            f"{_arithmetic(recipe)} = {_devices(resource, needed)}, {key} is {offered}",
            "ask for fewer policy.ranks, generation.workers or generation.tensor_parallel,"
            f" or raise {key} if the runner has more",
        )
    fraction = _SHARED if colocated else 1.0
    first = 0 if colocated else ranks
    policy = [Seat(f"policy/{rank}", (rank,), fraction) for rank in range(ranks)]
    return Placement(resource, needed, (*policy, *_engines(engines, parallel, first, fraction)))


def plan_engines(recipe: AcceptRecipe) -> Placement:
    """Place engines that no policy is trained beside.

    Raises:
        RecipeError: when they need more devices than ``cluster`` has, with the arithmetic.
    """
    engines, parallel = recipe.generation.workers, recipe.generation.tensor_parallel
    resource, offered = _offered(recipe)
    needed = engines * parallel
    if needed > offered:
        key = "cluster.accelerators" if resource == "GPU" else "cluster.cpus"
        raise RecipeError(
            f"place {engines} generation {_plural(engines, 'worker')}",
            f"{_workers(recipe)} = {_devices(resource, needed)}, {key} is {offered}",
            "ask for fewer generation.workers or generation.tensor_parallel,"
            f" or raise {key} if the runner has more",
        )
    return Placement(resource, needed, tuple(_engines(engines, parallel, 0, 1.0)))


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
