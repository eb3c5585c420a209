"""Gym's own rollout collector as a side of bench_step.py, on the servers and engine of ours.

    PYTHONPATH=. NEMO_GYM_CONFIG_DICT=... PYTHON bench/step_collector.py --size 2x8x32

where PYTHON is the `gym` worker's. This is the call that Gym offers to trainers and that its
`ng_collect_rollouts` makes too; that command's files, metrics and progress are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from nemo_gym.rollout_collection import RolloutCollectionHelper

from bench import step_work as work
from bench.step_turns import Answers, Asked


async def collect(helper: RolloutCollectionHelper, size: work.Size) -> int:
    """Collect one step's rollouts; how many tokens were generated."""
    examples = helper.preprocess_examples(work.gym_rows(size.prompts), num_repeats=size.rollouts)
    tokens = 0
    for future in helper.run_examples(examples):
        _, result = await future
        tokens += sum(
            len(item["generation_token_ids"])
            for item in result["response"]["output"]
            if "generation_token_ids" in item
        )
    return tokens


async def take_turns(size: work.Size) -> None:
    """Answer turns, all in one event loop: Gym's HTTP client belongs to one."""
    answers = Answers()
    helper = RolloutCollectionHelper()
    answers.say(threads="1")
    while (asked := answers.next()) is not None:
        seconds, tokens = await turn(helper, size, asked)
        answers.say(seconds=seconds, weights="", loss=0.0, tokens=tokens)


async def turn(
    helper: RolloutCollectionHelper, size: work.Size, asked: Asked
) -> tuple[list[float], int]:
    """Seconds of each timed collection, and the tokens of the last."""
    seconds, tokens = [], 0
    for number in range(asked.warm + asked.steps):
        started = time.perf_counter()
        tokens = await collect(helper, size)
        if number >= asked.warm:
            seconds.append(time.perf_counter() - started)
    return seconds, tokens


def main() -> None:
    """Take turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=work.Size.parse, required=True)
    asyncio.run(take_turns(parser.parse_args().size))


if __name__ == "__main__":
    main()
