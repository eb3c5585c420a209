"""The policy's ranks as Ray actors, driven from a process that needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posttrain.actors import Actors, ProcessActor, actor_options
from posttrain.errors import WorkerError
from posttrain.imports import collector_paused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from posttrain.policy.options import PolicyOptions
    from posttrain.sample import Sample


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
        call_timeout_s: deadline of every call, in seconds.
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

    def logprobs(self, samples: Sequence[Sample], temperature: float) -> list[list[float]]:
        """Recompute the completion tokens' log-probabilities, one list a sample, in order."""
        parts = self._call("logprobs", list(samples), temperature)
        return [values for part in parts for values in part]

    def train_step(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[float],
        old_logprobs: Sequence[Sequence[float]],
        temperature: float,
    ) -> dict[str, float]:
        """Take exactly one optimizer step: see `PolicyRank.train_step`."""
        results: list[dict[str, float]] = self._call(
            "train_step", list(samples), list(advantages), list(old_logprobs), temperature
        )
        return results[0]

    def checksum(self) -> str:
        """Return the checksum of the whole model: see `posttrain.checksum`."""
        checksum: str = self._call("checksum")[0]
        return checksum

    def publish_state(self, path: Path) -> list[str]:
        """Write the whole model to `path` as safetensors and return its tensors' names."""
        names: list[str] = self._call("publish_state", path)[0]
        return names

    def to_host(self) -> None:
        """Hand the accelerators over to colocated engines: see `PolicyRank.to_host`."""
        self._call("to_host")

    def to_device(self) -> None:
        """Take the accelerators back after `to_host`."""
        self._call("to_device")

    def shutdown(self) -> None:
        """End the ranks. It cannot fail, and may be called again."""
        self._actors.shutdown()

    def _call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every rank; one result a rank, in their order."""
        if self._lost:
            raise self._lost
        results = self._guarded(
            lambda: self._actors.call(method, *arguments, timeout_s=self._timeout_s)
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
