"""Accounting: from attempts in any order, every planned item has one word, always the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from exacthead.head import Head
from exacthead.merge.account import account
from exacthead.merge.parts import Attempt, Part
from exacthead.plan import Item, Plan
from exacthead.resume import left
from exacthead.runs.execute import state_of
from exacthead.runs.folder import RunFolder, State
from exacthead.runs.result import ItemResult
from exacthead.units.shard import Shard
from exacthead.verdict import Kind, Verdict

HEAD = Head("c" * 40, "d" * 40, dirty=False, content="d" * 40)
PASSED = Verdict(Kind.PASSED)
VERDICTS = [PASSED, *(Verdict(kind, "why") for kind in Kind if kind is not Kind.PASSED)]


def leg(name: str, **fields: Any) -> Item:
    return Item(name, "leg", ("bash", "x", name), {"role": "w"}, {}, 60.0, **fields)


def plan_of(*items: Item, **fields: Any) -> Plan:
    return Plan(HEAD, "r", "cpu", items, {"w": "k"}, **fields)


def part(run: str, verdicts: dict[str, Verdict], plan: Plan, started: str = "") -> Part:
    attempts = tuple(
        Attempt(
            item,
            run,
            started or f"2026-01-01T00:00:{run}",
            Path(run, item.id),
            ItemResult(item_id=item.id, verdict=verdicts[item.id]),
        )
        for item in plan.items
        if item.id in verdicts
    )
    return Part(RunFolder(Path(run)), plan, None, attempts, {})


NAMES = ["a", "b", "c", "d"]
ITEMS = [leg("a"), leg("b", needs=("a",)), leg("c", required=False), leg("d")]


@st.composite
def runs(draw: st.DrawFn) -> list[Part]:
    tables = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VERDICTS))
    drawn = draw(st.lists(tables, max_size=5))
    return [part(f"{number:02}", table, plan_of(*ITEMS)) for number, table in enumerate(drawn)]


@given(runs(), st.data())
def test_no_order_of_the_parts_matters_and_no_repetition(
    parts: list[Part], data: st.DataObject
) -> None:
    plan = plan_of(*ITEMS)
    shuffled = data.draw(st.permutations(parts))
    twice = [*shuffled, *parts[:2]]

    assert account(plan, shuffled) == account(plan, parts) == account(plan, twice)


@given(runs())
def test_every_item_is_accounted_for_and_none_is_green_that_did_not_run(parts: list[Part]) -> None:
    accounts, left_out = account(plan_of(*ITEMS), parts)

    assert [each.item.id for each in accounts] == NAMES
    assert left_out == []
    for each in accounts:
        verdicts = [
            attempt.result.verdict
            for part in parts
            for attempt in part.attempts
            if attempt.item.id == each.item.id
        ]
        ran = [v for v in verdicts if v.kind not in {Kind.NOT_RUN, Kind.INTERRUPTED}]
        # The last that ran has the last word.
        assert each.result.verdict == (ran or verdicts or [each.result.verdict])[-1]
        assert len(each.attempts) == len(verdicts)
        if not verdicts:
            assert each.result.verdict.kind is Kind.NOT_RUN
            assert each.result.verdict.reason.startswith(("lost: ", "gate: "))
    state = state_of([each.result for each in accounts])
    required = [each.result.verdict.green for each in accounts if each.item.id != "c"]
    assert (state is State.PASSED) == all(required)


def test_behind_a_red_gate_an_item_is_not_lost() -> None:
    plan = plan_of(*ITEMS)
    red = part("01", {"a": Verdict(Kind.CRASHED, "why"), "d": PASSED}, plan)

    reasons = {each.item.id: each.result.verdict.reason for each in account(plan, [red])[0]}

    assert reasons["b"] == "gate: a is crashed"
    assert reasons["c"] == "lost: no run folder has it"
    # A gate that is lost itself is no open one.
    assert account(plan, [])[0][1].result.verdict.reason == "gate: a is not_run"


def test_behind_a_red_gate_whose_verdict_stands_nothing_is_left_to_run() -> None:
    plan = plan_of(leg("a"), leg("b", needs=("a",)), leg("c", needs=("b",)), leg("d"))

    def rest(**verdicts: Verdict) -> set[str]:
        return left(plan, {k: ItemResult(item_id=k, verdict=v) for k, v in verdicts.items()})

    behind, ended = Verdict(Kind.NOT_RUN, "gate: a is failed"), Verdict(Kind.INTERRUPTED, "by x")
    red = Verdict(Kind.FAILED, "why")
    assert rest(a=red, b=behind, c=behind, d=PASSED) == set()
    # Without a result nothing of it can be kept, and an interrupted gate runs once more.
    assert rest(a=red, b=behind, d=red) == {"c"}
    assert rest(a=ended, b=behind, c=behind, d=PASSED) == {"a", "b", "c"}
    assert rest(a=PASSED, b=behind, c=behind) == {"b", "c", "d"}


def test_what_the_plan_has_settled_need_not_come_back() -> None:
    settled = leg("s", settled=Verdict(Kind.SKIPPED, "needs what is not here"), required=False)

    accounts, _ = account(plan_of(settled), [])

    assert str(accounts[0].result.verdict) == "skipped(needs what is not here)"
    assert state_of([accounts[0].result]) is State.PASSED


def test_an_item_that_was_run_otherwise_is_lost_and_says_how() -> None:
    def shard(*nodeids: str) -> Item:
        part = Shard("u", 1, 2, ("p",), groups=(nodeids,))
        return Item("unit.u.1of2", "suite", ("x",), {"suite": "w"}, {}, 60.0, shard=part)

    planned = plan_of(shard("t::a", "t::b"), leg("l"))
    passed = {"unit.u.1of2": PASSED, "l": PASSED}

    def said(*items: Item) -> list[str]:
        accounts, left_out = account(planned, [part("01", passed, plan_of(*items))])
        assert accounts[0].result.verdict.kind is Kind.NOT_RUN
        return left_out

    assert said(shard("t::a", "t::c")) == [
        "run 01 has unit.u.1of2, but other tests: without t::b and with t::c"
    ]
    assert said(leg("l", seed=1)) == ["run 01 has l, but with another seed"]
    # Placing the same tests otherwise is no other item.
    groups = Shard("u", 1, 2, ("p",), groups=(("t::b",), ("t::a",)), processes=2)
    same = Item("unit.u.1of2", "suite", ("x",), {"suite": "w"}, {}, 90.0, shard=groups)
    accounts, left_out = account(planned, [part("01", passed, plan_of(same))])
    assert left_out == []
    assert accounts[0].result.verdict == PASSED


def test_an_attempt_says_what_the_others_were() -> None:
    plan = plan_of(leg("a"))
    parts = [
        part("02", {"a": PASSED}, plan),
        part("01", {"a": Verdict(Kind.FAILED, "one\nline")}, plan),
    ]

    (each,), _ = account(plan, parts)

    assert each.result.verdict == PASSED
    assert each.result.notes == ("attempt 1 of 2, in run 01: failed: one line",)
