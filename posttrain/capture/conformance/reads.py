"""Checks of reading: the order that was asked for, and keys that are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posttrain.capture.conformance.calls import fetch, same, stage
from posttrain.capture.conformance.failure import Failed, require
from posttrain.capture.conformance.records import record, rollout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nemo_gym.token_id_capture.staging import StagingSource

    from posttrain.capture.conformance.subject import Subject


def fetch_order(subject: Subject) -> None:
    """Snapshots come in the order of the keys, whatever it is, and one for each key."""
    name = rollout()
    calls = [record(name, f"call {number}", generated=(number,)) for number in range(9)]
    with subject.clients() as clients:
        keys = [stage(clients.sink, call) for call in calls]
        for order in ([*range(9)], [*range(8, -1, -1)], [4, 0, 8, 2, 6, 1, 7, 3, 5], [3], [5, 1]):
            found = fetch(clients.source, [keys[place] for place in order])
            said = [each.model_call_id for each in found if each.rollout_id == name]
            require(
                len(said) != len(order) or said == [calls[place].model_call_id for place in order],
                f"asked for the calls {order}, got {', '.join(said)}",
            )
            same([calls[place] for place in order], found, "in another order")


def missing_keys(subject: Subject) -> None:
    """A key that is not staged is an error that names it, alone and among others; no keys, none."""
    name = rollout()
    with subject.clients() as clients:
        key = stage(clients.sink, record(name, "there"))
        for lost in (f"{name}/nowhere", f"{rollout()}/there"):
            for keys in ([lost], [key, lost], [lost, key]):
                _named(clients.source, keys, lost)
        require(fetch(clients.source, []) == [], "no keys gave snapshots")


def _named(source: StagingSource, keys: Sequence[str], lost: str) -> None:
    try:
        found = source.fetch(list(keys))
    except Exception as error:
        if lost in f"{error!s} {error!r}":
            return
        raise Failed(f"the error for the missing key {lost} does not name it: {error!r}") from error
    raise Failed(f"{len(keys)} keys, of which {lost} is not staged, gave {len(found)} snapshots")
