"""From a recipe to what each kind of process is started with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posttrain.config.schema import Generation
from posttrain.environment.configure import GymConfig
from posttrain.generation.settings import EngineSettings
from posttrain.policy.options import PolicyOptions
from posttrain.policy.schedule import Schedule
from posttrain.ports import HOST, free_ports
from posttrain.refit.offer import Request

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from posttrain.config import Recipe
    from posttrain.config.acceptance import AcceptRecipe
    from posttrain.placement import Placement
    from posttrain.refit.offer import InFlight


def engine_settings(recipe: Recipe | AcceptRecipe, model: Path) -> list[EngineSettings]:
    """One engine's settings a generation worker, each with a port of its own."""
    own = recipe.generation
    ports = own.ports or free_ports(own.workers)
    # Only a policy on the same devices needs their memory.
    shared = isinstance(own, Generation) and own.colocated
    return [
        EngineSettings(
            model=str(model),
            dtype=recipe.policy.dtype,
            max_model_len=own.max_model_len,
            max_num_seqs=recipe.rollouts.concurrency,
            block_size=own.block_size,
            kv_cache_bytes=own.kv_cache_mb << 20,
            seed=recipe.run.seed,
            tensor_parallel=own.tensor_parallel,
            threads=own.threads,
            sleep_mode=shared and recipe.cluster.accelerators > 0,
            port=port,
        )
        for port in ports
    ]


def gym_config(recipe: Recipe | AcceptRecipe, settings: Sequence[EngineSettings]) -> GymConfig:
    """Gym in front of all engines, with the recipe's sampling."""
    return GymConfig(
        model=settings[0].served_name,
        engine_urls=tuple(f"http://{HOST}:{each.port}/v1" for each in settings),
        # A seed would be the same for all rollouts; each brings its own (posttrain.rollout).
        sampling={
            "temperature": recipe.generation.temperature,
            "top_p": recipe.generation.top_p,
            "top_k": recipe.generation.top_k,
            "max_tokens": recipe.generation.max_new_tokens,
        },
    )


def policy_options(recipe: Recipe, model: Path) -> PolicyOptions:
    """The ranks' settings."""
    own = recipe.policy
    return PolicyOptions(
        model=model,
        ranks=own.ranks,
        device="cuda" if recipe.cluster.accelerators else "cpu",
        dtype=own.dtype,
        learning_rate=own.lr,
        schedule=Schedule(**own.schedule.model_dump()),
        weight_decay=own.optimizer.weight_decay,
        betas=own.optimizer.betas,
        adam_epsilon=own.optimizer.eps,
        max_grad_norm=own.max_grad_norm,
        clip_low=own.clip.low,
        clip_high=own.clip.high,
        micro_batch_size=own.micro_batch_size,
        logprobs=own.logprobs,
        logprobs_chunk=own.logprobs_chunk,
        seed=recipe.run.seed,
        threads=own.threads,
        start_timeout_s=recipe.timeouts.start_s,
        collective_timeout_s=max(recipe.timeouts.train_s, recipe.timeouts.checkpoint_s),
        reference=recipe.advantages.kl_coefficient > 0,
    )


def refit_request(
    recipe: Recipe, receivers: tuple[str, ...], version: int, in_flight: InFlight = "refuse"
) -> Request:
    """What the policy is asked to send, and to whom."""
    return Request(
        transport=recipe.refit.transport,
        version=version,
        receivers=receivers,
        host=HOST,
        buffer_bytes=recipe.refit.buffer_mb << 20,
        # Whoever waits for somebody silent must be able to say so before the stage is cut off.
        patience_s=recipe.timeouts.refit_s / 2,
        in_flight=in_flight,
    )


def seats(placement: Placement, kind: str, strategies: Sequence[Any]) -> list[dict[str, Any]]:
    """Ray's actor options of every actor of a kind (``policy``, ``generation``), in order."""
    return [
        {**placement.options(seat), "scheduling_strategy": strategies[seat.bundles[0]]}
        for seat in placement.seats
        if seat.actor.startswith(f"{kind}/")
    ]
