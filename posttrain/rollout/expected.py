"""What a row's rollout must be like, as the row itself says (``rollout``)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from posttrain.environment.reward import flaw
from posttrain.errors import DataError

if TYPE_CHECKING:
    from posttrain.data import Row

# Why the model stopped: by its end-of-sequence token, or because it may say no more.
Stop = Literal["end", "length"]
_STOPS = ("end", "length")


@dataclass(frozen=True)
class Expected:
    """What a rollout must be like.

    Attributes:
        stops: why each turn stops, so also how many there are.
        reward: the environment's verdict.
    """

    stops: tuple[Stop, ...]
    reward: float


def read_expected(row: Row) -> Expected:
    """Read ``rollout`` of a row: ``{"stops": ["end" or "length", ...], "reward": number}``.

    Raises:
        DataError: it is missing, or anything else.
    """
    said = row.raw.get("rollout")
    if not isinstance(said, dict) or set(said) != {"stops", "reward"}:
        raise _wrong(row, said)
    stops = said["stops"]
    if not isinstance(stops, list) or not stops or any(stop not in _STOPS for stop in stops):
        raise _wrong(row, said)
    if flaw({"reward": said["reward"]}):
        raise _wrong(row, said)
    return Expected(tuple(stops), float(said["reward"]))


def _wrong(row: Row, said: Any) -> DataError:
    return DataError(
        f"row {row.index}: what its rollout must be like",
        f"rollout = {json.dumps(said)}" if "rollout" in row.raw else "no key 'rollout'",
        'give {"stops": ["end" or "length", one for each turn], "reward": number}',
    )
