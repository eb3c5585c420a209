"""What a recipe can say. Closed, frozen and strictly typed; every default is in a YAML file."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from posttrain.config.keys import Section

# vLLM clamps temperatures between 0 and this one, which would not be what the recipe says.
_COLDEST = 0.01

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Run(Section):
    """Where the run's results go and what makes it repeatable."""

    dir: Text = Field(description="folder of the run's results; metrics and logs are written here")
    # NumPy, which the engines seed too, takes 32 bits.
    seed: int = Field(ge=0, lt=2**32, description="seed of every random generator")
    steps: Count = Field(description="optimizer steps")


class Cluster(Section):
    """What the recipe asks of the machine; the run's own Ray cluster offers exactly this."""

    cpus: Count = Field(description="CPUs of the cluster")
    accelerators: int = Field(ge=0, description="accelerators of the cluster; 0 trains on CPUs")
    temp_dir: Text | None = Field(
        description="Ray's temporary folder, a short path; null: a fresh one that the run removes"
    )


class Interpreters(Section):
    """The Python of each kind of process, given by the harness."""

    policy: Text = Field(description="Python of the policy ranks")
    generation: Text = Field(description="Python of the generation workers")
    gym: Text = Field(description="Python of the Gym servers")


class Model(Section):
    """The one model that policy, tokenizer and generation load."""

    path: Text = Field(description="local folder, or Hugging Face id")
    revision: Text = Field(
        description="`sha256:` and the digest of the folder's content, or the id's full commit"
    )


class Data(Section):
    """Datasets in Gym's JSONL form."""

    train: Text = Field(description="rows to train on")
    validation: Text = Field(description="rows to validate on after the refit")


class Optimizer(Section):
    """AdamW."""

    betas: tuple[
        Annotated[float, Field(ge=0, lt=1)],
        Annotated[float, Field(ge=0, lt=1)],
    ] = Field(description="decay of the two running averages")
    eps: float = Field(gt=0, description="added to the denominator")
    weight_decay: float = Field(ge=0, description="decoupled weight decay")


class Clip(Section):
    """Bounds of the probability ratio in the clipped policy loss: [1 - low, 1 + high]."""

    low: float = Field(gt=0, le=1, description="how far the ratio may fall below 1")
    high: float = Field(gt=0, description="how far the ratio may rise above 1")


class Policy(Section):
    """The trained model and its optimizer."""

    ranks: Count = Field(description="FSDP2 ranks")
    dtype: Literal["float32", "bfloat16"] = Field(
        description="type of the weights, in the policy and in generation"
    )
    lr: float = Field(gt=0, description="learning rate")
    optimizer: Optimizer
    max_grad_norm: float = Field(gt=0, description="gradients are scaled down to this global norm")
    micro_batch_size: Count = Field(description="sequences in one forward pass of a rank")
    threads: Count = Field(description="computing threads of a rank")
    clip: Clip


class Generation(Section):
    """The vLLM engines, one for each worker."""

    workers: Count = Field(description="engines")
    tensor_parallel: Count = Field(description="devices that one engine is spread over")
    colocated: bool = Field(description="whether policy and generation share devices")
    temperature: float = Field(
        ge=0,
        description="of rollouts and validation; 0 takes the likeliest token, else at least 0.01",
    )
    max_new_tokens: Count = Field(description="longest completion, in tokens")
    max_model_len: Annotated[int, Field(ge=2)] = Field(
        description="longest prompt and completion together, in tokens; above max_new_tokens"
    )
    kv_cache_mb: Count = Field(description="key-value cache of one engine, in MiB")
    # What every attention kernel of vLLM can be given.
    block_size: int = Field(
        ge=16, multiple_of=16, description="tokens of one key-value cache block"
    )
    threads: Count = Field(description="computing threads of an engine's rank")
    ports: tuple[Port, ...] = Field(
        description="port of each engine's server, one for each worker; empty: free ports"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if 0 < self.temperature < _COLDEST:
            raise _wrong(
                "temperature", f"vLLM would clamp it to {_COLDEST}; give 0 or {_COLDEST} and above"
            )
        if self.max_new_tokens >= self.max_model_len:
            raise _wrong(
                "max_new_tokens",
                f"no room for a prompt in max_model_len {self.max_model_len}; give fewer",
            )
        if self.ports and len(self.ports) != self.workers:
            raise _wrong(
                "ports", f"{len(self.ports)} ports for {self.workers} workers; give one for each"
            )
        if len(set(self.ports)) != len(self.ports):
            raise _wrong("ports", "a port twice; give each worker its own")
        return self


class Advantages(Section):
    """How rewards become advantages."""

    kind: Literal["reinforce_plus_plus"] = Field(
        description="REINFORCE++: normalised over the whole batch, signed"
    )
    epsilon: float = Field(gt=0, description="added to the standard deviation")


class Rollouts(Section):
    """How prompts become samples."""

    per_prompt: Count = Field(description="rollouts of each row")
    concurrency: Count = Field(description="rollouts in flight at once")


class Environment(Section):
    """Where rollouts happen and who verifies them."""

    agent: Literal["math_simple_agent"] = Field(
        description="NeMo Gym agent that rollouts are sent to; every row must be meant for it"
    )


class Timeouts(Section):
    """Deadlines in seconds: a stage or call that takes longer ends the run, with stack dumps."""

    cluster_s: Seconds = Field(description="start of the Ray cluster")
    start_s: Seconds = Field(description="start of policy, generation and Gym together")
    generate_s: Seconds = Field(description="all rollouts of a step")
    train_s: Seconds = Field(description="log-probabilities; loss and optimizer step; each")
    refit_s: Seconds = Field(description="refit of every generation worker; any call to one")
    validate_s: Seconds = Field(description="validation")
    call_s: Seconds = Field(description="one rollout: a call to Gym's agent")


class Recipe(Section):
    """A whole recipe. Relative paths are taken from the driver's current folder."""

    run: Run
    cluster: Cluster
    interpreters: Interpreters
    model: Model
    data: Data
    policy: Policy
    generation: Generation
    advantages: Advantages
    rollouts: Rollouts
    environment: Environment
    timeouts: Timeouts


def _wrong(key: str, message: str) -> PydanticCustomError:
    return PydanticCustomError("recipe", "{message}", {"key": key, "message": message})
