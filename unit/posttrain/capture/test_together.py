"""Threads that share a call of the plane: each has its own answer, whatever the others get."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.capture.conformance.records import record
from posttrain.capture.errors import EvictedRecordError, MissingRecordError
from posttrain.capture.staging.plane import PlaneStore
from posttrain.capture.staging.together import Together
from posttrain.dataplane import (
    DeadControllerError,
    DeadUnitError,
    LostRowError,
    MemoryPlane,
    PlaneError,
    PlaneTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from posttrain.dataplane import Row

WAIT_S = 60.0
OTHERS = [f"call-{number}" for number in range(6)]


class HeldPlane(MemoryPlane):
    """A plane that lets its first call through only when it is told to, and can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.puts: list[list[str]] = []
        self.gets: list[list[str]] = []
        self.fail: Callable[[Sequence[str]], None] = lambda _: None

    def put(self, partition: str, rows: Mapping[str, Row]) -> None:
        self.puts.append([*rows])
        self._hold()
        self.fail([*rows])
        super().put(partition, rows)

    def get(self, partition: str, ids: Sequence[str], fields: Sequence[str]) -> list[Any]:
        self.gets.append([*ids])
        self._hold()
        self.fail(ids)
        return super().get(partition, ids, fields)

    def _hold(self) -> None:
        if not self.begun.is_set():
            self.begun.set()
            assert self.go_on.wait(WAIT_S)


@pytest.fixture
def plane() -> HeldPlane:
    return HeldPlane()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(len(OTHERS) + 1) as pool:
        yield pool


def held(
    plane: HeldPlane, shared: Together[Any, Any], begin: Callable[[str], Future[Any]]
) -> list[Future[Any]]:
    """Begin one call, and the others while the plane holds it up."""
    begun = [begin("first")]
    assert plane.begun.wait(WAIT_S)
    begun += map(begin, OTHERS)
    waiting = threading.Event()
    while shared.waiting < len(OTHERS):
        waiting.wait(0.001)
    plane.go_on.set()
    return begun


def staged(
    plane: HeldPlane, store: PlaneStore, threads: ThreadPoolExecutor
) -> dict[str, tuple[bool, str]]:
    def begin(call: str) -> Future[Any]:
        return threads.submit(store.stage, record("rollout", call))

    results = [each.result(WAIT_S) for each in held(plane, store.puts, begin)]
    return {
        call: (result.ok, result.error or "")
        for call, result in zip(["first", *OTHERS], results, strict=True)
    }


def keys(*calls: str) -> list[str]:
    return [f"rollout/{call}" for call in calls]


def test_what_comes_during_a_put_is_put_together(
    plane: HeldPlane, threads: ThreadPoolExecutor
) -> None:
    store = PlaneStore(plane)
    assert set(staged(plane, store, threads).values()) == {(True, "")}
    assert [len(each) for each in plane.puts] == [1, len(OTHERS)]
    assert len(store.fetch(keys("first", *OTHERS))) == 1 + len(OTHERS)


def test_a_key_that_is_taken_by_another_record_fails_alone(
    plane: HeldPlane, threads: ThreadPoolExecutor
) -> None:
    store = PlaneStore(plane)
    plane.begun.set()
    store.stage(record("rollout", OTHERS[2], logprobs=[-9.0, -9.0, -9.0]))
    store.stage(record("rollout", OTHERS[3]))
    plane.begun.clear()
    found = staged(plane, store, threads)
    assert [call for call, (ok, _) in found.items() if not ok] == [OTHERS[2]]
    assert "and not again with" in found[OTHERS[2]][1]


def test_a_dead_unit_fails_every_call_of_the_put_and_no_other(
    plane: HeldPlane, threads: ThreadPoolExecutor
) -> None:
    def fail(rows: Sequence[str]) -> None:
        if len(rows) > 1:
            raise DeadUnitError("put", "unit-0 is dead", "start another plane")

    plane.fail = fail
    found = staged(plane, PlaneStore(plane), threads)
    assert [call for call, (ok, _) in found.items() if ok] == ["first"]
    assert all("DeadUnitError" in found[call][1] for call in OTHERS)
    assert plane.check("capture", keys(*OTHERS)) == dict.fromkeys(keys(*OTHERS), frozenset())


def test_readers_share_a_get_and_one_that_asks_for_nothing_there_fails_alone(
    plane: HeldPlane, threads: ThreadPoolExecutor
) -> None:
    store = PlaneStore(plane)
    plane.begun.set()
    for call in ("first", *OTHERS):
        assert store.stage(record("rollout", call)).ok
    store.retire(keys(OTHERS[4]))
    plane.begun.clear()

    def begin(call: str) -> Future[Any]:
        wanted = "unknown" if call == OTHERS[1] else call
        return threads.submit(store.fetch, keys(wanted))

    answers = dict(zip(["first", *OTHERS], held(plane, store.gets, begin), strict=True))
    with pytest.raises(MissingRecordError, match="rollout/unknown"):
        answers.pop(OTHERS[1]).result(WAIT_S)
    with pytest.raises(EvictedRecordError, match=f"rollout/{OTHERS[4]}"):
        answers.pop(OTHERS[4]).result(WAIT_S)
    for call, answer in answers.items():
        assert [each.model_call_id for each in answer.result(WAIT_S)] == [call]
    # Alone, together in vain, each alone.
    assert [len(each) for each in plane.gets] == [1, len(OTHERS), *[1] * len(OTHERS)]


def test_a_lost_row_is_only_its_readers(plane: HeldPlane, threads: ThreadPoolExecutor) -> None:
    store = PlaneStore(plane)
    plane.begun.set()
    for call in ("first", *OTHERS):
        assert store.stage(record("rollout", call)).ok
    plane.begun.clear()

    def fail(rows: Sequence[str]) -> None:
        if keys(OTHERS[0])[0] in rows:
            raise LostRowError("get", "another row in its place", "read the log")

    plane.fail = fail
    answers = held(plane, store.gets, lambda call: threads.submit(store.fetch, keys(call)))
    failed = [place for place, each in enumerate(answers) if each.exception(WAIT_S)]
    assert failed == [1]


def test_the_lead_goes_on_until_nobody_waits(threads: ThreadPoolExecutor) -> None:
    sizes: list[int] = []

    def call(items: Sequence[int]) -> list[int | Exception]:
        sizes.append(len(items))
        if 13 in items and len(items) == 1:
            raise RuntimeError("thirteen")
        return [KeyError(item) if item == 13 else item * item for item in items]

    shared = Together[int, int](call, 4)
    begun = [threads.submit(shared, number) for number in range(200)]
    for number, each in enumerate(begun):
        if number == 13:
            assert isinstance(each.exception(WAIT_S), KeyError | RuntimeError)
        else:
            assert each.result(WAIT_S) == number * number
    assert sum(sizes) == len(begun)
    assert max(sizes) <= 4
    assert shared(3) == 9


@pytest.mark.parametrize("kind", [PlaneTimeoutError, DeadControllerError])
def test_whoever_asks_a_silent_plane_together_waits_for_one_call_and_no_more(
    plane: HeldPlane, threads: ThreadPoolExecutor, kind: type[PlaneError]
) -> None:
    store = PlaneStore(plane)
    silent = kind("read", "no answer", "wait")

    def fail(_: Sequence[str]) -> None:
        raise silent

    def begin(call: str) -> Future[Any]:
        # Of two kinds, so that they cannot be one call of the plane's.
        ask = store.sizes if call in OTHERS[::2] else store.fetch
        return threads.submit(ask, keys(call))

    plane.fail = fail
    answers = held(plane, store.gets, begin)
    assert [each.exception(WAIT_S) for each in answers] == [silent] * len(answers)
    assert len(plane.gets) == 2


def test_whoever_puts_into_a_silent_plane_together_waits_for_one_call_and_no_more(
    plane: HeldPlane, threads: ThreadPoolExecutor
) -> None:
    def fail(_: Sequence[str]) -> None:
        raise PlaneTimeoutError("put", "no answer", "wait")

    plane.fail = fail
    store = PlaneStore(plane)

    def begin(call: str) -> Future[Any]:
        # One key twice, so that they cannot be one call of the plane's.
        return threads.submit(store.stage, record("rollout", OTHERS[0] if call in OTHERS else call))

    results = [each.result(WAIT_S) for each in held(plane, store.puts, begin)]
    assert ["PlaneTimeoutError" in (each.error or "") for each in results] == [True] * len(results)
    assert len(plane.puts) == 2
