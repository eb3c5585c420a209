"""`python -m posttrain.train RECIPE [key=value ...]`: the synchronous training run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from posttrain.checkpoint.keeper import plan_checkpoints
from posttrain.command import command
from posttrain.config import TrainRecipe, explain
from posttrain.interpreters import check_interpreters
from posttrain.launch import Launch, check, launched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.checkpoint.keeper import Checkpoints
    from posttrain.config import Loaded
    from posttrain.launch import Checked


def main(argv: Sequence[str] | None = None) -> int:
    """Run the recipe, or explain it; returns the exit code."""
    return command("train", __doc__, TrainRecipe, run, argv)


def run(loaded: Loaded[TrainRecipe]) -> None:
    """Check the recipe, then take the steps that are left of it.

    Raises:
        StackError: the recipe cannot work, or whatever made a step not a proven one.
    """
    checked = check(loaded.recipe)
    checkpoints = plan_checkpoints(loaded.recipe, checked.prompts.rows)
    start = checkpoints.start
    for line in start.sentences():
        sys.stderr.write(f"posttrain: {line}\n")
    if start.step >= loaded.recipe.run.steps:
        sys.stderr.write("posttrain: every step of run.steps is taken; nothing to do\n")
        return
    check_interpreters(loaded.recipe.interpreters.model_dump())
    train(checked, checkpoints, explain(loaded))


def train(checked: Checked, checkpoints: Checkpoints, explained: str) -> None:
    """Start everything, take the recipe's steps, and end everything, whatever happens.

    Args:
        checked: the recipe.
        checkpoints: where the run begins, and what it leaves to go on from.
        explained: the recipe with each value's origin, kept in the run's folder.

    Raises:
        StackError: whatever made a step not a proven one.
    """
    with (
        checkpoints.opened(checked.run_dir) as after,
        launched(checked, Launch(explained, after=after)) as ready,
    ):
        # Only now: it imports what a process without a prepared environment must not.
        from posttrain.controller.synchronous import Controller

        controller = Controller(
            learner=ready.learner,
            agent=ready.agent,
            prompts=checked.prompts,
            validation_rows=checked.validation_rows,
            checkpoints=checkpoints,
        )
        controller.run(ready.writer, checked.run_dir / "samples.jsonl")


if __name__ == "__main__":
    sys.exit(main())
