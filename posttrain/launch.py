"""What every run that trains does before its first step: check the recipe, start everything.

Policy ranks, engines and Gym servers start together, since importing their libraries is what takes
the time; the engines' ports are chosen first, so that Gym need not wait for the engines.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.data import check_agent, read_rows
from posttrain.dataset import Prompts
from posttrain.devices import accelerators
from posttrain.disk import writing
from posttrain.generation.port import bind
from posttrain.model.revision import resolve_model
from posttrain.placement import (
    check_machine,
    check_parallel,
    check_transport,
    plan_devices,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posttrain.config import Recipe
    from posttrain.controller.learner import Learner
    from posttrain.data import Row
    from posttrain.environment.configure import GymConfig
    from posttrain.environment.servers import GymServers
    from posttrain.generation.settings import EngineSettings
    from posttrain.metrics.writer import MetricsWriter
    from posttrain.placement import Placement
    from posttrain.rollout.collect import Agent

    Engines = Sequence[EngineSettings]


@dataclass(frozen=True)
class Checked:
    """A recipe with everything that could be checked without starting a process."""

    recipe: Recipe
    placement: Placement
    model: Path
    prompts: Prompts
    validation_rows: list[Row]
    run_dir: Path


@dataclass(frozen=True)
class Launch:
    """How an entry point starts what others start otherwise.

    Attributes:
        explained: the recipe with each value's origin, kept in the run's folder.
        servers: makes Gym's servers, unstarted; None for those of the math environment.
        prepare: called once the cluster is there, with the engines' settings, before the engines
            start; returns the settings that they start with. What it starts ends with the stack.
        after: the last step of the run's earlier part; None for a new run.
    """

    explained: str
    servers: Callable[[GymConfig], GymServers] | None = None
    prepare: Callable[[ExitStack, Engines], Engines] = lambda _, settings: settings
    after: int | None = None


@dataclass(frozen=True)
class Launched:
    """Everything that a run needs, ready.

    Attributes:
        learner: policy and engines.
        gym: Gym's servers.
        agent: the recipe's agent among them.
        writer: of the metrics.
    """

    learner: Learner
    gym: GymServers
    agent: Agent
    writer: MetricsWriter


def check(recipe: Recipe) -> Checked:
    """Check devices, model revision, datasets and ports; `check_interpreters` is for the caller.

    Raises:
        StackError: the first thing that is wrong.
    """
    check_parallel(recipe)
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
    )
    checked.prompts.check_steps(recipe.run.steps)
    for each in (rows, checked.validation_rows):
        check_agent(each, recipe.environment.agent)
    for port in recipe.generation.ports:
        # Only looked at; whoever binds it later must still say when it is taken by then.
        bind(port).close()
    return checked


@contextmanager
def launched(checked: Checked, launch: Launch) -> Iterator[Launched]:
    """Start everything, and end everything, whatever happens.

    Raises:
        StackError: something did not start.
    """
    from posttrain.cluster import cluster, prepare_environment

    prepare_environment()
    # Only now: what follows imports Ray.
    from posttrain.controller.learner import Learner
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
        writer = running.enter_context(MetricsWriter(run_dir, after=launch.after))
        with writing("recipe.yaml", run_dir):
            (run_dir / "recipe.yaml").write_text(launch.explained, encoding="utf-8")
        settings: Engines = engine_settings(recipe, checked.model)
        config = gym_config(recipe, settings)
        gym = (
            GymServers(Path(recipe.interpreters.gym), config, run_dir / "gym", limits.start_s)
            if launch.servers is None
            else launch.servers(config)
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
            settings = launch.prepare(running, settings)
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
        agent = Agent(
            url=gym.url(recipe.environment.agent),
            name=recipe.environment.agent,
            deadline_s=limits.call_s,
            concurrency=recipe.rollouts.concurrency,
            watch=serving.watch,
            silent=serving.silent,
        )
        yield Launched(Learner(recipe, policy, generation, stages), gym, agent, writer)
