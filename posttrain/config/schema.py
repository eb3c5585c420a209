"""What a recipe can say. Closed, frozen and strictly typed; every default is in a YAML file."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from posttrain.config.keys import IDENTITY, Section
from posttrain.config.objective import Advantages, Parity
from posttrain.config.problem import wrong
from posttrain.config.schedule import Schedule
from posttrain.errors import RecipeError
from posttrain.sampling import BACKENDS, PATHS, Distribution, Shaping, recomputed

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

    path: Annotated[Text, IDENTITY] = Field(description="local folder, or Hugging Face id")
    revision: Annotated[Text, IDENTITY] = Field(
        description="`sha256:` and the digest of the folder's content, or the id's full commit"
    )


class Data(Section):
    """Datasets in Gym's JSONL form."""

    train: Annotated[Text, IDENTITY] = Field(description="rows to train on")
    validation: Annotated[Text, IDENTITY] = Field(description="rows to validate on after the refit")
    prompts_per_step: Count | None = Field(
        description="rows that a step trains on, each rolled out `rollouts.per_prompt` times; a"
        " batch may end in the next pass but holds no row twice; null: all rows at every step"
    )
    shuffle: bool = Field(
        description="whether each pass over the rows has an order of its own, drawn from"
        " `run.seed`; else, and when each step takes all rows, they stay in the file's order"
    )
    epochs: Count | None = Field(
        description="passes over the rows that may begin; null: as many as `run.steps` needs"
    )
    validate_every: Count = Field(
        description="steps from one validation to the next; the first and the last step always"
        " validate"
    )


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
    lr: float = Field(gt=0, description="learning rate, at its highest")
    schedule: Schedule
    optimizer: Optimizer
    max_grad_norm: float = Field(gt=0, description="gradients are scaled down to this global norm")
    micro_batch_size: Count = Field(description="sequences in one forward pass of a rank")
    logprobs: Literal["plain", "fused"] = Field(
        description="`plain`: whole logits, any sampling; `fused`: a chunk of them at a time, which"
        " long sequences need, without top_p and top_k"
    )
    logprobs_chunk: Count = Field(
        description="completion tokens of which `fused` has logits at a time"
    )
    threads: Count = Field(description="computing threads of a rank")
    clip: Clip


class Engines(Section):
    """The vLLM engines, one for each worker."""

    workers: Count = Field(description="engines")
    tensor_parallel: Count = Field(description="devices that one engine is spread over")
    backend: Literal["vllm"] = Field(
        description="whose engines they are; decides what log-probabilities mean (docs/sampling.md)"
    )
    temperature: float = Field(
        ge=0,
        le=BACKENDS["vllm"].hottest,
        description="of rollouts and validation; 0 takes the likeliest token, and vLLM raises what"
        " is between 0 and 0.01 to 0.01",
    )
    top_p: float = Field(
        gt=0,
        le=1,
        description="sample among the likeliest tokens that together have this probability; 1: all",
    )
    top_k: int = Field(ge=0, description="sample among this many of the likeliest tokens; 0: all")
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
        if self.max_new_tokens >= self.max_model_len:
            raise wrong(
                "max_new_tokens",
                f"no room for a prompt in max_model_len {self.max_model_len}; give fewer",
            )
        if self.ports and len(self.ports) != self.workers:
            raise wrong(
                "ports", f"{len(self.ports)} ports for {self.workers} workers; give one for each"
            )
        if len(set(self.ports)) != len(self.ports):
            raise wrong("ports", "a port twice; give each worker its own")
        return self

    @property
    def drawn_from(self) -> Distribution:
        """What completion tokens are drawn from, and all log-probabilities are of."""
        shaping = Shaping(self.temperature, self.top_p, self.top_k)
        return recomputed(shaping, BACKENDS[self.backend])


class Generation(Engines):
    """The engines of a policy that is trained."""

    colocated: bool = Field(description="whether policy and generation share devices")


class Refit(Section):
    """How the policy's weights reach generation: docs/refit.md."""

    transport: Literal["shared_memory", "broadcast", "http"] = Field(
        description="`shared_memory`: colocated only; `broadcast`: a gloo group of rank 0 and all"
        " engines; `http`: engines reload over HTTP"
    )
    buffer_mb: Count = Field(
        description="most MiB that are handed over at once, and acknowledged, of which at most two"
        " exist in a sender"
    )


class Rollouts(Section):
    """How prompts become samples."""

    per_prompt: Count = Field(description="rollouts of each row")
    concurrency: Count = Field(description="rollouts in flight at once")


class Environment(Section):
    """Where rollouts happen and who verifies them."""

    agent: Literal["math_simple_agent", "conversation_agent"] = Field(
        description="NeMo Gym agent that rollouts are sent to; every row must be meant for it;"
        " `conversation_agent`: of several turns, for `single_controller` only"
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
    checkpoint_s: Seconds = Field(description="a checkpoint written; one read, on all ranks")


class Recipe(Section):
    """What every recipe that trains says. Relative paths are taken from the driver's folder."""

    run: Run
    cluster: Cluster
    interpreters: Interpreters
    model: Model
    data: Data
    policy: Policy
    generation: Generation
    advantages: Advantages
    parity: Parity
    refit: Refit
    rollouts: Rollouts
    environment: Environment
    timeouts: Timeouts

    @model_validator(mode="after")
    def _every_step_trains(self) -> Self:
        own = self.policy.schedule
        if own.kind != "constant" and own.final == 0 and self.run.steps > own.steps:
            raise wrong(
                "policy.schedule.steps",
                f"the learning rate would be 0 in the rest of the {self.run.steps} steps; give as"
                " many, or policy.schedule.final above 0",
            )
        return self

    @model_validator(mode="after")
    def _scorable(self) -> Self:
        try:
            PATHS[self.policy.logprobs].check([self.generation.drawn_from])
        except RecipeError as error:
            why = f"asked for {error.asked}, but {error.found}; {error.todo}"
            raise wrong("policy.logprobs", why) from error
        return self

    @model_validator(mode="after")
    def _divergence_is_defined(self) -> Self:
        if self.advantages.kl_coefficient and self.generation.drawn_from.filtered:
            raise wrong(
                "advantages.kl_coefficient",
                "top_p and top_k leave the reference without tokens that the policy draws, and the"
                " divergence would be infinite; give 0.0, or top_p 1.0 and top_k 0",
            )
        return self

    @model_validator(mode="after")
    def _rollouts_to_compare(self) -> Self:
        kind = self.advantages.kind
        if self.rollouts.per_prompt == 1 and kind != "reinforce_plus_plus":
            raise wrong(
                "rollouts.per_prompt",
                f"{kind} compares the rollouts of one prompt, and a single one would always have"
                " the advantage 0; give at least 2",
            )
        return self
