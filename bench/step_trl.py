"""TRL's GRPO trainer as a side of bench_step.py: with its own generation, or with vLLM colocated.

    PYTHONPATH=. PYTHON bench/step_trl.py --size 2x8x32 [--vllm]

where PYTHON is that of the environment that `bench/step_peer.py` makes. A step is what the trainer
does from one `on_step_begin` to the next. What is not TRL's default: one batch a step, no gradient
checkpointing, float32, no logging, every rollout as long as asked; what TRL needs for vLLM on a CPU
is in :func:`run_on_cpu`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from bench import step_work as work
from bench.step_turns import Answers
from posttrain.checksum import state_checksum
from posttrain.generation.settings import engine_environment

if TYPE_CHECKING:
    from bench.step_turns import Asked

# More than any benchmark asks for: an epoch that ends would start its data loader anew.
MOST_STEPS = 2000


class Rewards:
    """TRL's reward function; counts the tokens of the last step."""

    __name__ = "even_tokens"

    def __init__(self) -> None:
        self.tokens = 0

    def __call__(self, *, completion_ids: list[list[int]], **_: Any) -> list[float]:
        """One reward a completion."""
        self.tokens = sum(map(len, completion_ids))
        return [work.reward(ids) for ids in completion_ids]


def run_on_cpu() -> None:
    """Let TRL 1.16 use vLLM's CPU build with this benchmark's engine.

    TRL gives no way to set an engine's dtype (vLLM would take 16 bits), cache size or eager mode,
    and copies weights by ``load_weights``, which stops half-way on a CPU: its linear layers are
    packed. They are loaded here as every other side does it.
    """
    from trl.generation import vllm_generation

    vllm_generation.LLM = partial(
        vllm_generation.LLM,
        dtype="float32",
        enforce_eager=True,
        block_size=work.BLOCK_SIZE,
        kv_cache_memory_bytes=work.KV_CACHE_MB << 20,
        generation_config="vllm",
        async_scheduling=False,
        disable_log_stats=True,
    )

    def sync_weights(generation: Any) -> None:
        runner = generation.llm.llm_engine.model_executor.driver_worker.model_runner
        runner.reload_weights(
            weights_iterator=generation.model.named_parameters(), is_checkpoint_format=True
        )
        generation.llm.reset_prefix_cache()

    vllm_generation.VLLMGeneration.sync_weights = sync_weights


def make_trainer(size: work.Size, rewards: Rewards, folder: str, *, vllm: bool) -> Any:
    """TRL's trainer for one size."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    if vllm:
        run_on_cpu()
    every_length = {"ignore_eos": True} if vllm else {"min_new_tokens": size.new_tokens}
    config = GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=size.sequences,
        gradient_accumulation_steps=1,
        gradient_checkpointing=False,
        num_generations=size.rollouts,
        max_completion_length=size.new_tokens,
        temperature=work.TEMPERATURE,
        beta=0.0,
        epsilon=work.CLIP,
        scale_rewards="batch",
        learning_rate=work.LEARNING_RATE,
        lr_scheduler_type="constant",
        adam_beta1=work.BETAS[0],
        adam_beta2=work.BETAS[1],
        adam_epsilon=work.ADAM_EPSILON,
        weight_decay=0.0,
        max_grad_norm=work.MAX_GRAD_NORM,
        max_steps=MOST_STEPS,
        shuffle_dataset=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=0,
        model_init_kwargs={"dtype": "float32", "attn_implementation": "sdpa"},
        use_vllm=vllm,
        vllm_mode="colocate",
        vllm_max_model_length=work.MAX_MODEL_LEN,
        generation_kwargs=every_length,
    )
    rows = [{"prompt": chat} for chat in work.messages(size.prompts)]
    return GRPOTrainer(
        model=str(work.MODEL),
        reward_funcs=rewards,
        args=config,
        train_dataset=Dataset.from_list(rows * MOST_STEPS),
    )


def make_callback(answers: Answers, rewards: Rewards, trainer: Any) -> Any:
    """A callback that holds the trainer between turns, and times its steps."""
    from transformers import TrainerCallback

    class Turns(TrainerCallback):
        def __init__(self) -> None:
            self.asked: Asked | None = None
            self.seconds: list[float] = []
            self.started = 0.0

        def on_step_begin(self, _arguments: Any, _state: Any, control: Any, **_: Any) -> None:
            if self.asked is not None:
                self.seconds.append(time.perf_counter() - self.started)
                if len(self.seconds) == self.asked.warm + self.asked.steps:
                    self.answer(self.asked)
            if self.asked is None:
                self.seconds = []
                self.asked = answers.next()
                control.should_training_stop = control.should_epoch_stop = self.asked is None
            self.started = time.perf_counter()

        def answer(self, asked: Asked) -> None:
            self.asked = None
            answers.say(
                seconds=self.seconds[asked.warm :],
                weights=state_checksum(trainer.model.state_dict().items()),
                loss=float(trainer.bench_loss),
                tokens=rewards.tokens,
            )

    return Turns()


def keep_loss(trainer: Any) -> None:
    """Keep the loss of the last step, which the trainer itself only averages."""
    training_step = trainer.training_step

    def kept(*arguments: Any, **named: Any) -> Any:
        loss = training_step(*arguments, **named)
        trainer.bench_loss = loss
        return loss

    trainer.training_step = kept


def main() -> None:
    """Take turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=work.Size.parse, required=True)
    parser.add_argument("--vllm", action="store_true")
    options = parser.parse_args()
    # Threads are whatever the driver set.
    threads = int(os.environ["OMP_NUM_THREADS"])
    os.environ.update(engine_environment(threads) | {"OMP_WAIT_POLICY": "PASSIVE"})
    answers = Answers()
    rewards = Rewards()
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(options.size, rewards, folder, vllm=options.vllm)
        keep_loss(trainer)
        trainer.add_callback(make_callback(answers, rewards, trainer))
        answers.say(threads=f"1 process of {threads}")
        trainer.train()


if __name__ == "__main__":
    main()
