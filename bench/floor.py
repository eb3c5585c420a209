"""The floor of a training step: what the work itself takes, with nothing around it.

    PYTHONPATH=. OMP_NUM_THREADS=1 PYTHON bench/floor.py [--size 2x8x32] [--steps 20]

where PYTHON is the `vllm` worker's. vLLM's engine lives in this process, two FSDP2 ranks in one
process each; a step is rollouts, reward, advantages, log-probabilities, the clipped loss, AdamW,
and a refit that counts only when the engine's live weights, read back, are the ranks' to the bit.
No Ray, no Gym, no HTTP, no deadlines, no checksums, no metrics, no check of what was sampled.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import socket
import statistics
import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import step_work as work
from bench.step_rank import Share, serve
from bench.step_turns import ANSWERS_VARIABLE, Answers, Asked, timed
from posttrain.checksum import state_checksum
from posttrain.generation.settings import engine_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the fastest place that two processes share


def load(worker: Any, path: str) -> list[str]:
    """In the engine: load the weights at ``path``; names of what is then live, to the bit."""
    import torch
    from safetensors.torch import load_file

    from posttrain.generation.layout import live_pieces

    state = load_file(path)
    worker.model_runner.reload_weights(
        weights_iterator=iter(state.items()), is_checkpoint_format=True
    )
    with torch.no_grad():
        return [
            piece.name
            for piece in live_pieces(worker.model_runner.get_model())
            if torch.equal(piece.tensor, state[piece.name])
        ]


class Floor:
    """The engine and its connections to the ranks."""

    def __init__(self, size: work.Size, ranks: list[Connection], path: str) -> None:
        from vllm import LLM, SamplingParams

        self.size = size
        self.path = path
        self.loss = 0.0
        self.tokens = 0
        self._ranks = ranks
        self._llm = LLM(
            model=str(work.MODEL),
            dtype="float32",
            max_model_len=work.MAX_MODEL_LEN,
            max_num_seqs=size.sequences,
            block_size=work.BLOCK_SIZE,
            kv_cache_memory_bytes=work.KV_CACHE_MB << 20,
            enforce_eager=True,
            enable_prefix_caching=True,
            logprobs_mode="processed_logprobs",
            generation_config="vllm",
            async_scheduling=False,
            disable_log_stats=True,
        )
        ids = work.prompt_ids(self._llm.get_tokenizer(), size.prompts)
        self._prompts = [
            {"prompt_token_ids": prompt} for prompt in ids for _ in range(size.rollouts)
        ]
        self._sampling = SamplingParams(
            temperature=work.TEMPERATURE,
            max_tokens=size.new_tokens,
            ignore_eos=True,
            logprobs=0,
            detokenize=False,
        )

    def step(self) -> None:
        """Take one whole step."""
        outputs = self._llm.generate(self._prompts, self._sampling, use_tqdm=False)
        answers = [list(output.outputs[0].token_ids) for output in outputs]
        prompts = [list(output.prompt_token_ids) for output in outputs]
        # Of each token, as the other sides take them for their comparison of both probabilities.
        for output, answer in zip(outputs, answers, strict=True):
            chosen = zip(answer, output.outputs[0].logprobs, strict=True)
            assert all(choices[token].logprob <= 0 for token, choices in chosen)
        advantages = work.normalised([work.reward(answer) for answer in answers])
        self.tokens = sum(map(len, answers))
        each = self.size.sequences // work.RANKS
        for number, rank in enumerate(self._ranks):
            mine = slice(number * each, (number + 1) * each)
            sequences = [a + b for a, b in zip(prompts[mine], answers[mine], strict=True)]
            share = Share(sequences, len(prompts[0]), advantages[mine], self.tokens, self.path)
            rank.send(share)
        self.loss = sum(rank.recv() for rank in self._ranks)
        self._refit()

    def _refit(self) -> None:
        """Load what rank 0 wrote, and count the tensors that are live."""
        from safetensors import safe_open

        (live,) = self._llm.collective_rpc(partial(load, path=self.path))
        with safe_open(self.path, framework="pt") as published:
            assert sorted(live) == sorted(published.keys()), "the engine serves other weights"
        assert self._llm.reset_prefix_cache()

    def weights(self) -> str:
        """Digest of the weights that were published last."""
        from safetensors.torch import load_file

        return state_checksum(load_file(self.path).items())


@contextmanager
def floor(size: work.Size) -> Iterator[Floor]:
    """Start the ranks and the engine; end all of it."""
    # Before torch and vLLM are imported, here and in the ranks.
    os.environ.update(engine_environment(work.THREADS) | {"OMP_WAIT_POLICY": "PASSIVE"})
    context = multiprocessing.get_context("spawn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ExitStack() as running:
        folder = tempfile.mkdtemp(prefix="floor-", dir=SHARED_MEMORY)
        running.callback(shutil.rmtree, folder)
        ranks = []
        for number in range(work.RANKS):
            near, far = context.Pipe()
            process = context.Process(target=serve, args=(number, port, far), daemon=True)
            process.start()
            running.callback(process.join, 10)
            running.callback(near.send, None)
            ranks.append(near)
        engine = Floor(size, ranks, str(Path(folder) / "weights.safetensors"))
        for rank in ranks:
            rank.recv()
        yield engine


def main() -> None:
    """Take turns, or measure alone and print the median."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=work.Size.parse, default=work.Size(2, 8, 32))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm", type=int, default=5)
    options = parser.parse_args()
    with floor(options.size) as side:
        if ANSWERS_VARIABLE not in os.environ:
            seconds = timed(side.step, Asked("floor", options.steps, options.warm))
            print(
                f"{options.size}: {statistics.median(seconds):.4f} s a step, {len(seconds)} steps"
            )
            return
        answers = Answers()
        answers.say(threads="1 engine thread, 2 ranks of 1")
        for asked in answers:
            seconds = timed(side.step, asked)
            answers.say(seconds=seconds, weights=side.weights(), loss=side.loss, tokens=side.tokens)


if __name__ == "__main__":
    main()
