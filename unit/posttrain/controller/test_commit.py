"""Commits: whole groups, guarded before and during the write, and visible at once."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.controller.commit import Committer
from posttrain.controller.failures import BudgetError, Budgets, CommitError, GroupDataError
from posttrain.controller.ledger import Ledger, Limits, Phase
from posttrain.controller.rollout import RolloutPump
from posttrain.controller.rows import FIELDS, PARTITION, decode, stamped
from posttrain.controller.shared import Arrived, Over, Shared
from posttrain.controller.watchdog import Pulse
from posttrain.controller.words import Finished, Prompt
from posttrain.data import Row
from posttrain.dataplane import EvictedError, MemoryPlane, PlaneTimeoutError
from posttrain.sample import assemble
from unit.posttrain.controller.peers import Fate, Source, Weights, sample_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posttrain.controller.words import Reservation
    from posttrain.dataplane import Row as Stored
    from unit.posttrain.controller.conftest import Run

LIMITS = Limits(per_prompt=2, per_step=1, rollouts=2, groups=None, staleness=0, steps=3)


class Plane(MemoryPlane):
    """A plane in memory to which something happens in the midst of a put, or after it."""

    def __init__(self) -> None:
        super().__init__()
        self.during: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None
        self.register(PARTITION, FIELDS)

    def put(self, partition: str, rows: Mapping[str, Stored]) -> None:
        self.during()
        super().put(partition, rows)
        self.after()


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(LIMITS)


@pytest.fixture
def group(ledger: Ledger) -> Reservation:
    return ledger.reserve(Prompt(0, Row(3, {}), "seed"))


def rollouts(group: Reservation) -> list[Finished]:
    made = [Finished(rollout, sample_of(group, rollout, 0)) for rollout in (1, 0)]
    return [stamped(finished, group.version, 0) for finished in made]


def commit(plane: Plane, ledger: Ledger, group: Reservation, *more: Any) -> bool:
    finished = rollouts(group) if not more else more[0]
    return asyncio.run(Committer(plane, ledger).commit(group, finished))


def there(plane: Plane, group: Reservation) -> list[str]:
    return [row for row, fields in plane.check(PARTITION, group.ids).items() if fields]


def test_a_committed_group_is_whole_in_the_order_of_its_rollouts(
    plane: Plane, ledger: Ledger, group: Reservation
) -> None:
    assert commit(plane, ledger, group)
    assert ledger.phase(group) is Phase.COMMITTED
    assert plane.claim(PARTITION, "onlooker", 9, FIELDS) == [*group.ids]
    rows = [decode(row) for row in plane.get(PARTITION, group.ids, FIELDS)]
    assert [row.rollout for row in rows] == [0, 1]
    for row in rows:
        sample = sample_of(group, row.rollout, 0)
        assert row.sample is not None
        assert row.line() == {**vars(sample), "weight_version": 0}


@pytest.mark.parametrize("numbers", [(0,), (0, 0), (0, 1, 2), (1, 2), ()])
def test_anything_but_the_groups_rollouts_is_refused_before_the_write(
    plane: Plane, ledger: Ledger, group: Reservation, numbers: tuple[int, ...]
) -> None:
    made = [stamped(Finished(it, sample_of(group, 0, 0)), 0, 0) for it in numbers]
    with pytest.raises(GroupDataError, match="each of the rollouts 0 to 1 once"):
        commit(plane, ledger, group, made)
    assert there(plane, group) == []
    assert ledger.phase(group) is Phase.RUNNING


def test_a_group_that_is_not_wanted_any_more_is_not_written(
    plane: Plane, ledger: Ledger, group: Reservation
) -> None:
    ledger.dropped(group, stale=True)
    plane.during = pytest.fail
    assert not commit(plane, ledger, group)


def test_a_group_that_grew_too_old_is_not_written(
    plane: Plane, ledger: Ledger, group: Reservation
) -> None:
    assert ledger.advance(1) == [group]
    plane.during = pytest.fail
    assert not commit(plane, ledger, group)


@pytest.mark.parametrize("moment", ["during", "after"])
def test_a_group_that_is_dropped_during_the_write_leaves_no_row(
    plane: Plane, ledger: Ledger, group: Reservation, moment: str
) -> None:
    setattr(plane, moment, lambda: ledger.dropped(group, stale=True))
    assert not commit(plane, ledger, group)
    assert there(plane, group) == []
    assert ledger.phase(group) is None


def test_rows_that_are_evicted_during_the_write_fail_the_group(
    plane: Plane, ledger: Ledger, group: Reservation
) -> None:
    plane.after = lambda: plane.clear(PARTITION, [group.ids[1]])
    with pytest.raises(CommitError, match=f"{group.ids[1]} evicted while they were committed"):
        commit(plane, ledger, group)
    # The other one is not left alone.
    assert there(plane, group) == []


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("moment", ["during", "after"])
def test_a_commit_that_is_cancelled_leaves_no_row(
    plane: Plane, ledger: Ledger, group: Reservation, moment: str, times: int
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert go_on.wait(10)

    setattr(plane, moment, hold)

    async def cancelled() -> None:
        task = asyncio.create_task(Committer(plane, ledger).commit(group, rollouts(group)))
        assert await asyncio.to_thread(begun.wait, 10)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0.01)
            # It waits for the write that it has begun.
            assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert there(plane, group) == []


def test_a_log_probability_that_no_float32_is_fails_its_group(
    plane: Plane, ledger: Ledger, group: Reservation
) -> None:
    sample = assemble((1, 2, 3), [(1, 3)], (-0.5, -0.1), row=3, reward=1.0, truncated=False)
    made = [stamped(Finished(rollout, sample), 0, 0) for rollout in (0, 1)]
    with pytest.raises(GroupDataError, match=r"-0\.1 at completion token 1"):
        commit(plane, ledger, group, made)
    assert there(plane, group) == []


def test_a_conversation_comes_back_turn_by_turn(
    plane: Plane, ledger: Ledger, group: Reservation
) -> None:
    sample = assemble(
        (5, 6, 7, 8, 9, 1, 2, 3),
        [(2, 4), (6, 8)],
        (-0.5, -0.25, -1.5, 0.0),
        row=3,
        reward=0.5,
        truncated=True,
        text="two turns",
        weight_version=0,
    )
    assert sample.spans == ((2, 4), (6, 8))
    assert commit(plane, ledger, group, [Finished(0, sample, "", 2), Finished(1, sample, "", 2)])
    row = decode(plane.get(PARTITION, group.ids, FIELDS)[1])
    assert row.sample == sample
    assert row.last_weight_version == 2
    assert row.line()["last_weight_version"] == 2


def test_a_finished_group_is_visible_before_its_batch_is(make_run: Callable[..., Run]) -> None:
    seen: list[str] = []

    async def look() -> None:
        running = asyncio.create_task(run.take_steps())
        while len(seen) < 4:
            await asyncio.sleep(0.001)
            if run.source.commits:
                seen.extend(run.plane.claim(PARTITION, "onlooker", 4, FIELDS))
        # Neither is the batch finished, nor has a step begun.
        assert run.source.running == {"p000002-0"}
        assert run.policy.steps == []
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run = make_run(
        "data.prompts_per_step=3",
        "rollouts.per_prompt=2",
        rows=3,
        fate=lambda group, _rollout: Fate(ends="hang" if group.prompt.number == 2 else "ok"),
    )
    asyncio.run(look())
    assert seen == [f"p00000{prompt}-0-{rollout}" for prompt in (0, 1) for rollout in (0, 1)]


class Failing(Plane):
    """A plane whose puts fail at first."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def put(self, partition: str, rows: Mapping[str, Stored]) -> None:
        if self.failures:
            self.failures -= 1
            raise PlaneTimeoutError(f"put {len(rows)} rows", "unit-1 does not answer", "wait")
        super().put(partition, rows)


def test_a_put_that_takes_place_after_it_has_failed_leaves_no_row(
    ledger: Ledger, group: Reservation
) -> None:
    class Late(Plane):
        """A plane whose puts take place when their callers were told that they did not."""

        def put(self, partition: str, rows: Mapping[str, Stored]) -> None:
            self.put_late = partial(super().put, partition, rows)
            raise PlaneTimeoutError(f"put {len(rows)} rows", "the ledger does not answer", "wait")

    plane = Late()
    with pytest.raises(PlaneTimeoutError):
        commit(plane, ledger, group)
    with pytest.raises(EvictedError):
        plane.put_late()
    assert there(plane, group) == []


def test_a_plane_that_is_unavailable_costs_the_infrastructures_budget(
    make_run: Callable[..., Run],
) -> None:
    plane = Failing(2)
    run = make_run("controller.budgets.infrastructure=2", plane=plane)
    asyncio.run(run.take_steps())
    assert run.record.total("retries_infrastructure") == 2
    assert len(run.record.metrics) == 1

    run = make_run("controller.budgets.infrastructure=1", plane=Failing(2))
    with pytest.raises(BudgetError, match="unit-1 does not answer"):
        asyncio.run(run.take_steps())


def test_what_arrived_of_a_dropped_group_is_not_kept(plane: Plane) -> None:
    ledger = Ledger(replace(LIMITS, per_step=2, rollouts=4))
    dropped, kept = (ledger.reserve(Prompt(number, Row(3, {}), "seed")) for number in range(2))
    source: Any = Source(Weights())
    shared = Shared(ledger, source, plane, Committer(plane, ledger), Budgets({}))
    pump = RolloutPump(shared, Pulse("rollout"))

    async def committed() -> None:
        running = asyncio.create_task(pump.run())
        for group in (dropped, kept):
            for finished in rollouts(group):
                shared.events.put_nowait(Arrived(group, finished))
        # Its task is cancelled, and tells of no end.
        ledger.dropped(dropped, stale=True)
        shared.events.put_nowait(Over(kept))
        await shared.bell.until(lambda: ledger.phase(kept) is Phase.COMMITTED)
        running.cancel()

    asyncio.run(committed())
    assert there(plane, kept) == [*kept.ids]
    assert pump._arrived == {}


def test_rows_that_vanish_after_their_commit_end_the_run(make_run: Callable[..., Run]) -> None:
    class Forgetful(MemoryPlane):
        def claim(self, partition: str, _consumer: str, _n: int, _f: Sequence[str]) -> list[str]:
            self.clear(partition)
            return []

    with pytest.raises(CommitError, match="none to claim"):
        asyncio.run(make_run(plane=Forgetful()).take_steps())
