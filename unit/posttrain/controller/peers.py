"""Peers of what a controller talks to, deterministic and without a model.

One ``Weights`` stands for what policy and engines hold. Every completion is a function of the
rollout's seed and of the version of the weights that gave it, as an engine's at a fixed seed is.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from posttrain.controller.failures import GroupDataError, GroupInfrastructureError
from posttrain.controller.words import Finished
from posttrain.dataplane import MemoryPlane
from posttrain.errors import StackError, WorkerError
from posttrain.refit.acknowledgement import Acknowledgement, Served
from posttrain.sample import Sample

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

    from posttrain.controller.words import Reservation
    from posttrain.data import Row
    from posttrain.refit.offer import Request

NAMES = ("model.embed", "model.head")
LATENESS = 6


def checksum(version: int) -> str:
    """Of the weights of a version."""
    return hashlib.sha256(f"weights {version}".encode()).hexdigest()


def completion(seed: str, version: int, tokens: int = 4) -> tuple[list[int], list[float]]:
    """Token ids and log-probabilities, the latter in single precision as an engine's are."""
    digest = hashlib.sha256(f"{seed}/{version}".encode()).digest()
    ids = [1 + byte for byte in digest[:tokens]]
    return ids, (-np.frombuffer(digest[:tokens], np.uint8) / np.float32(77)).astype(float).tolist()


@dataclass
class Weights:
    """What policy and engines hold: the version that each has."""

    trained: int = 0
    served: int = 0


@dataclass(frozen=True)
class Offer:
    """As much of an offer as a controller reads."""

    request: Request
    checksum: str
    names: tuple[str, ...] = NAMES
    nbytes: int = 8
    buffers: tuple[int, ...] = (8,)


@dataclass
class Policy:
    """Ranks whose log-probabilities are the samples' own, and whose weights are a number."""

    weights: Weights
    steps: list[list[Sample]] = field(default_factory=list)
    before_step: Callable[[], object] = lambda: None

    def logprobs(self, samples: Sequence[Sample], _drawn_from: object) -> list[list[float]]:
        return [list(sample.logprobs) for sample in samples]

    def train_step(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[Sequence[float]],
        old_logprobs: Sequence[Sequence[float]],
        _drawn_from: object,
    ) -> dict[str, float]:
        self.before_step()
        self.steps.append(list(samples))
        self.weights.trained += 1
        terms = zip(advantages, old_logprobs, strict=True)
        loss = -sum(sum(ours) + sum(theirs) for ours, theirs in terms)
        return {
            "loss": loss,
            "grad_norm": abs(loss),
            "lr": 1e-4,
            "clip_fraction": 0.0,
            "optimizer_steps": 1,
            "completion_tokens": sum(len(sample.completion_ids) for sample in samples),
            "tokens_outside_filters": 0,
        }

    def checksum_since_offer(self) -> str:
        return checksum(self.weights.trained)

    def offer_weights(self, request: Request) -> Offer:
        return Offer(request, checksum(self.weights.trained))

    @contextmanager
    def sending(self) -> Iterator[None]:
        yield


@dataclass
class Generation:
    """Two engines that serve what the policy last offered."""

    weights: Weights
    refits: list[Request] = field(default_factory=list)
    resets: int = 0
    names: tuple[str, ...] = ("generation-0", "generation-1")
    receivers: tuple[str, ...] = ("generation-0 rank 0", "generation-1 rank 0")

    def ask_served(self) -> Callable[[], dict[str, Served]]:
        version = self.weights.served
        return lambda: {name: Served(version, checksum(version)) for name in self.names}

    def refit(self, offer: Offer) -> list[Acknowledgement]:
        self.refits.append(offer.request)
        self.weights.served = offer.request.version
        return [
            Acknowledgement(
                worker=name,
                ok=True,
                names=offer.names,
                checksum=offer.checksum,
                weight_version=offer.request.version,
            )
            for name in self.names
        ]

    def reset_prefix_caches(self) -> None:
        self.resets += 1


@dataclass(frozen=True)
class Fate:
    """What becomes of one rollout of one attempt.

    Attributes:
        late: turns of the event loop until it is finished.
        ends: ``ok``, ``placeholder``, ``infrastructure``, ``data``, or ``hang``.
    """

    late: int = 0
    ends: str = "ok"


class Moments:
    """Counts what happens in a run, in any thread, and does something at one of these moments."""

    def __init__(self, which: int, what: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._left = which
        self._what = what

    def __call__(self) -> None:
        with self._lock:
            self._left -= 1
            now = self._left == 0
        if now:
            self._what()


class MomentousPlane(MemoryPlane):
    """A plane in memory, whose every call is a moment before and one after."""

    def __init__(self, moment: Callable[[], object]) -> None:
        super().__init__()
        self._moment = moment

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in {"put", "get", "claim", "check", "clear"}:
            return found
        moment = self._moment

        def call(*arguments: Any, **named: Any) -> Any:
            moment()
            result = found(*arguments, **named)
            moment()
            return result

        return call


@dataclass
class Source:
    """Rollouts with fates; remembers what it was asked and told.

    Attributes:
        weights: what the engines serve.
        fate: of each rollout, by its reservation and number.
        dead: what the watch reports.
        moment: called at whatever happens here.
        let_go: called with each group that is committed or abandoned.
    """

    weights: Weights
    fate: Callable[[Reservation, int], Fate] = lambda _group, _rollout: Fate()
    dead: StackError | None = None
    moment: Callable[[], object] = lambda: None
    let_go: Callable[[Reservation], object] = lambda _group: None
    reserved: list[Reservation] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    abandons: list[str] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    most_rollouts: int = 0
    most_groups: int = 0
    validations: int = 0
    closed: int = 0

    async def run(self, group: Reservation) -> AsyncGenerator[Finished, None]:
        self.moment()
        self.reserved.append(group)
        self.running.add(group.group)
        self.most_groups = max(self.most_groups, len(self.running))
        self.most_rollouts = max(self.most_rollouts, len(self.running) * len(group.ids))
        calls = [
            asyncio.create_task(self._roll_out(group, rollout)) for rollout in range(len(group.ids))
        ]
        try:
            for call in asyncio.as_completed(calls):
                yield await call
                self.moment()
        finally:
            self.running.discard(group.group)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    async def _roll_out(self, group: Reservation, rollout: int) -> Finished:
        fate = self.fate(group, rollout)
        if fate.ends == "hang":
            await asyncio.Event().wait()
        version = self.weights.served
        for _ in range(fate.late):
            await asyncio.sleep(0)
        cause = WorkerError(f"rollout {rollout}", fate.ends, "look at the test")
        if fate.ends == "infrastructure":
            raise GroupInfrastructureError.of(group, cause)
        if fate.ends == "data":
            raise GroupDataError.of(group, cause)
        if fate.ends == "placeholder":
            return Finished(rollout, None, "history was edited")
        return Finished(rollout, sample_of(group, rollout, version))

    async def committed(self, group: Reservation) -> None:
        self.moment()
        self.commits.append(group.group)
        self.let_go(group)

    async def abandoned(self, group: Reservation) -> None:
        self.moment()
        self.abandons.append(group.group)
        self.let_go(group)

    async def validate(self, rows: Sequence[Row], seed: str) -> list[Sample]:
        self.moment()
        self.validations += 1
        await asyncio.sleep(0)
        return [_sample(row.index, f"{seed}/{row.index}/0", self.weights.served) for row in rows]

    async def close(self) -> None:
        self.closed += 1

    async def between_steps(self) -> None:
        await asyncio.sleep(0)

    def take_metrics(self) -> Mapping[str, float | str]:
        return {}

    def watch(self) -> None:
        if self.dead is not None:
            raise self.dead


def sample_of(group: Reservation, rollout: int, version: int) -> Sample:
    """The sample of a rollout; its text is the id of its row, so that a test knows it again."""
    seed = f"{group.prompt.seed}/{group.prompt.row.index}/{rollout}"
    return _sample(group.prompt.row.index, seed, version, group.ids[rollout])


def _sample(row: int, seed: str, version: int, text: str = "") -> Sample:
    ids, logprobs = completion(seed, version)
    return Sample(
        row=row,
        prompt_ids=(300 + row, 2),
        completion_ids=tuple(ids),
        logprobs=tuple(logprobs),
        reward=float(ids[0] % 2),
        truncated=ids[1] % 2 == 1,
        text=text,
    )


def hang_in_a_thread() -> None:
    """Never return, as a call of a library may that no signal reaches."""
    threading.Event().wait()


def any_(value: Any) -> Any:
    """A peer where the real thing is declared."""
    return value
