"""What an engine is started with: recipe values, and the environment of its process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from posttrain.sampling import Shaping

if TYPE_CHECKING:
    from posttrain.capture.settings import CaptureSettings

# Variables that must be set before vLLM or torch is imported in an engine's process.
ENVIRONMENT = {
    # One process for each worker: the engine's thread is not bound to cores of its own.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # The first request with log-probabilities would otherwise compile for seconds.
    "TORCHDYNAMO_DISABLE": "1",
    # The engine core runs in this process (see core.py).
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # A dead engine answers with an error: a refused connection would be retried by Gym for ever.
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "1",
    # An engine's ranks are on one machine, which may have no network; else vLLM looks for one.
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    # Models are local folders; nothing is looked up on a network.
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}


def engine_environment(threads: int = 1) -> dict[str, str]:
    """The variables of an engine's process; `threads` is the number of its OpenMP threads."""
    return ENVIRONMENT | {"OMP_NUM_THREADS": str(threads)}


@dataclass(frozen=True)
class EngineSettings:
    """An engine's recipe values.

    Attributes:
        model: local folder with checkpoint, tokenizer and chat template.
        served_name: the model name that requests carry.
        dtype: of weights and computation.
        max_model_len: prompt and completion together, in tokens.
        max_num_seqs: sequences that are computed together.
        block_size: tokens in one block of the key-value cache; also the prefix cache's unit.
        kv_cache_bytes: size of the key-value cache.
        seed: of the sampler.
        tensor_parallel: ranks that share one model; more than one adds a process for each rank.
        threads: OpenMP threads of each rank. Spinning threads that share a core with another
            process are slower than one thread alone.
        sleep_mode: let the engine hand its accelerator memory over (``sleep``); not on a CPU.
        port: of the HTTP server on 127.0.0.1; 0 takes a free one.
        capture: where the tokens of requests that ask for it are staged; None: nowhere, and
            nothing of capture is imported.
    """

    model: str
    served_name: str = "policy"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    max_model_len: int = 512
    max_num_seqs: int = 16
    block_size: int = 32
    kv_cache_bytes: int = 16 << 20
    seed: int = 0
    tensor_parallel: int = 1
    threads: int = 1
    sleep_mode: bool = False
    port: int = 0
    capture: CaptureSettings | None = None


@dataclass(frozen=True)
class Sampling(Shaping):
    """How one batch of prompts is sampled: what shapes the distribution, and the rest.

    Log-probabilities are of the shaped distribution (`posttrain.sampling.recomputed`).

    Attributes:
        temperature: as in :class:`Shaping`, but the likeliest token unless asked otherwise.
        max_tokens: longest completion, end-of-sequence token included.
        seed: of each request, for the same samples again; None takes the engine's.
        ignore_eos: generate ``max_tokens`` tokens whatever comes.
    """

    temperature: float = 0.0
    max_tokens: int = 32
    seed: int | None = None
    ignore_eos: bool = False
