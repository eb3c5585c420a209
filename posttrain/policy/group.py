"""The policy's ranks as Ray actors, driven from a process that needs no torch."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ray

from posttrain.actors import Actors, ProcessActor, actor_options
from posttrain.errors import RefitError, StackError, WorkerError
from posttrain.imports import collector_paused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from posttrain.checkpoint.manifest import Saved
    from posttrain.policy.options import PolicyOptions
    from posttrain.refit.offer import Offer, Request
    from posttrain.sample import Sample
    from posttrain.sampling import Drawn

# How long a sender may take to say why it ended, when engines say that they got nothing.
LAST_WORDS_S = 2.0


class RankActor(ProcessActor):
    """The process around a rank.

    Args:
        options: the policy's settings.
        rank: the rank's number, from 0.
    """

    def __init__(self, options: PolicyOptions, rank: int) -> None:
        super().__init__()
        with collector_paused():
            from posttrain.policy.rank import PolicyRank

        self._worker = PolicyRank(options, rank)


class PolicyGroup:
    """All ranks of the policy. They start on construction; `wait_ready` waits for them.

    A call that a rank does not survive, or does not answer, ends all ranks, since none can go on
    without the others; every later call says why. What a rank reports in the stack's own words
    (a `StackError` that is no `WorkerError`) left all ranks' weights as they were.

    Args:
        options: the policy's settings.
        python: interpreter of the worker environment in which the ranks run.
        environment: variables of the ranks, besides those of `rank_environment`.
        placements: Ray's actor options, one mapping a rank: `num_cpus`, `num_gpus`,
            `scheduling_strategy`. By default half a CPU each, and an accelerator on `cuda`.
        call_timeout_s: deadline of every call, in seconds; a checkpoint is saved and loaded within
            the collectives' own deadline.
    """

    def __init__(
        self,
        options: PolicyOptions,
        *,
        python: Path,
        environment: Mapping[str, str] | None = None,
        placements: Sequence[Mapping[str, Any]] | None = None,
        call_timeout_s: float = 60.0,
    ) -> None:
        self.options = options
        self._timeout_s = call_timeout_s
        self._lost: WorkerError | None = None
        # Checksum of the last offer, for as long as the weights cannot be others.
        self._offered: str | None = None
        default = {"num_cpus": 0.5, "num_gpus": 1 if options.device == "cuda" else 0}
        self._actors = Actors(
            RankActor,
            {f"policy rank {rank}": (options, rank) for rank in range(options.ranks)},
            actor_options(
                python,
                {**rank_environment(options.threads), **(environment or {})},
                [default] * options.ranks if placements is None else placements,
            ),
            what="policy ranks",
        )
        first, *_ = self._actors.names
        port = self._actors.submit(first, "listen")
        self._starting = {
            name: self._actors.submit(name, "start", port) for name in self._actors.names
        }

    def wait_ready(self, timeout_s: float = 120.0) -> None:
        """Wait until every rank holds its shard.

        Raises:
            StackError: what a rank reports, such as a `ModelError`.
            WorkerError: a rank died or did not get ready within `timeout_s` seconds.
        """
        self._guarded(lambda: self._actors.gather("start", self._starting, timeout_s))

    def logprobs(self, samples: Sequence[Sample], drawn_from: Drawn) -> list[list[float]]:
        """Recompute the completion tokens' log-probabilities, one list a sample, in order."""
        parts = self._call("logprobs", list(samples), drawn_from)
        return [values for part in parts for values in part]

    def reference_logprobs(self, samples: Sequence[Sample], drawn_from: Drawn) -> list[list[float]]:
        """The same by the frozen reference: see `PolicyRank.reference_logprobs`."""
        parts = self._call("reference_logprobs", list(samples), drawn_from)
        return [values for part in parts for values in part]

    def train_step(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[Sequence[float]],
        old_logprobs: Sequence[Sequence[float]],
        drawn_from: Drawn,
    ) -> dict[str, float]:
        """Take exactly one optimizer step: see `PolicyRank.train_step`."""
        self._offered = None
        results: list[dict[str, float]] = self._call(
            "train_step", list(samples), list(advantages), list(old_logprobs), drawn_from
        )
        return results[0]

    def checksum(self) -> str:
        """Return the checksum of the whole model: see `posttrain.checksum`."""
        checksum: str = self._call("checksum")[0]
        return checksum

    def checksum_since_offer(self) -> str:
        """The last offer's checksum while nothing has touched the weights since, else `checksum`.

        Gathering a whole model once more only to find it the same takes as long as a refit.
        """
        if self._lost:
            raise self._lost
        return self._offered or self.checksum()

    def offer_weights(self, request: Request) -> Offer:
        """Make the whole model ready to be sent: see `PolicyRank.offer_weights`."""
        offer: Offer = self._call("offer_weights", request)[0]
        self._offered = offer.checksum
        return offer

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Have rank 0 send what was offered while the block has the engines receive it.

        Raises:
            StackError: whatever the block raises, unless rank 0 died, which explains it. A sender
                that still waits for others then is left to its own deadline.
        """
        if self._lost:
            raise self._lost
        first, *_ = self._actors.names
        sent = {first: self._actors.submit(first, "send_weights")}

        def gather() -> dict[str, Any]:
            return self._actors.gather("send_weights", sent, self._timeout_s)

        try:
            yield
        except StackError:
            if ray.wait(list(sent.values()), timeout=LAST_WORDS_S)[0]:
                # Of a refit that failed the engine knows more than its sender.
                with suppress(RefitError):
                    self._guarded(gather)
            raise
        self._guarded(gather)

    def save_checkpoint(self, folder: Path) -> Saved:
        """Write all ranks' training state to an empty folder that they share."""
        parts: list[Saved] = self._call(
            "save_checkpoint", folder, timeout_s=self.options.collective_timeout_s
        )
        files = {name: content for part in parts for name, content in part.files.items()}
        return replace(parts[0], files=files)

    def load_checkpoint(self, folder: Path) -> int:
        """Take over what as many ranks have saved; returns the steps that they had taken."""
        self._offered = None
        limit = self.options.collective_timeout_s
        steps: int = self._call("load_checkpoint", folder, timeout_s=limit)[0]
        return steps

    def to_host(self) -> None:
        """Hand the accelerators over to colocated engines: see `PolicyRank.to_host`."""
        self._offered = None  # what is copied is looked at again
        self._call("to_host")

    def to_device(self) -> None:
        """Take the accelerators back after `to_host`."""
        self._call("to_device")

    def shutdown(self) -> None:
        """End the ranks. It cannot fail, and may be called again."""
        self._actors.shutdown()

    def _call(self, method: str, *arguments: Any, timeout_s: float | None = None) -> list[Any]:
        """Call a method of every rank; one result a rank, in their order."""
        if self._lost:
            raise self._lost
        results = self._guarded(
            lambda: self._actors.call(method, *arguments, timeout_s=timeout_s or self._timeout_s)
        )
        return list(results.values())

    def _guarded(self, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return call()
        except WorkerError as error:
            self._lost = error
            self.shutdown()
            raise


def rank_environment(threads: int) -> dict[str, str]:
    """The variables of a rank's process, which must be set before torch is imported.

    No spinning: ranks share their cores with other processes.
    """
    return {
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "MKL_NUM_THREADS": str(threads),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        # cuBLAS is deterministic only with a fixed workspace.
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
