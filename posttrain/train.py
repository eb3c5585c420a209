"""`python -m posttrain.train RECIPE [key=value ...]`: the synchronous training run.

Policy ranks, engines and Gym servers start together, since importing their libraries is what takes
the time; the engines' ports are chosen first, so that Gym need not wait for the engines.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from posttrain.config import explain, load_recipe
from posttrain.data import check_agent, read_rows
from posttrain.disk import writing
from posttrain.errors import RecipeError, StackError
from posttrain.generation.port import bind
from posttrain.interpreters import check_interpreters
from posttrain.model.revision import resolve_model
from posttrain.placement import check_machine, plan_devices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.config import Recipe
    from posttrain.data import Row
    from posttrain.placement import Placement

# How long a process may take to answer a health check before it is said to be silent.
HEALTH_S = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the recipe, or explain it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="posttrain.train", description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--explain", action="store_true", help="print each value's origin and end")
    arguments = parser.parse_args(argv)
    try:
        loaded = load_recipe(arguments.recipe, arguments.overrides)
        if arguments.explain:
            sys.stdout.write(explain(loaded))
            return 0
        checked = check(loaded.recipe)
        # A run that is told to end leaves by the same way as one that fails: through its clean-up.
        signal.signal(signal.SIGTERM, _leave)
        train(checked, explain(loaded))
    except StackError as error:
        sys.stderr.write(f"posttrain: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("posttrain: interrupted\n")
        return 128 + signal.SIGINT
    return 0


@dataclass(frozen=True)
class Checked:
    """A recipe with everything that could be checked without starting a process."""

    recipe: Recipe
    placement: Placement
    model: Path
    train_rows: list[Row]
    validation_rows: list[Row]
    run_dir: Path


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
    check_machine(recipe, len(os.sched_getaffinity(0)), _accelerators())
    checked = Checked(
        recipe=recipe,
        placement=plan_devices(recipe),
        model=resolve_model(recipe.model.path, recipe.model.revision),
        train_rows=read_rows(Path(recipe.data.train)),
        validation_rows=read_rows(Path(recipe.data.validation)),
        run_dir=Path(recipe.run.dir).resolve(),
    )
    for rows in (checked.train_rows, checked.validation_rows):
        check_agent(rows, recipe.environment.agent)
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
    from posttrain.refit.transport import run_folder
    from posttrain.rollout.collect import Agent
    from posttrain.stacks import register_stack_dump, request_stack_dumps
    from posttrain.stages import Stages
    from posttrain.starting import engine_settings, gym_config, policy_options, seats

    register_stack_dump()
    recipe, run_dir, placement = checked.recipe, checked.run_dir, checked.placement
    limits = recipe.timeouts
    stages = Stages(sys.stderr, on_overrun=request_stack_dumps)
    with ExitStack() as running:
        writer = running.enter_context(MetricsWriter(run_dir))
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

        def watch() -> None:
            gym.check()
            generation.check()

        def silent() -> list[str]:
            request_stack_dumps()
            return [*generation.silent(HEALTH_S), *gym.silent(HEALTH_S)]

        folder = run_folder(f"posttrain-{os.getpid()}")
        running.callback(partial(shutil.rmtree, folder, ignore_errors=True))
        controller = Controller(
            recipe=recipe,
            policy=policy,
            generation=generation,
            agent=Agent(
                url=gym.agent_url,
                name=recipe.environment.agent,
                deadline_s=limits.call_s,
                concurrency=recipe.rollouts.concurrency,
                watch=watch,
                silent=silent,
            ),
            train_rows=checked.train_rows,
            validation_rows=checked.validation_rows,
            stages=stages,
            weights=folder / "weights.safetensors",
        )
        controller.run(writer, run_dir / "samples.jsonl")


def _accelerators() -> int:
    """CUDA devices that this process may use, without importing torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip()])
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


def _leave(number: int, _frame: Any) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
