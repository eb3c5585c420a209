"""Ranks that die or hang in the middle of a step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from unit.chaos.tree import ENDING_S, ENGINE, RANK, SOME

if TYPE_CHECKING:
    from collections.abc import Callable

    from unit.chaos.tree import Training


def test_a_rank_that_dies_in_training_is_named_at_once(train: Callable[..., Training]) -> None:
    run = train(*SOME)
    run.until("generation")
    ranks = run.titled(RANK)
    assert len(ranks) == 2
    run.until("training")
    ranks[1].kill()

    said = run.fails(within_s=ENDING_S)

    assert f"pid: {ranks[1].pid}" in said
    assert re.search(r"train_step of policy rank (\d)\n  found: policy rank \1 died", said)


def test_a_rank_that_hangs_ends_the_run_at_the_deadline_with_the_others_stacks(
    train: Callable[..., Training],
) -> None:
    run = train(*SOME, "timeouts.train_s=8")
    run.until("generation")
    (stopped, other), engines = run.titled(RANK), run.titled(ENGINE)
    stopped.suspend()
    run.until("logprobs")

    said = run.fails(within_s=8 + ENDING_S)

    assert "within 8 s" in said
    assert "logprobs" in said
    # Its own stacks it cannot write, but everybody else's are there.
    for process in (other, *engines):
        assert "(most recent call first)" in run.stacks_of(process.pid)
    assert "synchronous.py" in run.printed()
