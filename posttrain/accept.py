"""`python -m posttrain.accept RECIPE [key=value ...]`: rollouts alone, through vLLM and Gym.

Nothing is trained. Rows go through real Gym agents to real engines, as often as the recipe says,
and every rollout must keep the laws of ``posttrain.rollout.checks`` and be what its row expects.
The process needs what the generation worker has.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.command import command
from posttrain.config import explain
from posttrain.config.acceptance import AcceptRecipe
from posttrain.data import read_rows
from posttrain.devices import accelerators
from posttrain.disk import writing
from posttrain.environment.conversations import AGENTS, ConversationServers
from posttrain.errors import DataError
from posttrain.generation.port import bind
from posttrain.interpreters import check_interpreters
from posttrain.model.revision import resolve_model
from posttrain.placement import check_machine, plan_engines
from posttrain.rollout.expected import read_expected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.config import Loaded
    from posttrain.data import Row
    from posttrain.placement import Placement
    from posttrain.rollout.expected import Expected


@dataclass(frozen=True)
class Checked:
    """A recipe with everything that could be checked without starting a process.

    Attributes:
        expected: what each row's rollout must be like, by the row's index.
    """

    recipe: AcceptRecipe
    placement: Placement
    model: Path
    rows: list[Row]
    expected: dict[int, Expected]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the recipe, or explain it; returns the exit code."""
    return command("accept", __doc__, AcceptRecipe, run, argv)


def run(loaded: Loaded[AcceptRecipe]) -> None:
    """Check the recipe, then accept its rollouts.

    Raises:
        StackError: naming the rollouts that are not as they must be, or whatever prevented one.
    """
    accept(check(loaded.recipe), explain(loaded))


def check(recipe: AcceptRecipe) -> Checked:
    """Check devices, model revision, rows, ports and interpreters.

    Raises:
        StackError: the first thing that is wrong.
    """
    check_machine(recipe, len(os.sched_getaffinity(0)), accelerators())
    rows = read_rows(Path(recipe.data.rollouts))
    for row in rows:
        name = row.raw["agent_ref"]["name"]
        if name not in AGENTS:
            raise DataError(
                f"row {row.index}: a task for {' or '.join(AGENTS)}",
                f"agent_ref.name {name!r}",
                "name one of these agents",
            )
    checked = Checked(
        recipe=recipe,
        placement=plan_engines(recipe),
        model=resolve_model(recipe.model.path, recipe.model.revision),
        rows=rows,
        expected={row.index: read_expected(row) for row in rows},
    )
    for port in recipe.generation.ports:
        # Only looked at; whoever binds it later must still say when it is taken by then.
        bind(port).close()
    check_interpreters(recipe.interpreters.model_dump())
    return checked


def accept(checked: Checked, explained: str) -> None:
    """Start engines and Gym, take the recipe's rounds, and end everything, whatever happens.

    Args:
        checked: the recipe.
        explained: the same with each value's origin, kept in the run's folder.

    Raises:
        StackError: naming the rollouts that are not as they must be, or whatever prevented one.
    """
    from posttrain.cluster import cluster, prepare_environment

    prepare_environment()
    # Only now: what follows imports Ray.
    from posttrain.environment.servers import GymServers
    from posttrain.generation.group import GenerationGroup
    from posttrain.metrics.writer import MetricsWriter
    from posttrain.rollout.reference import read_limits, render_prompts
    from posttrain.rollout.rounds import Rounds
    from posttrain.serving import Serving
    from posttrain.stacks import register_stack_dump, request_stack_dumps
    from posttrain.stages import Stages
    from posttrain.starting import engine_settings, gym_config, seats

    register_stack_dump()
    recipe, limits = checked.recipe, checked.recipe.timeouts
    run_dir = Path(recipe.run.dir).resolve()
    stages = Stages(sys.stderr, on_overrun=request_stack_dumps)
    with ExitStack() as running:
        writer = running.enter_context(MetricsWriter(run_dir, events=False))
        with writing("recipe.yaml", run_dir):
            (run_dir / "recipe.yaml").write_text(explained, encoding="utf-8")
        settings = engine_settings(recipe, checked.model)
        gym = GymServers(
            Path(recipe.interpreters.gym),
            ConversationServers(gym_config(recipe, settings)),
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
                    bundles=checked.placement.bundles,
                    deadline_s=limits.cluster_s,
                    temp_dir=recipe.cluster.temp_dir,
                )
            )
        with stages.stage("start", limits.start_s):
            generation = GenerationGroup(
                settings,
                python=Path(recipe.interpreters.generation),
                placements=seats(checked.placement, "generation", bundles),
                call_timeout_s=limits.call_s,
            )
            running.push(generation.leave)
            prompts = render_prompts(checked.model, checked.rows)
            with stages.stage("start_gym", limits.start_s):
                gym.wait_ready()
            with stages.stage("start_generation", limits.start_s):
                generation.wait_ready(limits.start_s)
        rounds = Rounds(
            recipe=recipe,
            rows=checked.rows,
            expected=checked.expected,
            prompts=prompts,
            limits=read_limits(checked.model, recipe.generation.max_new_tokens),
            serving=Serving(gym, generation),
            stages=stages,
        )
        rounds.run(writer, run_dir)


if __name__ == "__main__":
    sys.exit(main())
