"""Rounds of the same rollouts: each round's laws, and that every round is the first one again."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from posttrain.disk import Lines, writing
from posttrain.errors import StackError
from posttrain.rollout.checks import KINDS, Fault, faults, logprob_difference, repetition
from posttrain.rollout.collect import Agent, collect_as
from posttrain.rollout.conversation import Conversation, to_conversation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from posttrain.config.acceptance import AcceptRecipe
    from posttrain.data import Row
    from posttrain.metrics.writer import MetricsWriter
    from posttrain.rollout.checks import Limits
    from posttrain.rollout.expected import Expected
    from posttrain.serving import Serving
    from posttrain.stages import Stages

_SHOWN = 10


@dataclass(frozen=True)
class Rounds:
    """What the rounds need, all of it ready.

    Attributes:
        recipe: the recipe.
        rows: what is rolled out.
        expected: what each row's rollout must be like, by the row's index.
        prompts: token ids of each row's prompt, likewise.
        limits: what every turn must keep.
        serving: engines and Gym.
        stages: times and bounds each round.
    """

    recipe: AcceptRecipe
    rows: Sequence[Row]
    expected: Mapping[int, Expected]
    prompts: Mapping[int, Sequence[int]]
    limits: Limits
    serving: Serving
    stages: Stages

    def run(self, writer: MetricsWriter, run_dir: Path) -> None:
        """Take every round, writing its metrics and rollouts as soon as it is done.

        Raises:
            StackError: rollouts have faults, which are named; or whatever prevented a rollout.
        """
        keeping = partial(writing, "rollouts", run_dir)
        all_faults: list[Fault] = []
        first: list[Conversation] = []
        with keeping():
            lines = Lines(run_dir / "rollouts.jsonl")
        with lines:
            for number in range(1, self.recipe.run.rounds + 1):
                seconds: list[float] = []
                with self.stages.stage("generation", self.recipe.timeouts.generate_s):
                    conversations = self._collect(seconds)
                first = first or conversations
                found = [fault for one in conversations for fault in self._faults(one)]
                found += self._repetition(first, conversations)
                timings = self.stages.take_timings()
                metrics = counts(conversations, self.limits) | _faults_by_kind(found)
                metrics |= _speed(conversations, timings["timing/generation"], seconds)
                if number > 1:
                    metrics["rollout/repeat_logprob_difference"] = max(
                        map(logprob_difference, first, conversations)
                    )
                with keeping():
                    lines.append(*(_line(number, conversation) for conversation in conversations))
                writer.write(number, metrics | timings)
                all_faults += found
        _refuse(all_faults, run_dir)

    def _collect(self, seconds: list[float]) -> list[Conversation]:
        """Roll out all rows, each by the agent that it is meant for."""
        found: list[Conversation] = []
        names = dict.fromkeys(row.raw["agent_ref"]["name"] for row in self.rows)
        for name in names:
            agent = Agent(
                url=self.serving.gym.url(name),
                name=name,
                deadline_s=self.recipe.timeouts.call_s,
                concurrency=self.recipe.rollouts.concurrency,
                watch=self.serving.watch,
                silent=self.serving.silent,
                took=seconds.append,
            )
            found += collect_as(
                to_conversation,
                agent,
                [row for row in self.rows if row.raw["agent_ref"]["name"] == name],
                self.recipe.rollouts.per_prompt,
                # The same in each round, which must be the same rollouts again.
                seed=f"{self.recipe.run.seed}/accept",
            )
        return found

    def _faults(self, conversation: Conversation) -> list[Fault]:
        row = conversation.row
        return faults(conversation, self.limits, self.prompts[row], self.expected[row])

    @staticmethod
    def _repetition(first: Sequence[Conversation], again: Sequence[Conversation]) -> list[Fault]:
        pairs = zip(first, again, strict=True)
        return [fault for one, other in pairs for fault in repetition(one, other)]


def counts(conversations: Sequence[Conversation], limits: Limits) -> dict[str, float]:
    """Metrics of what was said, of at least one rollout."""
    turns = [turn for conversation in conversations for turn in conversation.turns]
    stops = Counter(limits.stop(turn) for turn in turns)
    logprobs = [logprob for turn in turns for logprob in turn.logprobs]
    rewards = [conversation.reward for conversation in conversations]
    return {
        "rollout/rollouts": len(conversations),
        "rollout/turns": len(turns),
        "rollout/continued_turns": len(turns) - len(conversations),
        "rollout/turns_ended": stops["end"],
        "rollout/turns_cut": stops["length"],
        "rollout/prompt_tokens": sum(len(turn.prompt_ids) for turn in turns),
        "rollout/completion_tokens": len(logprobs),
        **_spread("rollout/reward", rewards),
        **_spread("rollout/logprob", logprobs),
    }


def _faults_by_kind(found: Sequence[Fault]) -> dict[str, float]:
    kinds = Counter(fault.kind for fault in found)
    return {f"rollout/{kind}_faults": kinds[kind] for kind in KINDS}


def _speed(
    conversations: Sequence[Conversation], took: float, seconds: Sequence[float]
) -> dict[str, float]:
    tokens = sum(len(turn.logprobs) for one in conversations for turn in one.turns)
    return {"rollout/tokens_per_second": tokens / took, **_spread("rollout/seconds", seconds)}


def _spread(name: str, values: Sequence[float]) -> dict[str, float]:
    return {f"{name}/min": min(values), f"{name}/max": max(values), f"{name}/mean": fmean(values)}


def _line(number: int, conversation: Conversation) -> str:
    return json.dumps({"step": number, **asdict(conversation)}, ensure_ascii=False)


def _refuse(found: Sequence[Fault], run_dir: Path) -> None:
    if found:
        shown = "".join(f"\n    {fault}" for fault in found[:_SHOWN])
        more = f"\n    and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise StackError(
            "rollouts without a fault",
            f"{len(found)} faults:{shown}{more}",
            f"read {run_dir / 'rollouts.jsonl'}, which has every token",
        )
