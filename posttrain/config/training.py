"""What recipes say to the entry points that train: ``train`` and ``single_controller``."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from posttrain.config.checkpoint import Checkpoint
from posttrain.config.controller import Controller
from posttrain.config.dataplane import DataPlane, RowsInMemory
from posttrain.config.problem import ignored, wrong
from posttrain.config.schema import Recipe
from posttrain.config.token_capture import TokenCapture


class TrainRecipe(Recipe):
    """A whole recipe for ``train``."""

    checkpoint: Checkpoint
    dataplane: RowsInMemory

    @model_validator(mode="after")
    def _one_turn(self) -> Self:
        if self.environment.agent != "math_simple_agent":
            readers, give = "'single_controller'", "math_simple_agent"
            raise wrong(
                "environment.agent", ignored("'train', whose rows have one turn,", readers, give)
            )
        return self


class SingleRecipe(Recipe):
    """A whole recipe for ``single_controller``."""

    dataplane: DataPlane
    controller: Controller
    token_capture: TokenCapture

    @model_validator(mode="after")
    def _a_group_fits(self) -> Self:
        if self.rollouts.per_prompt > self.rollouts.concurrency:
            raise wrong(
                "rollouts.concurrency",
                f"the {self.rollouts.per_prompt} rollouts of a prompt are in flight together; give"
                " at least as many",
            )
        return self

    @model_validator(mode="after")
    def _generation_goes_on(self) -> Self:
        if self.generation.colocated and self.cluster.accelerators:
            raise wrong(
                "generation.colocated",
                "engines that hand their accelerators over to the policy cannot generate while it"
                " trains; give false, or use 'train'",
            )
        return self

    @model_validator(mode="after")
    def _engines_reach_the_staging_area(self) -> Self:
        if self.token_capture.enabled and self.dataplane.kind == "memory":
            raise wrong(
                "dataplane.kind",
                "engines stage their tokens from other processes, which the memory of this one is"
                " not for; give transfer_queue, or token_capture.enabled false",
            )
        return self
