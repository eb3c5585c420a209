"""How a run ends that cannot go on: hangs, deaths, errors; and that each end says why."""

from __future__ import annotations

import asyncio
import pickle
import time
from typing import TYPE_CHECKING

import pytest

from posttrain.controller import failures
from posttrain.controller.failures import (
    BudgetError,
    Budgets,
    CommitError,
    GroupDataError,
    GroupError,
    GroupInfrastructureError,
    StallError,
    commit_failure,
)
from posttrain.controller.ledger import Ledger, Limits
from posttrain.controller.words import Prompt
from posttrain.data import Row
from posttrain.dataplane import (
    DeadUnitError,
    MemoryPlane,
    PlaneTimeoutError,
    ValueTypeError,
)
from posttrain.errors import StackError, WorkerError
from unit.posttrain.controller.peers import Fate, hang_in_a_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from posttrain.controller.words import Reservation
    from posttrain.dataplane import Served
    from unit.posttrain.controller.conftest import Run

STALL_S = 0.6
# Far beyond the watchdog's own time, far below the stages' deadlines.
ENDS_S = 15.0


def text_of(log: TextIO) -> str:
    log.flush()
    log.seek(0)
    return log.read()


def ends(run: Run) -> StackError:
    begun = time.monotonic()
    with pytest.raises(StackError) as caught:
        asyncio.run(run.take_steps())
    assert time.monotonic() - begun < ENDS_S
    return caught.value


def test_a_hanging_rollout_ends_the_run_with_what_each_pump_waits_for(
    make_run: Callable[..., Run], log: TextIO
) -> None:
    run = make_run(
        "data.prompts_per_step=2",
        "rollouts.concurrency=2",
        stall_s=STALL_S,
        fate=lambda group, _rollout: Fate(ends="hang" if group.prompt.number else "ok"),
    )
    error = ends(run)
    assert isinstance(error, StallError)
    assert "controller.stall_s" in error.asked
    assert "generation: waits for room for another group under the limits" in error.found
    assert "rollout: waits for a rollout to arrive" in error.found
    assert "training: waits for 1 of 2 groups of step 1" in error.found
    said = text_of(log)
    assert "stall: stacks of all tasks and threads:" in said
    assert "_roll_out" in said
    assert "p000001-0" in run.source.abandons
    # The group that was committed is whole; of the hanging one there is nothing.
    assert run.left() == {"p000000-0-0"}


def test_a_hanging_optimizer_step_ends_the_run_though_its_thread_stays(
    make_run: Callable[..., Run], log: TextIO
) -> None:
    run = make_run(stall_s=STALL_S)
    run.policy.before_step = hang_in_a_thread
    error = ends(run)
    assert "training: waits for the optimizer step 1" in error.found
    assert "hang_in_a_thread" in text_of(log)
    assert run.record.metrics == []


def test_a_blocked_event_loop_is_interrupted(make_run: Callable[..., Run], log: TextIO) -> None:
    def block(_group: Reservation, _rollout: int) -> Fate:
        time.sleep(600)
        return Fate()

    error = ends(make_run(stall_s=STALL_S, fate=block))
    assert isinstance(error, StallError)
    assert error.found.startswith("the event loop is blocked")
    assert "in block" in text_of(log)


def test_work_that_goes_on_is_no_stall(make_run: Callable[..., Run]) -> None:
    run = make_run("run.steps=6", stall_s=STALL_S)
    run.policy.before_step = lambda: time.sleep(STALL_S / 4)
    asyncio.run(run.take_steps())
    assert len(run.record.metrics) == 6


def test_a_process_that_died_explains_what_broke_with_it(make_run: Callable[..., Run]) -> None:
    dead = WorkerError("a live process", "generation-1 died", "start it again")

    def fate(_group: Reservation, _rollout: int) -> Fate:
        run.source.dead = dead
        return Fate(ends="infrastructure")

    run = make_run("controller.budgets.infrastructure=0", fate=fate)
    assert ends(run) is dead


class DyingPlane(MemoryPlane):
    """A plane that says of its processes what the test wants."""

    def __init__(self, says: Exception) -> None:
        super().__init__()
        self.says = says

    def served(self) -> dict[str, Served]:
        raise self.says


def test_a_storage_unit_that_died_explains_what_broke_with_it(make_run: Callable[..., Run]) -> None:
    dead = DeadUnitError("counts", "unit-1 is dead", "start it again")
    run = make_run(
        "controller.budgets.data=0",
        plane=DyingPlane(dead),
        fate=lambda _group, _rollout: Fate(ends="data"),
    )
    assert ends(run) is dead


def test_a_data_plane_that_is_late_explains_nothing(make_run: Callable[..., Run]) -> None:
    run = make_run(
        "controller.budgets.data=0",
        plane=DyingPlane(PlaneTimeoutError("counts", "unit-1 is late", "wait")),
        fate=lambda _group, _rollout: Fate(ends="data"),
    )
    assert isinstance(ends(run), BudgetError)


def test_an_idle_death_ends_the_run_too(make_run: Callable[..., Run]) -> None:
    run = make_run(fate=lambda _group, _rollout: Fate(ends="hang"))
    run.source.dead = WorkerError("a live process", "generation-0 died", "start it again")
    assert ends(run) is run.source.dead


def test_the_first_causes_are_named_when_a_budget_is_spent(make_run: Callable[..., Run]) -> None:
    run = make_run(
        "controller.budgets.infrastructure=2",
        fate=lambda _group, _rollout: Fate(ends="infrastructure"),
    )
    error = ends(run)
    assert isinstance(error, BudgetError)
    assert "(controller.budgets.infrastructure)" in error.asked
    assert error.found.startswith("3 of them; the first:")
    # Fresh ids for each attempt, the same prompt and seed.
    first = [group for group in run.source.reserved if group.prompt.number == 0]
    assert [group.attempt for group in first] == [*range(len(first))]
    assert all(group.prompt == first[0].prompt for group in first)
    assert len({group.ids for group in first}) == len(first)
    assert "group p000000-0 (row 0, attempt 1)" in error.found
    assert run.policy.steps == []


def clinging(group: Reservation) -> None:
    raise PlaneTimeoutError(f"staged calls of {group.group} retired", "no answer", "again")


def test_what_a_source_cannot_let_go_of_hides_no_error_of_the_group(
    make_run: Callable[..., Run],
) -> None:
    run = make_run(
        "controller.budgets.data=0",
        fate=lambda _group, _rollout: Fate(ends="data"),
        let_go=clinging,
    )
    error = ends(run)
    assert isinstance(error, BudgetError)
    assert "(controller.budgets.data)" in error.asked
    assert error.found.endswith("rollout 0: data")
    assert run.source.abandons == ["p000000-0"]


def test_what_a_source_cannot_let_go_of_costs_the_infrastructures_budget(
    make_run: Callable[..., Run],
) -> None:
    one = "data.prompts_per_step=1"
    run = make_run("controller.budgets.infrastructure=3", "run.steps=3", one, let_go=clinging)
    asyncio.run(run.take_steps())
    assert run.source.commits == ["p000000-0", "p000001-0", "p000002-0"]
    assert run.record.total("retries_infrastructure") == 0
    run = make_run("controller.budgets.infrastructure=2", "run.steps=3", one, let_go=clinging)
    error = ends(run)
    assert isinstance(error, BudgetError)
    assert "3 of them; the first:" in error.found
    assert "staged calls of p000000-0 retired" in error.found


def test_a_dropped_group_of_which_something_is_kept_ends_no_run(
    make_run: Callable[..., Run],
) -> None:
    def late(group: Reservation) -> None:
        if group.prompt.number == 0:
            clinging(group)

    run = make_run(
        "controller.budgets.infrastructure=1",
        "controller.staleness=1",
        "run.steps=4",
        fate=lambda group, _rollout: Fate(ends="ok" if group.prompt.number else "hang"),
        let_go=late,
    )
    asyncio.run(run.take_steps())
    assert run.record.total("dropped_stale") == 1
    assert run.source.abandons.count("p000000-0") == 1


def test_a_bug_in_a_source_is_no_failure_of_a_group(make_run: Callable[..., Run]) -> None:
    def broken(_group: Reservation, _rollout: int) -> Fate:
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        asyncio.run(make_run(fate=broken).take_steps())


def group() -> Reservation:
    ledger = Ledger(Limits(1, 1, 1, None, 0, 1))
    return ledger.reserve(Prompt(0, Row(7, {}), "seed"))


CAUSE = PlaneTimeoutError("put rows", "no answer", "wait longer")


@pytest.mark.parametrize(
    "error",
    [
        GroupInfrastructureError.of(group(), CAUSE),
        GroupDataError.of(group(), CAUSE),
        BudgetError("a", "b", "c"),
        StallError("a", "b", "c"),
        CommitError("a", "b", "c"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_failure_survives_pickling(error: StackError) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301
        assert type(again) is type(error)
        assert (again.asked, again.found, again.todo) == (error.asked, error.found, error.todo)
        assert str(again) == str(error)
        if isinstance(error, GroupError):
            assert again.kind == error.kind
    kinds = [it for it in vars(failures).values() if isinstance(it, type)]
    errors = {it for it in kinds if issubclass(it, StackError) and "controller" in it.__module__}
    tried = {GroupError, GroupInfrastructureError, GroupDataError}
    assert errors == tried | {BudgetError, StallError, CommitError}


def test_a_group_failure_names_group_row_attempt_and_cause() -> None:
    error = GroupInfrastructureError.of(group(), CAUSE)
    assert error.asked == "group p000000-0 (row 7, attempt 1): put rows"
    assert (error.found, error.todo) == ("no answer", "wait longer")


def test_only_a_plane_that_is_unavailable_is_infrastructure() -> None:
    dead = DeadUnitError("put rows", "unit-1 died", "start again")
    for error in (CAUSE, dead, CommitError("a", "b", "c")):
        assert isinstance(commit_failure(group(), error), GroupInfrastructureError)
    assert commit_failure(group(), ValueTypeError("put a value", "a list", "an array")) is None


def test_a_budget_of_one_kind_is_not_spent_by_the_other() -> None:
    budgets = Budgets({"infrastructure": 1, "data": 0})
    budgets.spend(GroupInfrastructureError.of(group(), CAUSE))
    with pytest.raises(BudgetError, match="at most 0 groups that fail for reasons of data"):
        budgets.spend(GroupDataError.of(group(), CAUSE))
    with pytest.raises(BudgetError, match="2 of them; the first"):
        budgets.spend(GroupInfrastructureError.of(group(), CAUSE))
