"""The stack as sides of bench_step.py, in one process: rollouts in process, and by Gym.

    PYTHONPATH=. PYTHON bench/step_ours.py --size 2x8x32 --generation PYTHON --gym PYTHON

where the first PYTHON is the `policy` worker's. Three rows: `in process` is the controller's own
training and refit on rollouts of the engines' `generate` with a reward function of this process;
`gym` is the same on rollouts by Gym's servers; `gym rollouts` is the rollouts of that alone, which
`bench/step_collector.py` measures for Gym's own collector on the same servers and engine.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from bench import step_work as work
from bench.step_stack import START_S, Pythons, Stack, make_recipe, stack
from bench.step_turns import Answers, timed
from posttrain.controller.learner import Learner
from posttrain.data import Row
from posttrain.environment.configure import AGENT, HOST, global_config
from posttrain.environment.servers import GymServers
from posttrain.generation.settings import Sampling
from posttrain.metrics.writer import MetricsWriter
from posttrain.model.load import load_tokenizer
from posttrain.rollout.collect import Agent, collect
from posttrain.sample import Sample
from posttrain.starting import gym_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from posttrain.environment.configure import GymConfig


class Ours:
    """Steps of the stack's controller, on either kind of rollouts."""

    def __init__(
        self, size: work.Size, running: Stack, agent: Agent, writer: MetricsWriter
    ) -> None:
        self.size = size
        self.tokens = 0
        self.loss = 0.0
        self._agent = agent
        self._generation = running.generation
        self._writer = writer
        self._version = 0
        self._seeds = count()
        self._rows = [Row(index, raw) for index, raw in enumerate(work.gym_rows(size.prompts))]
        ids = work.prompt_ids(load_tokenizer(work.MODEL), size.prompts)
        self._prompts = [prompt for prompt in ids for _ in range(size.rollouts)]
        self._sampling = Sampling(
            temperature=work.TEMPERATURE, max_tokens=size.new_tokens, ignore_eos=True
        )
        self._learner = Learner(running.recipe, running.policy, running.generation, running.stages)

    def in_process(self) -> list[Sample]:
        """Rollouts by the engines' own call, rewarded here."""
        completions = self._generation.generate(self._prompts, self._sampling)
        return [
            Sample(
                row=number // self.size.rollouts,
                prompt_ids=tuple(prompt),
                completion_ids=ids,
                logprobs=logprobs,
                reward=work.reward(ids),
                truncated=True,
            )
            for number, (prompt, (ids, logprobs)) in enumerate(
                zip(self._prompts, completions, strict=True)
            )
        ]

    def gym(self) -> list[Sample]:
        """Rollouts by Gym's servers, which verify them."""
        samples = collect(self._agent, self._rows, self.size.rollouts, seed=f"{next(self._seeds)}")
        self.tokens = sum(len(sample.completion_ids) for sample in samples)
        return samples

    def step(self, rollouts: Callable[[], list[Sample]]) -> None:
        """A whole step, its metrics written, as the controller's own loop takes it."""
        learner = self._learner
        limits = learner.recipe.timeouts
        with learner.stages.stage("step", START_S):
            with learner.stages.stage("generation", limits.generate_s):
                samples = [replace(each, weight_version=self._version) for each in rollouts()]
            metrics = learner.train(samples)
            self._version += 1
            with learner.stages.stage("refit", limits.refit_s):
                metrics |= learner.refit(self._version)
        self._writer.write(self._version, metrics | learner.stages.take_timings())
        self.tokens = sum(len(sample.completion_ids) for sample in samples)
        self.loss = float(metrics["train/loss"])

    def weights(self) -> str:
        """Digest of the policy's weights."""
        return self._learner.policy.checksum()

    def rows(self) -> dict[str, Callable[[], object]]:
        """What each row's steps do."""
        return {
            "in process": lambda: self.step(self.in_process),
            "gym": lambda: self.step(self.gym),
            "gym rollouts": self.gym,
        }


def rolled_out_alike(config: GymConfig) -> GymConfig:
    """Have Gym's rollouts go on to their length limit, as all others do."""
    return replace(config, sampling={**config.sampling, "ignore_eos": True})


def collector_config(config: GymConfig, ports: Mapping[str, int]) -> str:
    """What Gym's own collector is to know: our servers, and which of them takes its rollouts.

    It sends them to an environment server, by default a relay that passes them on to the agent
    unchanged. Here that is the agent's own address, which saves it the relay.
    """
    relay = {
        "legacy_agent": {
            "entrypoint": "app.py",
            "host": HOST,
            "port": ports[AGENT],
            "agent_server": {"type": "responses_api_agents", "name": AGENT},
        }
    }
    servers = global_config(config, dict(ports))
    return json.dumps(servers | {"math_environment_server": {"environment_servers": relay}})


def main() -> None:
    """Take turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=work.Size.parse, required=True)
    parser.add_argument("--generation", type=Path, required=True)
    parser.add_argument("--gym", type=Path, required=True)
    options = parser.parse_args()
    answers = Answers()
    pythons = Pythons(Path(sys.executable), options.generation, options.gym)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        recipe = make_recipe(pythons, options.size, folder)
        with stack(recipe) as running, MetricsWriter(folder) as writer:
            config = rolled_out_alike(gym_config(recipe, running.settings))
            with GymServers(options.gym, config, folder / "gym", START_S) as gym:
                gym.wait_ready()
                agent = Agent(gym.agent_url, concurrency=recipe.rollouts.concurrency)
                ours = Ours(options.size, running, agent, writer)
                answers.say(
                    threads="1 engine thread, 2 ranks of 1",
                    gym=collector_config(config, gym.ports),
                )
                rows = ours.rows()
                for asked in answers:
                    seconds = timed(rows[asked.row], asked)
                    answers.say(
                        seconds=seconds,
                        weights=ours.weights(),
                        loss=ours.loss,
                        tokens=ours.tokens,
                    )


if __name__ == "__main__":
    main()
