"""Complete prompts without HTTP, as one batch from the first step on."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from vllm.inputs.engine import tokens_input
from vllm.sampling_params import RequestOutputKind, SamplingParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm.v1.engine.async_llm import AsyncLLM

    from posttrain.generation.batch import Completion
    from posttrain.generation.core import InProcessCore
    from posttrain.generation.settings import Sampling


async def complete(
    engine: AsyncLLM, core: InProcessCore, prompts: Sequence[Sequence[int]], sampling: Sampling
) -> list[Completion]:
    """Complete all prompts: see ``GenerationWorker.generate``.

    Requests are checked and given their parameters by vLLM's own front end; from there on they are
    a batch of the engine's thread.
    """
    params = SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        max_tokens=sampling.max_tokens,
        seed=sampling.seed,
        ignore_eos=sampling.ignore_eos,
        logprobs=0,
        output_kind=RequestOutputKind.FINAL_ONLY,
        # Nobody reads the text: the caller takes token ids.
        detokenize=False,
    )
    tasks = await engine.get_supported_tasks()
    make = engine.input_processor.process_inputs
    return await core.complete(
        [
            make(uuid.uuid4().hex, tokens_input(list(prompt)), params, supported_tasks=tasks)
            for prompt in prompts
        ]
    )
