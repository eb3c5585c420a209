"""The refit of one engine: refuse, or load and prove; a half-updated engine is never served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posttrain.checksum import combined, state_checksum
from posttrain.errors import RefitError
from posttrain.generation.parts import Loaded, Readback
from posttrain.generation.proof import assembled, of_all_ranks, unproven
from posttrain.refit.acknowledgement import Acknowledgement
from posttrain.refit.offer import engine_receivers

if TYPE_CHECKING:
    from collections.abc import Callable

    from vllm.v1.engine.async_llm import AsyncLLM

    from posttrain.generation.core import InProcessCore
    from posttrain.generation.parts import Piece
    from posttrain.refit.offer import Offer


async def update_weights(
    engine: AsyncLLM,
    core: InProcessCore,
    worker: str,
    offer: Offer,
    stamp: Callable[[int], None],
) -> Acknowledgement:
    """Serve offered weights from now on, and prove it: see ``GenerationWorker.load_weights``.

    ``stamp`` is called with their version before any request is scheduled with them.

    Raises:
        RefitError: before anything was loaded, or after the engine was ended.
    """
    version = offer.request.version
    asked = f"weights of version {version} in {worker}"
    ranks = engine.vllm_config.parallel_config.world_size
    first = _first_receiver(asked, worker, offer, ranks)
    if version <= (served := await served_version(core)):
        raise RefitError(
            asked,
            f"version {served} is served",
            "give each refit a greater version, so that none names two sets of weights",
        )
    problems: list[str] = []
    for answer in await core.collective_rpc_async("refit_check", args=(offer.manifest,)):
        problems += [problem for problem in answer if problem not in problems]
    if problems:
        todo = "offer exactly the checkpoint's tensors; the former weights are still served"
        raise RefitError(asked, "; ".join(problems), todo)
    waiting = engine.get_num_unfinished_requests() + core.batched()
    if waiting and offer.request.in_flight == "refuse":
        todo = 'wait for them before a refit, or have it in_flight="continue"'
        raise RefitError(asked, f"{waiting} requests in flight", todo)
    # "keep": requests that arrive from now on wait, and see the new weights only. Those that are
    # at work keep the tokens that they have.
    await core.pause_scheduler_async("keep", clear_cache=False)
    try:
        live = await _load(core, asked, offer, range(first, first + ranks))
        await core.set_weight_version_async(str(version))
        stamp(version)
    except _NothingLoadedError:
        await core.resume_scheduler_async()
        raise
    except BaseException as error:
        core.condemn(error)
        raise
    await core.resume_scheduler_async()
    return Acknowledgement(
        worker=worker,
        ok=True,
        names=tuple(sorted({part.span.name for each in live for part in each.parts})),
        checksum=_checksum(offer, live),
        weight_version=version,
    )


class _NothingLoadedError(RefitError):
    """A refit that ended before anything was loaded."""


async def _load(core: InProcessCore, asked: str, offer: Offer, receivers: range) -> list[Readback]:
    """Load what is offered on every rank, and return what is then live: exactly that.

    Raises:
        _NothingLoadedError: some rank did not meet the sender, so that none has loaded anything.
        RefitError: the engine must not serve any more.
    """
    todo = "this worker is ended; start a new one"
    answers = await core.collective_rpc_async("refit_load", args=(offer, receivers.start))
    loaded = of_all_ranks(asked, answers, Loaded, len(receivers))
    if failures := [f"rank {each.rank} {each.problem}" for each in loaded if each.problem]:
        if any(each.began for each in loaded):
            raise RefitError(asked, "; ".join(failures), todo)
        todo = "nothing was loaded, the former weights are still served"
        raise _NothingLoadedError(asked, "; ".join(failures), todo)
    # Those at work lose their blocks too: what the former weights computed for their tokens is
    # computed again before they get another one.
    running = offer.request.in_flight == "continue"
    forgotten: bool = await core.reset_prefix_cache_async(reset_running_requests=running)
    answers = await core.collective_rpc_async("refit_readback")
    live = of_all_ranks(asked, answers, Readback, len(receivers))
    failures = unproven(loaded, live)
    if not forgotten:
        failures.append("the prefix cache still holds what the former weights have computed")
    if failures:
        raise RefitError(asked, "; ".join(failures), todo)
    return live


async def served_version(core: InProcessCore) -> int:
    """The version of the weights that the engine serves, as the engine itself keeps it."""
    return int(await core.get_weight_version_async())


async def live_checksum(core: InProcessCore, worker: str) -> str:
    """The checksum of the full live weights, read back from every rank of the engine.

    Raises:
        RefitError: the ranks' parts contradict each other or leave a gap.
    """
    live: list[Readback] = await core.collective_rpc_async("refit_readback")
    if not live:
        raise RefitError(f"the live weights of {worker}", "no rank answered", "start a new worker")
    held = {part.span.name: part for part in live[0].parts}
    if len(live) == 1 and {*held.values()} == {*live[0].parts}:
        return combined((name, p.dtype, p.span.shape, p.digest) for name, p in held.items())
    # Over several ranks, or live in two places that differ, which this names.
    parts: list[list[Piece]] = await core.collective_rpc_async("refit_pieces")
    return state_checksum(assembled(piece for part in parts for piece in part).items())


def _first_receiver(asked: str, worker: str, offer: Offer, ranks: int) -> int:
    """The place of the engine's rank 0 among the receivers, whose other ranks follow."""
    own = engine_receivers([(worker, ranks)])
    receivers = offer.request.receivers
    if own[0] in receivers:
        first = receivers.index(own[0])
        if receivers[first : first + ranks] == own:
            return first
    raise RefitError(
        asked,
        f"receivers {', '.join(receivers)}",
        f"offer them to {', '.join(own)}, or don't send this worker the offer",
    )


def _checksum(offer: Offer, live: list[Readback]) -> str:
    """Of what is live: by what was read back where one rank holds a tensor whole.

    Of a divided tensor each part was compared with its part of what arrived, and that with the
    policy's digest; so that digest is the tensor's.
    """
    held = {part.span.name: part.digest for each in live for part in each.parts if part.span.whole}
    return combined(
        (info.name, info.dtype, info.shape, held.get(info.name, info.digest))
        for info in offer.manifest
    )
