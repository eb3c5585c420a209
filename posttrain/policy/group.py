"""The policy's ranks as Ray actors, driven from a process that needs no torch."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from posttrain.errors import RecipeError, StackError, WorkerError
from posttrain.stacks import register_stack_dump, request_stack_dump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from posttrain.policy.options import PolicyOptions
    from posttrain.sample import Sample

ENVIRONMENT = {
    # One computing thread each, and no spinning: ranks share their cores with other processes.
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "MKL_NUM_THREADS": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # cuBLAS is deterministic only with a fixed workspace
}
DUMP_GRACE_S = 1.0  # between asking for stacks and ending the process


class RankActor:
    """The process around a rank; torch is imported only there.

    Args:
        options: the policy's settings.
        rank: the rank's number, from 0.
    """

    def __init__(self, options: PolicyOptions, rank: int) -> None:
        self._dumps_stacks = register_stack_dump() is not None
        from posttrain.policy.rank import PolicyRank

        self._rank = PolicyRank(options, rank)

    def watched(self) -> tuple[str, int]:
        """Return the node and the process that can be asked for stacks, process 0 for none."""
        node = ray.get_runtime_context().get_node_id()
        return node, os.getpid() if self._dumps_stacks else 0

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the rank, whose results are plain Python."""
        return getattr(self._rank, method)(*arguments)


class PolicyGroup:
    """All ranks of the policy. They start on construction; `wait_ready` waits for them.

    Args:
        options: the policy's settings.
        python: interpreter of the worker environment in which the ranks run.
        environment: variables of the ranks, besides those of `ENVIRONMENT`.
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
        chosen = list(placements) if placements is not None else [default] * options.ranks
        if len(chosen) != options.ranks:
            raise RecipeError(
                asked=f"places for {options.ranks} policy ranks",
                found=f"{len(chosen)} places",
                todo="ask for as many ranks as the runner has devices",
            )
        runtime = {"py_executable": str(python), "env_vars": {**ENVIRONMENT, **(environment or {})}}
        # Ray can only start again what it may repeat; a rank's state is gone with its process.
        actor = ray.remote(max_restarts=0, max_task_retries=0)(RankActor)
        self._actors = [
            actor.options(runtime_env=runtime, **placement).remote(options, rank)
            for rank, placement in zip(range(options.ranks), chosen, strict=True)
        ]
        self._watched = [rank_actor.watched.remote() for rank_actor in self._actors]
        port = self._actors[0].call.remote("listen")
        self._starting = [rank_actor.call.remote("start", port) for rank_actor in self._actors]

    def wait_ready(self, timeout_s: float = 120.0) -> None:
        """Wait until every rank holds its shard.

        Raises:
            StackError: what a rank reports, such as a `ModelError`.
            WorkerError: a rank died or did not get ready within `timeout_s` seconds.
        """
        self._results("start", self._starting, timeout_s)

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
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []

    def _call(self, method: str, *arguments: Any) -> list[Any]:
        if self._lost:
            raise self._lost
        if not self._actors:
            raise WorkerError(
                asked=f"policy: {method}",
                found="the group was shut down",
                todo="make a new PolicyGroup",
            )
        calls = [actor.call.remote(method, *arguments) for actor in self._actors]
        return self._results(method, calls, self._timeout_s)

    def _results(self, method: str, calls: list[Any], timeout_s: float) -> list[Any]:
        """Collect one result a rank, whichever comes first, within one deadline for all."""
        deadline = time.monotonic() + timeout_s
        waiting = list(calls)
        while waiting:
            left = max(0.0, deadline - time.monotonic())
            done, waiting = ray.wait(waiting, num_returns=1, timeout=left)
            if not done:
                ranks = ", ".join(str(calls.index(call)) for call in waiting)
                self._dump_stacks()
                self._lose(f"policy: {method} on rank {ranks}", f"no answer in {timeout_s:g} s")
            self._check(method, calls.index(done[0]), done[0])
        return list(ray.get(calls))

    def _check(self, method: str, rank: int, call: Any) -> None:
        try:
            ray.get(call)
        except RayActorError as error:
            self._lose(f"policy: {method} on rank {rank}", f"rank {rank} died: {error}", error)
        except RayTaskError as error:
            # What a rank reports in the stack's own words left all ranks' weights as they were;
            # after anything else the ranks may disagree.
            if isinstance(error.cause, StackError) and not isinstance(error.cause, WorkerError):
                raise error.cause from error
            self._lose(f"policy: {method} on rank {rank}", str(error), error)

    def _dump_stacks(self) -> None:
        """Have the ranks of this machine write their stacks down before they are ended."""
        node = ray.get_runtime_context().get_node_id()
        known, _ = ray.wait(self._watched, num_returns=len(self._watched), timeout=0)
        for answer in known:
            with contextlib.suppress(RayActorError):  # a dead rank has no stacks
                where, pid = ray.get(answer)
                if where == node and pid:
                    request_stack_dump(pid)
        time.sleep(DUMP_GRACE_S)

    def _lose(self, asked: str, found: str, cause: Exception | None = None) -> None:
        """End all ranks, since none can go on without the others, and say why ever after."""
        self._lost = WorkerError(asked, found, "read the rank's log, then start a new group")
        self.shutdown()
        raise self._lost from cause
