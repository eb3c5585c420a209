"""Laws of the single controller over any schedule: who finishes when, who fails, who is cancelled.

No row is lost, none is trained twice, no group in part; nothing too old is trained; failures are
counted to the last one; what failed or was cancelled leaves nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.controller.failures import BudgetError
from unit.posttrain.controller.peers import LATENESS, Fate, MomentousPlane, Moments

if TYPE_CHECKING:
    from collections.abc import Callable

    from posttrain.controller.words import Reservation
    from unit.posttrain.controller.conftest import Run

ENDS = ("ok", "ok", "ok", "ok", "ok", "ok", "infrastructure", "data", "placeholder")
BUDGET = 1000


@dataclass(frozen=True)
class Schedule:
    """One run to try."""

    per_prompt: int
    rows: int
    per_step: int
    steps: int
    staleness: int
    groups: int | None
    spare: int
    fates: tuple[Fate, ...]

    @property
    def overrides(self) -> list[str]:
        groups = "null" if self.groups is None else self.groups
        return [
            f"run.steps={self.steps}",
            f"rollouts.per_prompt={self.per_prompt}",
            f"rollouts.concurrency={self.per_prompt + self.spare}",
            f"data.prompts_per_step={self.per_step}",
            f"controller.staleness={self.staleness}",
            f"controller.groups_in_flight={groups}",
        ]

    def fate(self, group: Reservation, rollout: int) -> Fate:
        place = group.prompt.number * 31 + group.attempt * 7 + rollout
        fate = self.fates[place % len(self.fates)]
        # Every third prompt is good, and so is every fourth attempt: each run can end.
        good = group.prompt.number % 3 == 2 or group.attempt == 3
        return Fate(fate.late) if good else fate


@st.composite
def schedules(draw: st.DrawFn, ends: tuple[str, ...] = ENDS) -> Schedule:
    rows = draw(st.integers(1, 5))
    fates = st.builds(Fate, late=st.integers(0, LATENESS), ends=st.sampled_from(ends))
    return Schedule(
        per_prompt=draw(st.integers(1, 3)),
        rows=rows,
        per_step=draw(st.integers(1, rows)),
        steps=draw(st.integers(1, 4)),
        staleness=draw(st.integers(0, 2)),
        groups=draw(st.none() | st.integers(1, 3)),
        spare=draw(st.integers(0, 8)),
        # A prime number, so that attempts and prompts meet all of them.
        fates=tuple(draw(st.lists(fates, min_size=13, max_size=13))),
    )


def started(make_run: Callable[..., Run], schedule: Schedule, *more: str, **parts: Any) -> Run:
    return make_run(*schedule.overrides, *more, rows=schedule.rows, fate=schedule.fate, **parts)


def budgets(infrastructure: int, data: int) -> tuple[str, str]:
    return (
        f"controller.budgets.infrastructure={infrastructure}",
        f"controller.budgets.data={data}",
    )


def check_steps(run: Run, schedule: Schedule) -> None:
    """What holds of every step that was taken, however the run ended."""
    groups = {group.group: group for group in run.source.reserved}
    seen: Counter[str] = Counter()
    for step, samples in enumerate(run.record.samples, start=1):
        rows: dict[str, list[Any]] = {}
        for sample in samples:
            seen[sample["text"]] += 1
            rows.setdefault(sample["text"].rpartition("-")[0], []).append(sample)
        assert len(rows) == schedule.per_step
        for name, found in rows.items():
            group = groups[name]
            # Whole: all of its rollouts that are no placeholders, and at least one.
            ends = [schedule.fate(group, rollout).ends for rollout in range(len(group.ids))]
            kept = [row for row, end in zip(group.ids, ends, strict=True) if end == "ok"]
            assert [sample["text"] for sample in found] == kept
            for sample in found:
                assert 0 <= step - 1 - sample["weight_version"] <= schedule.staleness
                last = sample.get("last_weight_version", sample["weight_version"])
                assert sample["weight_version"] <= last <= step
    assert set(seen.values()) <= {1}
    # What the policy was given is what was recorded.
    given_rows = [[sample.text for sample in step] for step in run.policy.steps]
    recorded = [[sample["text"] for sample in step] for step in run.record.samples]
    assert given_rows[: len(recorded)] == recorded


def check_limits(run: Run, schedule: Schedule) -> None:
    assert run.source.most_rollouts <= schedule.per_prompt + schedule.spare
    if schedule.groups is not None:
        assert run.source.most_groups <= schedule.groups
    ids = [row for group in run.source.reserved for row in group.ids]
    assert len(set(ids)) == len(ids)


@given(schedules())
def test_every_run_takes_all_its_steps_on_whole_fresh_groups(
    make_run: Callable[..., Run], schedule: Schedule
) -> None:
    run = started(make_run, schedule, *budgets(BUDGET, BUDGET))
    asyncio.run(run.take_steps())

    assert len(run.record.metrics) == schedule.steps
    check_steps(run, schedule)
    check_limits(run, schedule)
    # Nothing waits in the data plane, and each group was either committed or given up.
    assert run.left() == set()
    names = [group.group for group in run.source.reserved]
    assert sorted(run.source.commits + run.source.abandons) == sorted(names)
    trained = schedule.steps * schedule.per_step
    assert run.record.total("groups_trained") == trained
    assert run.record.total("groups_committed") == len(run.source.commits)
    assert run.record.total("groups_reserved") == len(names)
    numbers = {group.prompt.number for group in run.source.reserved}
    assert run.record.total("dropped_prompts") == len(numbers) - trained
    assert run.record.total("retries_infrastructure") == len(names) - len(numbers)
    dropped_data = run.record.total("retries_data")
    stale = run.record.total("dropped_stale")
    assert run.record.total("dropped_prompts") == dropped_data + stale
    assert [line["refit/weight_version"] for line in run.record.metrics] == [
        *range(1, schedule.steps + 1)
    ]
    most = max(line["controller/rollouts_in_flight_max"] for line in run.record.metrics)
    assert most == run.source.most_rollouts


# A run whose budget is spent takes a moment to look for dead processes.
@settings(max_examples=30)
@given(schedules(), st.integers(0, 2), st.integers(0, 2))
def test_budgets_are_exact(
    make_run: Callable[..., Run], schedule: Schedule, infrastructure: int, data: int
) -> None:
    generous = started(make_run, schedule, *budgets(BUDGET, BUDGET), "controller.staleness=0")
    asyncio.run(generous.take_steps())
    run = started(make_run, schedule, *budgets(infrastructure, data), "controller.staleness=0")
    error: BudgetError | None = None
    try:
        asyncio.run(run.take_steps())
    except BudgetError as found:
        error = found
    spent = {kind: int(run.record.total(f"retries_{kind}")) for kind in ("infrastructure", "data")}
    if error is None:
        assert spent["infrastructure"] <= infrastructure
        assert spent["data"] <= data
        assert len(run.record.metrics) == schedule.steps
    else:
        # With a larger budget the run would have met at least as many.
        kind = "data" if "reasons of data" in error.asked else "infrastructure"
        allowed = {"infrastructure": infrastructure, "data": data}[kind]
        assert f"at most {allowed} groups" in error.asked
        assert error.found.startswith(f"{allowed + 1} of them; the first:")
        assert generous.record.total(f"retries_{kind}") > allowed
    check_steps(run, schedule)


@given(schedules(), st.integers(1, 120))
def test_a_cancelled_run_leaves_whole_committed_groups_only(
    make_run: Callable[..., Run], schedule: Schedule, which: int
) -> None:
    async def cancelled() -> Run:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            # The plane is asked once more when the run is over.
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)

        moment = Moments(which, cancel)
        plane = MomentousPlane(moment)
        run = started(make_run, schedule, *budgets(BUDGET, BUDGET), moment=moment, plane=plane)
        try:
            await run.take_steps()
        except asyncio.CancelledError:
            task.uncancel()
        return run

    run = asyncio.run(cancelled())
    check_steps(run, schedule)
    assert not run.source.running
    assert run.source.closed == 1
    left = run.left()
    for group in run.source.reserved:
        there = left.intersection(group.ids)
        assert there in (set(), set(group.ids))
        if group.group in run.source.abandons:
            assert not there
        assert not there or group.group in run.source.commits


def slow_first(group: Reservation, _rollout: int) -> Fate:
    return Fate(ends="hang") if group.prompt.number == 0 else Fate()


def test_a_group_that_the_others_overtake_is_dropped_and_counted(
    make_run: Callable[..., Run],
) -> None:
    run = make_run(
        "run.steps=4",
        "data.prompts_per_step=1",
        "controller.staleness=1",
        "controller.budgets.data=0",
        "controller.budgets.infrastructure=0",
        fate=slow_first,
    )
    asyncio.run(run.take_steps())
    assert run.record.total("dropped_stale") == run.record.total("dropped_prompts") == 1
    assert run.source.abandons == ["p000000-0"]
    assert [line["controller/staleness_max"] for line in run.record.metrics] == [
        0,
        *[pytest.approx(1, abs=1)] * 3,
    ]
    trained = [sample["text"] for step in run.record.samples for sample in step]
    assert "p000000-0-0" not in trained
    # No reward of it either: it is in no mean.
    assert len(trained) == 4


def test_a_group_of_placeholders_fails_for_reasons_of_data(make_run: Callable[..., Run]) -> None:
    run = make_run(
        "data.prompts_per_step=1",
        "rollouts.per_prompt=2",
        fate=lambda _group, _rollout: Fate(ends="placeholder"),
    )
    with pytest.raises(BudgetError, match="placeholders only; the first: history was edited"):
        asyncio.run(run.take_steps())
    assert run.left() == set()
    assert run.policy.steps == []


def test_placeholders_are_counted_and_have_no_reward(make_run: Callable[..., Run]) -> None:
    run = make_run(
        "data.prompts_per_step=2",
        "rollouts.per_prompt=3",
        "rollouts.concurrency=6",
        fate=lambda _group, rollout: Fate(ends="placeholder" if rollout == 1 else "ok"),
    )
    asyncio.run(run.take_steps())
    (samples,), (line,) = run.record.samples, run.record.metrics
    assert line["controller/placeholders"] == 2
    assert [sample["text"][-1] for sample in samples] == ["0", "2", "0", "2"]
    rewards = [sample["reward"] for sample in samples]
    assert line["train/reward/mean"] == sum(rewards) / 4
    assert line["controller/dropped_prompts"] == 0


def test_a_prompt_that_fails_for_reasons_of_data_is_not_tried_again(
    make_run: Callable[..., Run],
) -> None:
    run = make_run(
        "data.prompts_per_step=1",
        "controller.budgets.data=2",
        fate=lambda group, _rollout: Fate(ends="ok" if group.prompt.number == 2 else "data"),
    )
    asyncio.run(run.take_steps())
    names = [group.group for group in run.source.reserved]
    assert names == ["p000000-0", "p000001-0", "p000002-0"]
    (line,) = run.record.metrics
    assert line["controller/dropped_prompts"] == line["controller/retries_data"] == 2
    assert line["controller/retries_infrastructure"] == line["controller/dropped_stale"] == 0
