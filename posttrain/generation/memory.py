"""An accelerator's memory, handed over and taken back by the engine that shares it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posttrain.errors import WorkerError

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM


async def doze(engine: AsyncLLM, worker: str, method: str) -> None:
    """Have the engine ``sleep`` or ``wake_up``; on a CPU there is no memory to hand over.

    Raises:
        WorkerError: an engine on an accelerator that was started without ``sleep_mode``.
    """
    config = engine.vllm_config
    if config.device_config.device_type == "cpu":
        return
    if not config.model_config.enable_sleep_mode:
        raise WorkerError(
            f"{method} of {worker}",
            f"an engine on {config.device_config.device_type}, started without sleep_mode",
            "hand memory over only between processes that share an accelerator",
        )
    await getattr(engine, method)()
