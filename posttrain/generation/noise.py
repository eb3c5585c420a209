"""Warnings that every healthy engine gives, each with the reason why it means nothing here.

A message is dropped by its logger and its beginning; anything else that the logger says is kept.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    """A warning that is no news.

    Attributes:
        logger: whose it is.
        beginning: of the message, after its values were put in.
        reason: why it means nothing.
    """

    logger: str
    beginning: str
    reason: str


EXPECTED = (
    Expected("torch.utils.flop_counter", "triton not found", "nobody counts operations"),
    Expected("torch.utils.cpp_extension", "No CUDA runtime is found", "nothing is compiled"),
    Expected(
        "vllm.engine.arg_utils",
        "The global random seed is set to",
        "the process is the engine's own, and its random state with it",
    ),
    Expected("vllm.config.vllm", "Enforce eager set", "asked for"),
    Expected("vllm.config.vllm", "Inductor compilation was disabled", "follows from the former"),
    Expected("vllm.config.vllm", "Model Runner V2 requires Triton", "the other runner is meant"),
    Expected(
        "vllm.v1.worker.cpu_worker",
        "CPU backend doesn't allow to use `torch.set_num_threads`",
        "the number of threads was set by the environment",
    ),
    Expected("vllm.v1.worker.cpu_worker", "libtcmalloc is not found", "no library is preloaded"),
    Expected("vllm.v1.worker.cpu_worker", "libiomp is not found", "no library is preloaded"),
    Expected(
        "vllm.model_executor.model_loader.reload.layerwise",
        "RotaryEmbedding: Failed to load weights",
        "its table is computed and in no checkpoint; a refit reads all weights back",
    ),
)


def drop_expected_warnings() -> None:
    """Have the loggers of this process drop what is `EXPECTED`; again changes nothing."""
    for name in {each.logger for each in EXPECTED}:
        logging.getLogger(name).addFilter(is_news)


def is_news(record: logging.LogRecord) -> bool:
    """Whether a record is none of the expected ones."""
    message = record.getMessage()
    return not any(
        record.name == each.logger and message.startswith(each.beginning) for each in EXPECTED
    )
