"""What a step optimises: how rewards become advantages, and which samples it may use."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from posttrain.config.keys import Section
from posttrain.config.problem import ignored, wrong


class Advantages(Section):
    """How rewards become advantages."""

    kind: Literal["reinforce_plus_plus", "reinforce_plus_plus_baseline", "grpo"] = Field(
        description="REINFORCE++: normalised over the whole batch; with baseline: after the mean"
        " reward of the prompt's rollouts is subtracted; GRPO: normalised among them alone"
    )
    normalise_std: bool = Field(
        description="whether to divide by the standard deviation; only `grpo` can do without"
    )
    leave_one_out: bool = Field(
        description="whether a rollout's own reward stays out of its baseline; only `grpo` can"
    )
    epsilon: Annotated[float, Field(gt=0)] | None = Field(
        description="added to the standard deviation; null exactly where none divides"
    )
    kl_coefficient: float = Field(
        ge=0,
        description="reward lost a nat of divergence from the start weights, token by token; above"
        " 0 the ranks keep those weights too; only the REINFORCE++ kinds can",
    )
    kl_estimator: Literal["k1", "k2", "k3"] | None = Field(
        description="how a token's divergence is estimated; null exactly where `kl_coefficient`"
        " is 0"
    )

    @model_validator(mode="after")
    def _nothingignored(self) -> Self:
        reinforce = "reinforce_plus_plus and reinforce_plus_plus_baseline"
        if self.kind == "grpo" and self.kl_coefficient:
            raise wrong("kl_coefficient", ignored("grpo", reinforce, "0.0"))
        if self.kind != "grpo" and not self.normalise_std:
            raise wrong("normalise_std", ignored(self.kind, "grpo", "true"))
        if self.kind != "grpo" and self.leave_one_out:
            raise wrong("leave_one_out", ignored(self.kind, "grpo", "false"))
        if (self.epsilon is None) == self.normalise_std:
            raise wrong(
                "epsilon",
                "a deviation divides; give a number"
                if self.normalise_std
                else ignored("normalise_std false", "normalise_std true", "null"),
            )
        if (self.kl_estimator is None) == (self.kl_coefficient > 0):
            raise wrong(
                "kl_estimator",
                "a divergence is to be estimated; give k1 (as published), k2 or k3"
                if self.kl_coefficient
                else ignored("kl_coefficient 0", "kl_coefficient above 0", "null"),
            )
        return self


class Parity(Section):
    """What a step does about disagreement between generation and policy (docs/parity.md)."""

    mask_above: Annotated[float, Field(gt=1)] | None = Field(
        description="sequences whose mean token-mult-prob error is above it are left out of the"
        " step and counted in `train/masked_sequences`; null: none is"
    )
