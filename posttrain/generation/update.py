"""The refit of one engine: refuse, or load and prove; a half-updated engine is never served."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from posttrain.checksum import state_checksum
from posttrain.errors import RefitError
from posttrain.generation.extension import assembled, uncovered
from posttrain.refit.acknowledgement import Acknowledgement
from posttrain.refit.transport import opened, read_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vllm.v1.engine.async_llm import AsyncLLM

    from posttrain.generation.core import InProcessCore
    from posttrain.generation.extension import Readback
    from posttrain.generation.layout import Piece
    from posttrain.refit.transport import Published


async def update_weights(
    engine: AsyncLLM, core: InProcessCore, worker: str, published: Published
) -> Acknowledgement:
    """Serve published weights from now on, and prove it: see ``GenerationWorker.load_weights``.

    Raises:
        RefitError: before anything was loaded, or after the engine was ended.
    """
    path = published.path
    asked = f"weights {path} in {worker}"
    if waiting := engine.get_num_unfinished_requests():
        raise RefitError(asked, f"{waiting} requests in flight", "wait for them before a refit")
    manifest = read_manifest(path)
    # "keep": requests that arrive from now on wait, and see the new weights only.
    await core.pause_scheduler_async("keep", clear_cache=False)
    problems = _names_differ(published.names, [info.name for info in manifest])
    for answer in await core.collective_rpc_async("refit_check", args=(manifest,)):
        problems += [problem for problem in answer if problem not in problems]
    if problems:
        await core.resume_scheduler_async()
        raise RefitError(
            asked,
            "; ".join(problems),
            "publish exactly the checkpoint's tensors; the former weights are still served",
        )
    try:
        await core.collective_rpc_async("refit_load", args=(str(path),))
        forgotten: bool = await core.reset_prefix_cache_async()
        readbacks = await core.collective_rpc_async("refit_readback", args=(str(path),))
        checksum = _proven(asked, forgotten, readbacks, path)
    except BaseException as error:
        core.condemn(error)
        raise
    await core.set_weight_version_async(str(published.version))
    await core.resume_scheduler_async()
    return Acknowledgement(
        worker=worker,
        ok=True,
        names=readbacks[0].names,
        checksum=checksum,
        weight_version=published.version,
    )


async def live_checksum(core: InProcessCore, worker: str) -> str:
    """The checksum of the full live weights, read back from every rank of the engine.

    Raises:
        RefitError: the ranks' parts contradict each other or leave a gap.
    """
    readbacks: list[Readback] = await core.collective_rpc_async("refit_readback")
    if not readbacks:
        raise RefitError(f"the live weights of {worker}", "no rank answered", "start a new worker")
    if len(readbacks) == 1:
        return readbacks[0].checksum
    parts: list[list[Piece]] = await core.collective_rpc_async("refit_pieces")
    return state_checksum(assembled(piece for part in parts for piece in part).items())


def _names_differ(said: Sequence[str], offered: Sequence[str]) -> list[str]:
    """Compare the names that the policy stated with those that are in the file."""
    problems = [f"{name} was announced {n} times" for name, n in Counter(said).items() if n > 1]
    problems += [f"{name} was announced and is missing" for name in sorted({*said} - {*offered})]
    problems += [f"{name} was not announced" for name in sorted({*offered} - {*said})]
    return problems


def _proven(asked: str, forgotten: bool, readbacks: Sequence[Readback], path: Path) -> str:
    """The checksum of what all ranks together serve, which is what is at ``path``, to the bit."""
    problems = [
        f"rank {readback.rank}: {', '.join(readback.differing)} differ from what was published"
        for readback in readbacks
        if readback.differing
    ]
    if not forgotten:
        problems.append("the prefix cache still holds keys and values of the former weights")
    problems += [f"no rank serves all of {name}" for name in uncovered(list(readbacks))]
    if problems:
        raise RefitError(asked, "; ".join(problems), "this worker is ended; start a new one")
    if len(readbacks) == 1:
        return readbacks[0].checksum
    # No rank holds the state; every part of it was compared above.
    with opened(path) as weights:
        return state_checksum((info.name, weights.tensor(info.name)) for info in weights.manifest())
