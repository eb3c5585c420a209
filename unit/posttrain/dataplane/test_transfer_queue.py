"""The TransferQueue plane: that TransferQueue does the work."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.dataplane import (
    EvictedError,
    HandleError,
    LostRowError,
    PlaneError,
    connect,
)
from posttrain.dataplane.ledger import Place
from unit.posttrain.dataplane.broken import FIELDS, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from posttrain.dataplane.transfer_queue import TransferQueuePlane


@pytest.fixture
def plane(queue: TransferQueuePlane) -> TransferQueuePlane:
    return queue


@pytest.fixture
def partition(fresh: Callable[..., str]) -> str:
    return fresh(FIELDS)


def test_each_storage_unit_counts_the_puts_gets_and_clears_that_it_served(
    plane: TransferQueuePlane, partition: str
) -> None:
    before = plane.served()
    assert sorted(before) == ["unit-0", "unit-1"]
    ids = [f"r{number}" for number in range(10)]
    plane.put(partition, rows(*ids))
    plane.get(partition, ids, ["number"])
    plane.get(partition, ids, ["tokens"])
    middle = plane.served()
    places = plane._ledger("test", "locate", partition, ids, []).places
    held = Counter(f"unit-{place.slot % 2}" for place in places)
    plane.clear(partition, ids)
    after = plane.served()
    for name in before:
        assert middle[name].puts - before[name].puts == (1 if held[name] else 0)
        assert middle[name].gets - before[name].gets == (2 if held[name] else 0)
        assert middle[name].rows - before[name].rows == held[name]
        assert after[name].clears - middle[name].clears == (1 if held[name] else 0)
        assert after[name].rows == before[name].rows
    assert len(set(plane.pids().values())) == len(plane.pids()) == 4


# Ray has threads, of which Python warns whoever forks.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_that_was_forked_is_told_to_connect_and_closes_nothing(
    plane: TransferQueuePlane, partition: str
) -> None:
    plane.put(partition, rows("a"))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for call in (
                lambda: plane.get(partition, ["a"], FIELDS),
                lambda: plane.put(partition, rows("b")),
                plane.handle,
            ):
                with pytest.raises(HandleError, match=f"was forked from process {os.getppid()}"):
                    call()
            plane.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert plane.get(partition, ["a"], ["number"])


def test_clearing_gives_the_memory_of_the_units_back(
    plane: TransferQueuePlane, partition: str
) -> None:
    def resident() -> int:
        return sum(served.rss_bytes for served in plane.served().values())

    size = 64 << 20
    before = resident()
    for turn in range(3):
        ids = [f"{turn}-{number}" for number in range(8)]
        plane.put(partition, rows(*ids, length=size // 8 // len(ids)))
        full = resident()
        assert full - before > size * 0.9
        plane.clear(partition, ids[:-1])
        # One row keeps its own memory only, not that of the rows which came with it.
        assert resident() - before < full - before - size // 2
        plane.clear(partition)
    assert resident() - before < size // 2


def test_a_row_that_is_refused_last_leaves_nothing_in_the_units(
    plane: TransferQueuePlane, fresh: Callable[..., str]
) -> None:
    partition = fresh(FIELDS, capacity=4)
    before = {name: served.rows for name, served in plane.served().items()}

    def put(writer: int) -> bool:
        try:
            plane.put(partition, rows(*(f"{writer}-{number}" for number in range(4)), length=9000))
        except PlaneError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(put, range(6))) == 1
    after = {name: served.rows - before[name] for name, served in plane.served().items()}
    assert sum(after.values()) == 4


def test_rows_can_be_cleared_by_another_process_as_soon_as_they_are_put(
    plane: TransferQueuePlane, fresh: Callable[..., str]
) -> None:
    """Of which TransferQueue's controller has heard nothing when they are cleared."""
    partition = fresh(FIELDS, capacity=8)
    trainer = connect(plane.handle())
    before = sum(served.rows for served in plane.served().values())
    for turn in range(20):  # more rows than the plane has indexes at hand
        ids = [f"{turn}-{number}" for number in range(8)]
        plane.put(partition, rows(*ids))
        trainer.clear(partition, ids)
    assert sum(served.rows for served in plane.served().values()) == before
    plane.put(partition, rows("last"))
    assert trainer.get(partition, ["last"], ["number"]) == [{"number": 0}]
    trainer.close()


# What cannot be right is not returned.


def test_a_place_that_another_row_has_got_is_noticed(
    plane: TransferQueuePlane, partition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.put(partition, rows("a"))
    plane.put(partition, rows("b"))
    real = plane._client.read

    def misplaced(places: list[Place], fields: list[str]) -> Any:
        return real([Place(place.serial, other[place.slot]) for place in places], fields)

    located = [
        plane._ledger("test", "locate", partition, [key], []).places[0] for key in ("a", "b")
    ]
    other = {located[0].slot: located[1].slot, located[1].slot: located[0].slot}
    monkeypatch.setattr(plane._client, "read", misplaced)
    with pytest.raises(LostRowError, match="another row in the place"):
        plane.get(partition, ["a", "b"], ["number"])


def test_a_row_that_is_cleared_while_it_is_read_is_evicted_not_lost(
    plane: TransferQueuePlane, partition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.put(partition, rows("a"))
    real = plane._client.read

    def late(places: list[Place], fields: list[str]) -> Any:
        plane.clear(partition, ["a"])
        return real(places, fields)

    monkeypatch.setattr(plane._client, "read", late)
    with pytest.raises(EvictedError, match="get row 'a'"):
        plane.get(partition, ["a"], ["number"])


def test_a_row_that_its_unit_does_not_have_is_lost(
    plane: TransferQueuePlane, partition: str
) -> None:
    plane.put(partition, rows("a", "b"))
    place = plane._ledger("test", "locate", partition, ["b"], []).places[0]
    plane._client.submit(plane._client.free(partition, [place.slot])).result(30)
    with pytest.raises(LostRowError):
        plane.get(partition, ["a", "b"], ["number"])
    assert plane.get(partition, ["a"], ["number"]) == [{"number": 0}]
