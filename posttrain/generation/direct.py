"""Complete prompts without HTTP, as one batch from the first step on."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from vllm.inputs.engine import tokens_input
from vllm.sampling_params import RequestOutputKind, SamplingParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm.outputs import RequestOutput
    from vllm.v1.engine.async_llm import AsyncLLM

    from posttrain.generation.core import InProcessCore
    from posttrain.generation.settings import Sampling

Completion = tuple[tuple[int, ...], tuple[float, ...]]


async def complete(
    engine: AsyncLLM, core: InProcessCore, prompts: Sequence[Sequence[int]], sampling: Sampling
) -> list[Completion]:
    """Complete all prompts: see ``GenerationWorker.generate``.

    The engine takes no step before it has them all. Otherwise it would begin with the first while
    the others are still on their way: more steps, and in which of them a prompt is computed (so
    the last bits of its log-probabilities) would depend on the threads' timing.
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
    requests = {uuid.uuid4().hex: tokens_input(list(prompt)) for prompt in prompts}
    try:
        with core.held():
            adding = (engine.add_request(name, it, params) for name, it in requests.items())
            queues = await asyncio.gather(*adding)
        return [_completion(await queue.get()) for queue in queues]
    except BaseException:
        await engine.abort(requests)
        raise


def _completion(output: RequestOutput) -> Completion:
    (completion,) = output.outputs
    ids = tuple(completion.token_ids)
    pairs = zip(ids, completion.logprobs, strict=True)
    return ids, tuple(choices[token].logprob for token, choices in pairs)
