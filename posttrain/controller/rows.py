"""Rollouts as rows of the data plane, and back, exact to the bit."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from posttrain.errors import DataError
from posttrain.sample import assemble

if TYPE_CHECKING:
    from posttrain.controller.words import Finished, Reservation
    from posttrain.dataplane import Row, Value
    from posttrain.sample import Sample

PARTITION = "rollouts"
FIELDS = (
    "group",
    "number",
    "row",
    "rollout",
    "token_ids",
    "spans",
    "logprobs",
    "reward",
    "truncated",
    "text",
    "weight_version",
    "last_weight_version",
    "cause",
)


@dataclass(frozen=True)
class Committed:
    """A rollout that was read from the data plane.

    Attributes:
        group: name of its group.
        number: of the group's prompt.
        rollout: its number in the group.
        sample: None for a placeholder. Its ``weight_version`` is that of the oldest weights that
            may have generated a token of it.
        last_weight_version: of the newest ones; greater where a refit came in between.
        cause: of a placeholder.
    """

    group: str
    number: int
    rollout: int
    sample: Sample | None
    last_weight_version: int
    cause: str

    def line(self) -> dict[str, Any]:
        """The sample as a JSON object, with both versions where it has two."""
        if self.sample is None:
            raise ValueError(f"a placeholder has no sample: {self}")
        content = asdict(self.sample)
        if self.last_weight_version != self.sample.weight_version:
            content["last_weight_version"] = self.last_weight_version
        return content


def stamped(finished: Finished, first: int, last: int) -> Finished:
    """A rollout with its weights' versions, where its source does not know better.

    Args:
        finished: the rollout.
        first: version that was served when its group was admitted.
        last: newest version that may have been served by the time it arrived.
    """
    sample = finished.sample
    if sample is not None and sample.weight_version is None:
        sample = replace(sample, weight_version=first)
    known = finished.last_weight_version
    return replace(finished, sample=sample, last_weight_version=last if known is None else known)


def encode(group: Reservation, finished: Finished) -> Row:
    """Make a row of a stamped rollout.

    Raises:
        DataError: a log-probability is no float32, so that training would not see what the engine
            said.
    """
    sample = finished.sample
    common: dict[str, Value] = {
        "group": group.group,
        "number": group.prompt.number,
        "row": group.prompt.row.index,
        "rollout": finished.rollout,
        "last_weight_version": int(finished.last_weight_version or 0),
        "cause": finished.cause,
    }
    if sample is None:
        nothing = np.zeros(0, np.int64)
        return common | {
            "token_ids": nothing,
            "spans": nothing,
            "logprobs": np.zeros(0, np.float32),
            "reward": 0.0,
            "truncated": 0,
            "text": "",
            "weight_version": group.version,
        }
    logprobs = np.asarray(sample.logprobs, np.float32)
    if not np.array_equal(logprobs, np.asarray(sample.logprobs, np.float64), equal_nan=True):
        place = int(np.flatnonzero(logprobs != np.asarray(sample.logprobs))[0])
        raise DataError(
            f"row {sample.row}: log-probabilities in single precision",
            f"{sample.logprobs[place]!r} at completion token {place}",
            "have the engine report what it computed, unrounded",
        )
    return common | {
        "token_ids": np.asarray(sample.token_ids, np.int64),
        "spans": np.asarray(sample.spans, np.int64).reshape(-1),
        "logprobs": logprobs,
        "reward": float(sample.reward),
        "truncated": int(sample.truncated),
        "text": sample.text,
        "weight_version": int(sample.weight_version or 0),
    }


def decode(row: dict[str, Value]) -> Committed:
    """Read a row that has all of :data:`FIELDS`."""
    # The plane returns each field in the type in which it was put.
    it = cast("dict[str, Any]", row)
    sample = None
    if not it["cause"]:
        spans = it["spans"].reshape(-1, 2).tolist()
        sample = assemble(
            it["token_ids"].tolist(),
            [(start, end) for start, end in spans],
            it["logprobs"].tolist(),
            row=it["row"],
            reward=it["reward"],
            truncated=bool(it["truncated"]),
            text=it["text"],
            weight_version=it["weight_version"],
        )
    return Committed(
        it["group"], it["number"], it["rollout"], sample, it["last_weight_version"], it["cause"]
    )
