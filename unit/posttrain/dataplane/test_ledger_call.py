"""The ledger's own socket: who is answered, and what becomes of calls that are late."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import zmq

from posttrain.dataplane.errors import PlaneError, UnknownPartitionError
from posttrain.dataplane.ledger import Ledger
from posttrain.dataplane.ledger_call import Caller, Door, open_door

if TYPE_CHECKING:
    from collections.abc import Iterator

SOON_S, NOT_S = 20.0, 0.3


class Held(Ledger):
    """A ledger that can be held up, and counts how many are in it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.free.set()
        self.inside = self.most = 0
        self.seen: list[Any] = []

    def note(self, value: Any) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        assert self.free.wait(SOON_S)
        self.seen.append(value)
        self.inside -= 1
        return value

    def unpicklable(self) -> Any:
        return lambda: None

    def fail(self) -> None:
        raise ValueError(lambda: None)


def load() -> None:
    raise ModuleNotFoundError("No module named 'of_the_caller'")


class OfTheCaller:
    """What only its caller can read."""

    def __reduce__(self) -> Any:
        return load, ()


@pytest.fixture
def ledger() -> Held:
    return Held()


@pytest.fixture
def door(ledger: Held) -> Door:
    return open_door(ledger, "127.0.0.1")


@pytest.fixture
def caller(door: Door) -> Iterator[Caller]:
    caller = Caller(door)
    yield caller
    caller.close()


def called(caller: Caller, method: str, *arguments: Any) -> Any:
    call = caller.ask(method, *arguments)
    assert call.wait(SOON_S)
    return call.result()


def test_calls_of_many_threads_come_one_at_a_time_and_each_gets_its_own_answer(
    ledger: Held, caller: Caller
) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda number: called(caller, "note", number), range(400)))
    assert answers == list(range(400))
    assert sorted(ledger.seen) == answers
    assert ledger.most == 1


def test_what_the_ledger_refuses_is_raised_as_it_is(caller: Caller) -> None:
    with pytest.raises(UnknownPartitionError) as refused:
        called(caller, "fields", "nobody's")
    assert isinstance(refused.value, PlaneError)
    assert "nobody's" in refused.value.asked


def test_an_answer_that_cannot_be_sent_is_an_error_and_the_ledger_goes_on(caller: Caller) -> None:
    with pytest.raises(Exception, match="unpicklable"):
        called(caller, "unpicklable")
    assert called(caller, "note", 1) == 1


def test_a_late_answer_is_that_calls_own_and_holds_up_no_other(
    ledger: Held, caller: Caller
) -> None:
    ledger.free.clear()
    late = caller.ask("note", "late")
    assert not late.wait(NOT_S)
    ledger.free.set()
    assert called(caller, "note", "next") == "next"
    assert late.wait(SOON_S)
    assert late.result() == "late"
    assert called(caller, "note", "again") == "again"


def test_nobody_without_the_secret_is_heard_or_believed(
    ledger: Held, door: Door, caller: Caller
) -> None:
    stranger = Caller(door._replace(secret=b"another"))
    forged = stranger.ask("note", "forged")
    assert not forged.wait(NOT_S)
    forged.drop()
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(door.address)
        for parts in ([], [b""], [b"", b"", b""], [b"x" * 32, pickle.dumps(("note", ("raw",)))]):
            socket.send_multipart(parts or [b""])
        assert not socket.poll(1000 * NOT_S)
    assert called(caller, "note", "ours") == "ours"
    assert ledger.seen == ["ours"]
    stranger.close()


def test_a_connection_is_used_again_and_a_closed_caller_keeps_none(caller: Caller) -> None:
    for number in range(3):
        called(caller, "note", number)
    assert len(caller._connections._idle) == 1
    under_way = caller.ask("note", "last")
    caller.close()
    assert under_way.wait(SOON_S)
    assert under_way.result() == "last"
    assert caller._connections._idle == []
    caller.close()


def test_a_closed_caller_asks_nothing_and_waits_for_nothing(ledger: Held, caller: Caller) -> None:
    ledger.free.clear()
    late = caller.ask("note", "late")
    assert not late.wait(NOT_S)
    caller.close()
    with pytest.raises(CancelledError):
        late.wait(NOT_S)
    with pytest.raises(CancelledError):
        caller.ask("note", "next")
    ledger.free.set()


def test_what_cannot_be_read_or_told_is_its_callers_error_and_nobody_elses(caller: Caller) -> None:
    for method, arguments, kind, words in (
        ("note", (OfTheCaller(),), ModuleNotFoundError, "of_the_caller"),
        ("fail", (), RuntimeError, "ValueError: <function"),
    ):
        call = caller.ask(method, *arguments)
        assert call.wait(SOON_S)
        with pytest.raises(kind, match=words):
            call.result()
    call = caller.ask("note", 1)
    assert call.wait(SOON_S)
    assert call.result() == 1
