"""An ``AsyncLLM`` whose engine core lives in this process, from settings."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import vllm
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.model_executor.models import ModelRegistry
from vllm.transformers_utils.config import get_config
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.core_client import EngineCoreClient

from posttrain.errors import ModelError, WorkerError
from posttrain.generation.core import InProcessCore

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from vllm.config import VllmConfig
    from vllm.v1.executor import Executor

    from posttrain.generation.settings import EngineSettings

# InProcessCore replaces parts of vLLM that are not its public interface.
WRITTEN_FOR = "0.29."


def arguments(settings: EngineSettings) -> Namespace:
    """Make the arguments of vLLM's own server, parsed by its own parser."""
    options: dict[str, object] = {
        "model": settings.model,
        "served-model-name": settings.served_name,
        "host": "127.0.0.1",
        "dtype": settings.dtype,
        "max-model-len": settings.max_model_len,
        "max-num-seqs": settings.max_num_seqs,
        "block-size": settings.block_size,
        "kv-cache-memory-bytes": settings.kv_cache_bytes,
        "seed": settings.seed,
        "tensor-parallel-size": settings.tensor_parallel,
        # Named, since vLLM would take Ray's executor whenever it finds itself in a Ray actor.
        "distributed-executor-backend": "mp" if settings.tensor_parallel > 1 else "uni",
        "logprobs-mode": "processed_logprobs",
        # Sampling defaults are the request's and the recipe's business, not the checkpoint's.
        "generation-config": "vllm",
        "worker-extension-cls": "posttrain.generation.extension.RefitExtension",
        "uvicorn-log-level": "warning",
    }
    flags = [
        "--enforce-eager",
        "--enable-prefix-caching",
        "--return-tokens-as-token-ids",
        "--disable-log-stats",
        "--disable-uvicorn-access-log",
        "--disable-fastapi-docs",
        # Outputs are made where the request is; one thread steps the engine.
        "--no-async-scheduling",
        "--no-use-tqdm-on-load",
    ]
    if settings.sleep_mode:
        flags.append("--enable-sleep-mode")
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    args: Namespace = make_arg_parser(FlexibleArgumentParser()).parse_args(words + flags)
    return args


def start_engine(args: Namespace) -> tuple[AsyncLLM, InProcessCore]:
    """Load the model and start the engine's thread; call it in the event loop that will serve.

    Raises:
        WorkerError: another version of vLLM than this was written for.
        ModelError: vLLM has no such architecture.
    """
    if not vllm.__version__.startswith(WRITTEN_FOR):
        raise WorkerError(
            "an engine core in the process of its HTTP server",
            f"vLLM {vllm.__version__}",
            f"install vLLM {WRITTEN_FOR}x, or check posttrain.generation.core against this one",
        )
    _register_architecture(args.model)
    engine_args = AsyncEngineArgs.from_cli_args(args)
    with _client_in_process():
        engine = AsyncLLM.from_engine_args(engine_args)
    return engine, engine.engine_core


def _register_architecture(model: str) -> None:
    """Import the model's class here, before vLLM inspects it.

    vLLM looks at a class that is registered by name only in a process of its own, which imports
    everything again (23 s on a slow machine, for each engine whose cache folder is empty). This
    process loads that class anyway.
    """
    names = get_config(model, trust_remote_code=False).architectures or []
    known = [name for name in names if name in ModelRegistry.models]
    if not known:
        raise ModelError(
            f"a model that vLLM can run, at {model}",
            f"architectures {names}",
            "take a model of an architecture that vLLM supports",
        )
    for name in known:
        ModelRegistry.register_model(name, ModelRegistry.models[name].load_model_cls())


@contextmanager
def _client_in_process() -> Iterator[None]:
    """Give ``AsyncLLM`` an :class:`InProcessCore` while it is being constructed.

    Its constructor names the factory of the multi-process client and takes no other, so the
    factory is replaced for that time, in this process only.
    """

    def make(
        vllm_config: VllmConfig, executor_class: type[Executor], log_stats: bool, **_addresses: Any
    ) -> InProcessCore:
        return InProcessCore(vllm_config, executor_class, log_stats)

    original = EngineCoreClient.__dict__["make_async_mp_client"]
    EngineCoreClient.make_async_mp_client = staticmethod(make)
    try:
        yield
    finally:
        EngineCoreClient.make_async_mp_client = original
