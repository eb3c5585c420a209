"""The TransferQueue plane when processes of it are silent, late, refuse or die."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from posttrain.dataplane import (
    ClosedPlaneError,
    DeadControllerError,
    DeadUnitError,
    DuplicateKeyError,
    EvictedError,
    HandleError,
    PlaneTimeoutError,
    UnavailableError,
    connect,
)
from posttrain.dataplane.transfer_queue import TransferQueuePlane
from unit.posttrain.dataplane.broken import FIELDS, MARGIN_S, rows, stop, stopped, within

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_silent_unit_is_named_by_the_deadline_and_what_it_missed_is_not_seen(
    own: TransferQueuePlane,
) -> None:
    with stopped(own.pids()["unit-1"]):
        late = within(own, lambda: own.get("p", ["a", "b"], ["number"]))
        assert isinstance(late, PlaneTimeoutError)
        assert "unit-1 lives but does not serve" in str(late)
        assert "unit-0" not in late.found
        late = within(own, lambda: own.put("p", rows("c", "d")))
        assert isinstance(late, PlaneTimeoutError)
        late = within(own, own.served)
        assert isinstance(late, PlaneTimeoutError)
        assert "no answer from unit-1" in str(late)
    assert own.check("p", ["c", "d"]) == {"c": frozenset(), "d": frozenset()}
    again = {key: {"tokens": np.arange(3), "number": 7} for key in ("c", "d")}
    own.put("p", again)
    assert own.get("p", ["d", "a", "c"], ["number"]) == [{"number": n} for n in (7, 0, 7)]


def test_what_a_late_put_wrote_and_a_late_clear_left_is_given_back(own: TransferQueuePlane) -> None:
    """No unit keeps a row that nobody can see."""
    with stopped(own.pids()["unit-1"]):
        late = within(own, lambda: own.put("p", rows("c", "d")))
        assert isinstance(late, PlaneTimeoutError)
        late = within(own, lambda: own.clear("p"))
        assert isinstance(late, PlaneTimeoutError)
    assert own.check("p", ["a", "b", "c", "d"]) == dict.fromkeys("abcd", frozenset())
    end = time.monotonic() + MARGIN_S
    while held := sum(served.rows for served in own.served().values()):
        assert time.monotonic() < end, f"{held} rows are kept"
        time.sleep(0.1)
    own.put("p", rows("c", "d"))
    assert own.get("p", ["d", "c"], ["number"]) == [{"number": 1}, {"number": 0}]


def test_what_one_unit_refuses_is_said_and_the_other_one_gives_its_part_back(
    own: TransferQueuePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = own._client._units
    real = units.put
    refusing = [own._processes.addresses["unit-1"]["id"]]

    def put(unit: str, indexes: Any, columns: Any) -> Any:
        if unit in refusing:
            columns = {field: values[1:] for field, values in columns.items()}
        return real(unit, indexes, columns)

    monkeypatch.setattr(units, "put", put)
    with pytest.raises(UnavailableError, match="length mismatch") as refused:
        own.put("p", rows("c", "d"))
    assert refusing[0] in refused.value.found
    refusing.clear()
    own.put("p", rows("c"))  # the connections are as they were
    assert own.get("p", ["c"], ["number"]) == [{"number": 0}]
    end = time.monotonic() + MARGIN_S
    while (held := sum(served.rows for served in own.served().values())) != 3:
        assert time.monotonic() < end, f"{held} rows are kept"
        time.sleep(0.1)
    assert own.check("p", ["d"]) == {"d": frozenset()}


@pytest.mark.parametrize("again", ["same", "other", "cleared", "refused"])
def test_a_put_whose_last_step_was_late_may_be_made_again(
    own: TransferQueuePlane, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    ledger = own.pids()["ledger"]
    client = own._client
    real, free = client.write, client.free
    freed: list[int] = []

    def write(partition: str, indexes: Any, batches: Any) -> Any:
        written = real(partition, indexes, batches)
        assert written.wait(MARGIN_S)
        if again == "refused":
            # Another one comes first, before the ledger is late.
            other = connect(own.handle())
            other.put("p", {"d": {"number": 5}})
            other.close()
        stop(ledger)
        return written

    async def count(partition: str, indexes: Any) -> None:
        freed.extend(indexes)
        await free(partition, indexes)

    monkeypatch.setattr(client, "write", write)
    monkeypatch.setattr(client, "free", count)
    try:
        late = within(own, lambda: own.put("p", rows("c", "d")))
    finally:
        os.kill(ledger, signal.SIGCONT)
        monkeypatch.setattr(client, "write", real)
    assert isinstance(late, PlaneTimeoutError)
    if again == "same":
        own.put("p", rows("c", "d"))
        assert freed == []
    if again in {"same", "other"}:
        with pytest.raises(DuplicateKeyError):
            own.put("p", rows("c", "d", length=11))
        # What was refused is given back, and nothing else.
        assert len(freed) == 2
        assert own.get("p", ["d", "c"], ["number"]) == [{"number": 1}, {"number": 0}]
    if again == "cleared":
        own.clear("p", ["c"])
        with pytest.raises(EvictedError):
            own.put("p", rows("c", "d"))
    if again == "refused":
        own.check("p", [])
        own.put("p", rows("c"))
        # What the late one had written is given back.
        assert len(freed) == 2
        assert sum(served.rows for served in own.served().values()) == 4


def test_a_killed_unit_is_named_soon_and_takes_its_rows_and_no_half_put_with_it(
    own: TransferQueuePlane,
) -> None:
    def write(writer: int) -> list[str]:
        done: list[str] = []
        with contextlib.suppress(UnavailableError):
            for number in range(10_000):
                keys = [f"{writer}-{number}-{each}" for each in range(4)]
                own.put("p", rows(*keys))
                done += keys
        return done

    joined = connect(own.handle())
    places = own._ledger("test", "locate", "p", ["a", "b"], []).places
    kept = "ab"[[place.slot % 2 for place in places].index(0)]
    with ThreadPoolExecutor(3) as pool:
        writing = [pool.submit(write, writer) for writer in range(3)]
        time.sleep(1)
        os.kill(own.pids()["unit-1"], signal.SIGKILL)
        done = [key for each in writing for key in each.result(60)]
    assert done
    # What was put is known and nothing else is; what the unit held cannot be read.
    assert sorted(own.claim("p", "trainer", 100_000, FIELDS)) == sorted(["a", "b", *done])
    # So many that some are the dead unit's: places that the living one gave back come first.
    many = [f"c{number}" for number in range(100)]
    for plane in (own, joined):
        calls: list[Callable[[], object]] = [
            partial(plane.get, "p", ["a", "b"], ["number"]),
            partial(plane.put, "p", rows(*many)),
            plane.served,
        ]
        for call in calls:
            dead = within(plane, call)
            assert isinstance(dead, DeadUnitError), dead
            assert dead.found.startswith("unit-1 of plane-")
        assert plane.check("p", many) == dict.fromkeys(many, frozenset())
        assert len(plane.get("p", [kept], ["number"])) == 1
    dead = within(own, lambda: own.clear("p"))
    assert isinstance(dead, DeadUnitError)
    joined.close()


def zmq_threads() -> int:
    names = [task / "comm" for task in Path("/proc/self/task").iterdir()]
    return sum(name.read_text(encoding="utf-8").startswith("ZMQbg") for name in names)


def test_a_silent_controller_is_not_joined_and_leaves_no_sockets(own: TransferQueuePlane) -> None:
    handle, before = own.handle(), zmq_threads()
    with stopped(own.pids()["controller"]):
        late = within(own, lambda: connect(handle))
    assert isinstance(late, PlaneTimeoutError)
    assert "controller of plane-" in late.found
    assert zmq_threads() == before
    connect(handle).close()
    assert zmq_threads() == before


def test_a_killed_controller_or_ledger_is_named_soon(own: TransferQueuePlane) -> None:
    handle, pids = own.handle(), own.pids()
    # Rows can be put and read without the controller, but not cleared.
    calls: dict[str, Callable[[], object]] = {
        "controller": lambda: own.clear("p", ["a"]),
        "ledger": lambda: own.put("p", rows("c")),
    }
    for process, call in calls.items():
        os.kill(pids[process], signal.SIGKILL)
        dead = within(own, call)
        assert isinstance(dead, DeadControllerError), dead
        assert dead.found.startswith(f"{process} of plane-")
        refused = within(own, lambda: connect(handle))
        assert isinstance(refused, DeadControllerError | HandleError), refused


def test_a_plane_that_is_closed_ends_its_calls_its_processes_and_its_joiners(
    own: TransferQueuePlane,
) -> None:
    joined = connect(own.handle())
    handle = own.handle()
    pids = own.pids()
    joined.put("p", rows("c"))
    joined.close()
    with pytest.raises(ClosedPlaneError):
        joined.get("p", ["c"], [])
    assert own.get("p", ["c"], ["number"]) == [{"number": 0}]
    with stopped(pids["unit-0"]), stopped(pids["unit-1"]), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(own.get, "p", ["c"], ["number"])
        time.sleep(1)
        own.close()
        own.close()
        with pytest.raises(ClosedPlaneError):
            waiting.result(30)
    calls: list[Callable[[], object]] = [
        lambda: own.register("p", ["x"]),
        lambda: own.put("p", {}),
        lambda: own.get("p", [], []),
        lambda: own.claim("p", "trainer", 1, []),
        lambda: own.check("p", []),
        lambda: own.clear("p"),
        own.served,
        own.pids,
        own.handle,
    ]
    for call in calls:
        with pytest.raises(ClosedPlaneError):
            call()
    with pytest.raises(HandleError, match="does not have it"):
        connect(handle)
    end = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") for pid in pids.values()):  # noqa: PTH110
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize("arguments", [{"units": 1}, {"deadline_s": 1.0}, {"deadline_s": 300.0}])
def test_a_plane_that_could_not_keep_its_bounds_is_not_started(
    cluster: str,  # noqa: ARG001 - it must run
    arguments: dict[str, Any],
) -> None:
    with pytest.raises(HandleError, match="give 2 units or more and 3 to 120 s"):
        TransferQueuePlane.start(**arguments)
