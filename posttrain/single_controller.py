"""`python -m posttrain.single_controller RECIPE [key=value ...]`: a run on one event loop.

Rollouts, training and refits overlap as far as the recipe's staleness window allows; the rows that
are trained on wait in the data plane that the recipe names (docs/controller.md).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.command import command
from posttrain.config import SingleRecipe, explain
from posttrain.imports import serve_promptly
from posttrain.interpreters import check_interpreters, libraries
from posttrain.launch import Launch, check, launched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from posttrain.config import Loaded
    from posttrain.controller.source import Reader
    from posttrain.dataplane import DataPlane
    from posttrain.environment.configure import GymConfig
    from posttrain.environment.servers import GymServers
    from posttrain.generation.settings import EngineSettings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the recipe, or explain it; returns the exit code."""
    return command("single_controller", __doc__, SingleRecipe, run, argv)


def run(loaded: Loaded[SingleRecipe]) -> None:
    """Check the recipe, start everything, take its steps, and end everything, whatever happens.

    Raises:
        StackError: the recipe cannot work, or whatever made a step not a proven one.
    """
    recipe, checked = loaded.recipe, check(loaded.recipe)
    check_interpreters(recipe.interpreters.model_dump(), libraries(recipe))
    equipment = Equipment(recipe, checked.run_dir)
    launch = Launch(explain(loaded), servers=equipment.servers, prepare=equipment.prepare)
    with launched(checked, launch) as ready:
        from posttrain.controller.single import SingleController
        from posttrain.controller.source import GymSource
        from posttrain.controller.watchdog import Watchdog
        from posttrain.stacks import request_stack_dumps

        controller = SingleController(
            recipe=recipe,
            learner=ready.learner,
            source=GymSource(ready.agent, equipment.reader(ready.learner.stages.say)),
            plane=equipment.plane,
            prompts=checked.prompts,
            validation_rows=checked.validation_rows,
            watchdog=Watchdog(recipe.controller.stall_s, sys.stderr, request_stack_dumps),
        )
        controller.run(ready.writer, checked.run_dir / "samples.jsonl")


class Equipment:
    """What this entry point starts besides what every run does: the data plane, and the gate.

    Nothing of token capture is imported where it is off.

    Args:
        recipe: the recipe.
        run_dir: the run's folder.
    """

    plane: DataPlane

    def __init__(self, recipe: SingleRecipe, run_dir: Path) -> None:
        self._recipe = recipe
        self._run_dir = run_dir
        self._gym: GymServers | None = None

    def servers(self, config: GymConfig) -> GymServers:
        """Gym's servers of the recipe's agent; with capture on, behind the gate."""
        from posttrain.environment.configure import AGENT
        from posttrain.environment.conversations import ConversationServers
        from posttrain.environment.servers import GymServers

        recipe, folder = self._recipe, self._run_dir / "gym"
        python, limit = Path(recipe.interpreters.gym), recipe.timeouts.start_s
        configured = config if recipe.environment.agent == AGENT else ConversationServers(config)
        if not recipe.token_capture.enabled:
            self._gym = GymServers(python, configured, folder, limit)
            return self._gym
        from posttrain.capture.gate.configure import CapturedServers
        from posttrain.capture.gate.servers import Gate

        _, _, turns = recipe.token_capture.wanted
        captured = CapturedServers(configured, self._run_dir / "capture", turns)
        self._gym = Gate(python, captured, folder, limit)
        return self._gym

    def prepare(
        self, running: ExitStack, settings: Sequence[EngineSettings]
    ) -> Sequence[EngineSettings]:
        """Start the data plane, and tell the engines of it where they are to stage tokens."""
        own = self._recipe.dataplane
        if own.kind == "memory":
            from posttrain.dataplane import MemoryPlane

            self.plane = MemoryPlane()
        else:
            from posttrain.dataplane.transfer_queue import TransferQueuePlane

            self.plane = TransferQueuePlane.start(
                python=Path(self._recipe.interpreters.policy),
                units=own.storage_units,
                deadline_s=own.deadline_s,
            )
        running.callback(self.plane.close)
        if not self._recipe.token_capture.enabled:
            return settings
        from posttrain.capture.settings import CaptureSettings

        deadline_s, _, _ = self._recipe.token_capture.wanted
        capture = CaptureSettings(plane=self.plane.handle(), deadline_s=deadline_s)
        return [replace(each, capture=capture) for each in settings]

    def reader(self, say: Callable[[str], None]) -> Reader:
        """What makes rollouts of the agent's answers; only when everything runs.

        Args:
            say: writes a line for people into the log of the run.
        """
        from posttrain.controller.source import AnswerReader

        serve_promptly()
        if not self._recipe.token_capture.enabled:
            return AnswerReader()
        from posttrain.capture.gate.servers import Gate
        from posttrain.capture.reader import CapturedReader
        from posttrain.capture.staging.plane import PlaneStore

        if not isinstance(self._gym, Gate):
            raise TypeError(f"capture without a gate: {self._gym}")
        rollouts = self._recipe.rollouts.concurrency
        store = PlaneStore(self.plane)
        return CapturedReader(self._gym, store, self._recipe.token_capture, rollouts, say)


if __name__ == "__main__":
    sys.exit(main())
