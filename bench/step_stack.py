"""The stack as bench_step.py uses it: ranks and engines in a Ray cluster, from a recipe."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench import step_work as work
from posttrain.config import load_recipe
from posttrain.model.revision import resolve_model
from posttrain.placement import plan_devices
from posttrain.stages import Stages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posttrain.config import Recipe
    from posttrain.generation.group import GenerationGroup
    from posttrain.generation.settings import EngineSettings
    from posttrain.policy.group import PolicyGroup

RECIPE = work.ROOT / "functional" / "recipes" / "gym_training.yaml"
START_S = 300.0


@dataclass(frozen=True)
class Pythons:
    """Interpreters of the three worker environments."""

    policy: Path
    generation: Path
    gym: Path


@dataclass(frozen=True)
class Stack:
    """Running ranks and engines that hold the same weights.

    Attributes:
        recipe: what they were started from.
        settings: the engines'.
        policy: the ranks.
        generation: the engines.
        stages: the run's timer.
    """

    recipe: Recipe
    settings: Sequence[EngineSettings]
    policy: PolicyGroup
    generation: GenerationGroup
    stages: Stages


def make_recipe(pythons: Pythons, size: work.Size, folder: Path, *more: str) -> Recipe:
    """The main job's recipe with this benchmark's work: one engine, as the floor has."""
    return load_recipe(
        RECIPE,
        [
            f"run.dir={folder}",
            f"interpreters.policy={pythons.policy}",
            f"interpreters.generation={pythons.generation}",
            f"interpreters.gym={pythons.gym}",
            f"policy.ranks={work.RANKS}",
            f"policy.threads={work.THREADS}",
            f"policy.lr={work.LEARNING_RATE}",
            # A rank's share goes through in one pass, as on every side.
            f"policy.micro_batch_size={size.sequences // work.RANKS}",
            "generation.workers=1",
            f"generation.threads={work.THREADS}",
            f"generation.temperature={work.TEMPERATURE}",
            f"generation.max_new_tokens={size.new_tokens}",
            f"generation.max_model_len={work.MAX_MODEL_LEN}",
            f"generation.block_size={work.BLOCK_SIZE}",
            f"generation.kv_cache_mb={work.KV_CACHE_MB}",
            f"rollouts.per_prompt={size.rollouts}",
            f"rollouts.concurrency={size.sequences}",
            *more,
        ],
    ).recipe


@contextmanager
def stack(recipe: Recipe) -> Iterator[Stack]:
    """Start ranks and engines in a cluster of their own, as `posttrain.train` does; end them."""
    from posttrain.cluster import cluster, prepare_environment

    prepare_environment()
    # Only now: what follows imports Ray.
    from posttrain.generation.group import GenerationGroup
    from posttrain.policy.group import PolicyGroup
    from posttrain.starting import engine_settings, policy_options, seats

    placement = plan_devices(recipe)
    model = resolve_model(recipe.model.path, recipe.model.revision)
    settings = engine_settings(recipe, model)
    with ExitStack() as running:
        bundles = running.enter_context(
            cluster(
                cpus=recipe.cluster.cpus,
                accelerators=0,
                bundles=placement.bundles,
                deadline_s=START_S,
            )
        )
        generation = GenerationGroup(
            settings,
            python=Path(recipe.interpreters.generation),
            placements=seats(placement, "generation", bundles),
            call_timeout_s=recipe.timeouts.refit_s,
        )
        running.push(generation.leave)
        policy = PolicyGroup(
            policy_options(recipe, model),
            python=Path(recipe.interpreters.policy),
            placements=seats(placement, "policy", bundles),
            call_timeout_s=recipe.timeouts.train_s,
        )
        running.callback(policy.shutdown)
        policy.wait_ready(START_S)
        generation.wait_ready(START_S)
        yield Stack(
            recipe=recipe,
            settings=settings,
            policy=policy,
            generation=generation,
            stages=Stages(sys.stderr),
        )
