"""Calls that the ledger was late with and made all the same: nothing is lost and nothing leaks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from posttrain.dataplane import PlaneTimeoutError, UnavailableError
from posttrain.dataplane.ledger_call import Caller
from unit.posttrain.dataplane.broken import FIELDS, MARGIN_S, rows, stopped, within

if TYPE_CHECKING:
    from typing import Any

    from posttrain.dataplane.transfer_queue import TransferQueuePlane


def held(plane: TransferQueuePlane) -> int:
    return sum(served.rows for served in plane.served().values())


def test_what_a_late_clear_evicted_is_freed_and_late_claims_are_the_same_ones_again(
    own: TransferQueuePlane,
) -> None:
    with stopped(own.pids()["ledger"]):
        late = within(own, lambda: own.claim("p", "trainer", 1, FIELDS))
        assert isinstance(late, PlaneTimeoutError)
    # Another claim is none of it.
    other = own.claim("p", "trainer", 1, FIELDS[:1])
    again = own.claim("p", "trainer", 1, FIELDS)
    assert sorted([*other, *again]) == ["a", "b"]
    assert own.claim("p", "trainer", 1, FIELDS) == []
    with stopped(own.pids()["ledger"]):
        late = within(own, lambda: own.clear("p", ["a", "b"]))
        assert isinstance(late, PlaneTimeoutError)
    end = time.monotonic() + MARGIN_S
    while held(own):
        assert time.monotonic() < end, "the units keep rows that nobody can clear"
        time.sleep(0.1)
    own.clear("p", ["a", "b"])
    assert own.check("p", ["a", "b"]) == {"a": frozenset(), "b": frozenset()}


def test_a_put_that_the_ledger_failed_at_is_no_other_puts_error(
    own: TransferQueuePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Caller.ask

    def failing(caller: Caller, method: str, *arguments: Any) -> Any:
        return real(caller, "nothing" if method == "publish" else method, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Caller, "ask", failing)
        with pytest.raises(UnavailableError, match="ledger failed"):
            own.put("p", rows("c"))
    own.put("p", rows("d"))
    assert own.get("p", ["d"], ["number"]) == [{"number": 0}]
