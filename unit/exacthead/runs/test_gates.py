"""Gates: what waits for what, and what is not run behind a red one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.errors import HarnessError
from exacthead.runs.gates import Gates, in_order, needed
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository


@dataclass(frozen=True)
class Thing:
    id: str
    needs: tuple[str, ...] = ()
    void: bool = False


RED = [Verdict(kind, "why") for kind in Kind if kind not in {Kind.PASSED, Kind.QUARANTINED}]


def test_a_suite_is_all_its_shards_and_a_job_all_its_legs() -> None:
    ids = ["unit.a.1of2", "unit.a.2of2", "unit.ab", "job.x", "job.y", "job2.x"]

    assert needed(["unit.a"], ids) == ("unit.a.1of2", "unit.a.2of2")
    assert needed(["job"], ids) == ("job.x", "job.y")
    assert needed(["job.y", "unit.ab"], ids) == ("unit.ab", "job.y")
    assert needed(["gone"], ids) == ()


@pytest.mark.parametrize("verdict", RED)
def test_behind_a_gate_that_is_not_green_nothing_runs(verdict: Verdict) -> None:
    gates = Gates.of([Thing("a.1"), Thing("a.2"), Thing("b", ("a",)), Thing("c", ("elsewhere",))])
    passed = Verdict(Kind.PASSED)

    assert gates.waiting("b", {"a.1"}) == ("a.2",)
    assert gates.closed("b", {"a.1": passed, "a.2": passed}) == ""
    assert gates.closed("b", {"a.1": passed, "a.2": verdict}) == f"gate: a.2 is {verdict.kind}"
    assert gates.waiting("c", set()) == gates.waiting("a.1", set()) == ()


def test_a_gate_that_is_empty_by_plan_is_open() -> None:
    gates = Gates.of([Thing("a.1"), Thing("a.2", void=True), Thing("b", ("a",))])

    assert gates.waiting("b", set()) == ("a.1",)
    skipped = Verdict(Kind.SKIPPED, "empty by plan")
    assert gates.closed("b", {"a.1": Verdict(Kind.PASSED), "a.2": skipped}) == ""


@st.composite
def graphs(draw: st.DrawFn) -> list[Thing]:
    """Items that need only items before them, shuffled."""
    names = [f"i{number}" for number in range(draw(st.integers(1, 8)))]
    things = [
        Thing(name, tuple(draw(st.sets(st.sampled_from(names[:at]))) if at else ()))
        for at, name in enumerate(names)
    ]
    return draw(st.permutations(things))


@given(graphs())
def test_every_item_stands_behind_its_gates_and_the_rest_keeps_its_order(
    things: list[Thing],
) -> None:
    ordered = in_order(things)
    at = {thing.id: place for place, thing in enumerate(ordered)}

    assert sorted(at) == sorted(thing.id for thing in things)
    assert all(at[need] < at[thing.id] for thing in things for need in thing.needs)
    free = [thing.id for thing in things if not thing.needs]
    assert [thing.id for thing in ordered if not thing.needs] == free


@given(graphs(), st.data())
def test_items_that_wait_for_each_other_have_no_order(
    things: list[Thing], data: st.DataObject
) -> None:
    needs = {thing.id: set(thing.needs) for thing in things}
    first = data.draw(st.sampled_from(sorted(needs)))
    # It now waits for itself, or for something that waits for it.
    after = {first}
    while more := {name for name in needs if needs[name] & after} - after:
        after |= more
    needs[first].add(data.draw(st.sampled_from(sorted(after))))

    with pytest.raises(HarnessError, match=first):
        in_order([Thing(name, tuple(each)) for name, each in needs.items()])


GATED = """
[suites.gate]
paths = ["unit/gate"]
worker = "plain"
timeout_s = 60

[suites.behind]
paths = ["unit/behind"]
worker = "plain"
needs = ["unit.gate"]
timeout_s = 60

[suites.spare]
paths = ["unit/spare"]
worker = "plain"
required = false
timeout_s = 60
"""


def test_a_red_gate_shows_as_the_reason_and_stops_nobody_else(
    small_repository: Repository,
) -> None:
    declared = (small_repository.root / "ci" / "harness.toml").read_text(encoding="utf-8")
    # Declared after what needs it, and yet it runs first.
    behind, gate = GATED.index("[suites.behind]"), GATED.index("[suites.gate]")
    spare = GATED.index("[suites.spare]")
    text = declared + GATED[behind:spare] + GATED[gate:behind] + GATED[spare:]
    test = "def test_it():\n    assert {}\n"
    small_repository.commit(
        {
            "ci/harness.toml": text,
            "unit/gate/test_gate.py": test.format("False"),
            "unit/behind/test_behind.py": test.format("True"),
            "unit/spare/test_spare.py": test.format("False"),
        }
    )

    code, printed = small_repository.exacthead("unit")

    assert code == 1, printed
    assert "gate: unit.gate is failed" in printed
    assert "Exacthead: 2 new failures, 1 not run, 1 passed\n" in printed
    # The gate is not planned, so nobody waits for it; and what is not required decides nothing.
    arguments = ("--suite", "behind", "--suite", "spare")
    code, printed = small_repository.exacthead("unit", *arguments)
    assert code == 0, printed
    assert "1 passed, 1 failed" in printed
    assert "failed (assertion, not required)" in printed
    # A service holds back by the exit code what is behind a gate that is not required.
    code, printed = small_repository.exacthead("unit", "--suite", "spare", "--required")
    assert code == 1, printed
    assert "not required" not in printed


def test_a_shard_that_is_empty_by_plan_holds_nothing_back(small_repository: Repository) -> None:
    declared = (small_repository.root / "ci" / "harness.toml").read_text(encoding="utf-8")
    gate = GATED[: GATED.index("[suites.spare]")]
    test = "def test_it():\n    pass\n"
    small_repository.commit(
        {
            "ci/harness.toml": declared + gate,
            "unit/gate/test_gate.py": test,
            "unit/behind/test_behind.py": test,
        }
    )
    arguments = ("--suite", "gate", "--suite", "behind", "--shards", "2", "--required")

    code, printed = small_repository.exacthead("unit", *arguments)

    assert code == 0, printed
    assert printed.splitlines()[-1] == "2 passed, 0 failed, 2 skipped"
