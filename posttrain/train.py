"""`python -m posttrain.train RECIPE [key=value ...]`: the synchronous training run.

Policy ranks, engines and Gym servers start together, since importing their libraries is what takes
the time; the engines' ports are chosen first, so that Gym need not wait for the engines.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.checkpoint.keeper import plan_checkpoints
from posttrain.command import command
from posttrain.config import Recipe, explain
from posttrain.data import check_agent, read_rows
from posttrain.dataset import Prompts
from posttrain.devices import accelerators
from posttrain.disk import writing
from posttrain.errors import RecipeError
from posttrain.generation.port import bind
from posttrain.interpreters import check_interpreters
from posttrain.model.revision import resolve_model
from posttrain.placement import check_machine, check_transport, plan_devices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.checkpoint.keeper import Checkpoints
    from posttrain.config import Loaded
    from posttrain.data import Row
    from posttrain.placement import Placement


def main(argv: Sequence[str] | None = None) -> int:
    """Run the recipe, or explain it; returns the exit code."""
    return command("train", __doc__, Recipe, run, argv)


def run(loaded: Loaded[Recipe]) -> None:
    """Check the recipe, then take the steps that are left of it.

    Raises:
        StackError: the recipe cannot work, or whatever made a step not a proven one.
    """
    checked = check(loaded.recipe)
    start = checked.checkpoints.start
    for line in start.sentences():
        sys.stderr.write(f"posttrain: {line}\n")
    if start.step >= loaded.recipe.run.steps:
        sys.stderr.write("posttrain: every step of run.steps is taken; nothing to do\n")
        return
    train(checked, explain(loaded))


@dataclass(frozen=True)
class Checked:
    """A recipe with everything that could be checked without starting a process."""

    recipe: Recipe
    placement: Placement
    model: Path
    prompts: Prompts
    validation_rows: list[Row]
    run_dir: Path
    checkpoints: Checkpoints


def check(recipe: Recipe) -> Checked:
    """Check devices, model revision, datasets and interpreters.

    Raises:
        StackError: the first thing that is wrong.
    """
    if recipe.cluster.accelerators and recipe.generation.tensor_parallel > 1:
        # An actor sees the accelerator of one bundle only; its other ranks would find none.
        raise RecipeError(
            "one engine over several accelerators",
            f"generation.tensor_parallel {recipe.generation.tensor_parallel} with"
            f" cluster.accelerators {recipe.cluster.accelerators}",
            "use tensor_parallel 1 and more workers; several ranks an engine work on CPUs",
        )
    check_transport(recipe)
    check_machine(recipe, len(os.sched_getaffinity(0)), accelerators())
    rows = read_rows(Path(recipe.data.train))
    checked = Checked(
        recipe=recipe,
        placement=plan_devices(recipe),
        model=resolve_model(recipe.model.path, recipe.model.revision),
        prompts=Prompts(
            rows,
            recipe.data.prompts_per_step,
            shuffle=recipe.data.shuffle,
            seed=recipe.run.seed,
            epochs=recipe.data.epochs,
        ),
        validation_rows=read_rows(Path(recipe.data.validation)),
        run_dir=Path(recipe.run.dir).resolve(),
        checkpoints=plan_checkpoints(recipe, rows),
    )
    checked.prompts.check_steps(recipe.run.steps)
    for each in (rows, checked.validation_rows):
        check_agent(each, recipe.environment.agent)
    for port in recipe.generation.ports:
        # Only looked at; whoever binds it later must still say when it is taken by then.
        bind(port).close()
    check_interpreters(recipe.interpreters.model_dump())
    return checked


def train(checked: Checked, explained: str) -> None:
    """Start everything, take the recipe's steps, and end everything, whatever happens.

    Args:
        checked: the recipe.
        explained: the same with each value's origin, kept in the run's folder.

    Raises:
        StackError: whatever made a step not a proven one.
    """
    from posttrain.cluster import cluster, prepare_environment

    prepare_environment()
    # Only now: what follows imports Ray.
    from posttrain.controller import Controller
    from posttrain.environment.servers import GymServers
    from posttrain.generation.group import GenerationGroup
    from posttrain.metrics.writer import MetricsWriter
    from posttrain.policy.group import PolicyGroup
    from posttrain.rollout.collect import Agent
    from posttrain.serving import Serving
    from posttrain.stacks import register_stack_dump, request_stack_dumps
    from posttrain.stages import Stages
    from posttrain.starting import engine_settings, gym_config, policy_options, seats

    register_stack_dump()
    recipe, run_dir, placement = checked.recipe, checked.run_dir, checked.placement
    limits = recipe.timeouts
    stages = Stages(sys.stderr, on_overrun=request_stack_dumps)
    with ExitStack() as running:
        after = running.enter_context(checked.checkpoints.opened(run_dir))
        writer = running.enter_context(MetricsWriter(run_dir, after=after))
        with writing("recipe.yaml", run_dir):
            (run_dir / "recipe.yaml").write_text(explained, encoding="utf-8")
        settings = engine_settings(recipe, checked.model)
        gym = GymServers(
            Path(recipe.interpreters.gym),
            gym_config(recipe, settings),
            run_dir / "gym",
            limits.start_s,
        )
        # The Gym servers need no cluster, so they import while Ray starts.
        running.callback(gym.stop)
        with writing("Gym's configuration", run_dir):
            gym.start()
        with stages.stage("cluster", limits.cluster_s):
            bundles = running.enter_context(
                cluster(
                    cpus=recipe.cluster.cpus,
                    accelerators=recipe.cluster.accelerators,
                    bundles=placement.bundles,
                    deadline_s=limits.cluster_s,
                    temp_dir=recipe.cluster.temp_dir,
                )
            )
        with stages.stage("start", limits.start_s):
            generation = GenerationGroup(
                settings,
                python=Path(recipe.interpreters.generation),
                placements=seats(placement, "generation", bundles),
                call_timeout_s=limits.refit_s,
            )
            running.push(generation.leave)
            policy = PolicyGroup(
                policy_options(recipe, checked.model),
                python=Path(recipe.interpreters.policy),
                placements=seats(placement, "policy", bundles),
                call_timeout_s=limits.train_s,
            )
            running.callback(policy.shutdown)
            with stages.stage("start_gym", limits.start_s):
                gym.wait_ready()
            with stages.stage("start_policy", limits.start_s):
                policy.wait_ready(limits.start_s)
            with stages.stage("start_generation", limits.start_s):
                generation.wait_ready(limits.start_s)

        serving = Serving(gym, generation)
        controller = Controller(
            recipe=recipe,
            policy=policy,
            generation=generation,
            agent=Agent(
                url=gym.agent_url,
                name=recipe.environment.agent,
                deadline_s=limits.call_s,
                concurrency=recipe.rollouts.concurrency,
                watch=serving.watch,
                silent=serving.silent,
            ),
            prompts=checked.prompts,
            validation_rows=checked.validation_rows,
            stages=stages,
            checkpoints=checked.checkpoints,
        )
        controller.run(writer, run_dir / "samples.jsonl")


if __name__ == "__main__":
    sys.exit(main())
