from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.errors import HarnessError
from exacthead.head import Head
from exacthead.leg_items import leg_items
from exacthead.plan import Item, Plan, make_plan, read_plan, worker_names
from exacthead.units.shard import Shard
from exacthead.verdict import Kind, Verdict
from exacthead.workers.spec import Interpreter, Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.config import Harness

HEAD = Head(commit="c" * 40, tree="t" * 40, dirty=False)
PYTHON = Interpreter(Path("/python"), "cpython", "3.13.0", "cpython-313", "linux")
DECLARED = """
[workers.a]
[workers.b]
[suites.one]
paths = ["unit/one"]
worker = "a"
environment = { X = "1" }
[suites.two]
paths = ["unit/two", "unit/three"]
worker = "b"
[jobs.train]
script = "train.sh"
contract = "train.contract.toml"
level = "L3"
timeout_s = 30
[jobs.train.legs.second]
workers = { policy = "a", generation = "b" }
[jobs.train.legs.first]
workers = { policy = "a" }
environment = { LEG = "first" }
"""


@pytest.fixture
def harness(make_harness: Callable[[str], Harness]) -> Harness:
    harness = make_harness(DECLARED)
    for folder in ("one", "two", "three"):
        (harness.root / "unit" / folder).mkdir(parents=True)
    return harness


def spec(name: str, **environment: str) -> Spec:
    return Spec(
        name, "", PYTHON, "cpu", "copy", environment=tuple(environment.items()), notes=(f"{name}!",)
    )


def plan(items: tuple[Item, ...], *specs: Spec) -> Plan:
    return make_plan(
        HEAD,
        items,
        {each.name: each for each in specs},
        runner="cpu2",
        flavour="cpu",
        invocation="unit",
    )


def test_the_legs_come_in_the_declared_order_or_as_named(harness: Harness) -> None:
    assert [item.id for item in leg_items(harness, "train")] == ["train.second", "train.first"]
    named = leg_items(harness, "train", ["first", "first"])
    assert [item.id for item in named] == ["train.first"]
    assert named[0].command == ("bash", "train.sh", "first")
    assert named[0].environment == {"LEG": "first"}
    assert named[0].timeout_s == 30


def test_a_leg_may_have_a_contract_of_its_own(make_harness: Callable[[str], Harness]) -> None:
    own = DECLARED.replace('LEG = "first" }', 'LEG = "first" }\ncontract = "own.contract.toml"')
    harness = make_harness(own)
    contracts = {item.id: item.contract for item in leg_items(harness, "train")}
    assert contracts == {
        "train.second": "train.contract.toml",
        "train.first": "own.contract.toml",
    }


def test_a_leg_s_script_is_told_its_recipe_and_overrides(
    make_harness: Callable[[str], Harness],
) -> None:
    recipe = 'timeout_s = 30\nrecipe = "r.yaml"\noverrides = ["a=1"]\n'
    own = 'LEG = "first" }\noverrides = ["b=[1, 2]", "a=2"]'
    text = DECLARED.replace("timeout_s = 30\n", recipe).replace('LEG = "first" }', own)
    first, second = leg_items(make_harness(text), "train", ["first", "second"])

    assert first.environment == {
        "EXACTHEAD_RECIPE": "r.yaml",
        "EXACTHEAD_OVERRIDES": "a=1\nb=[1, 2]\na=2",
        "LEG": "first",
    }
    assert second.environment["EXACTHEAD_OVERRIDES"] == "a=1"


def test_a_plan_holds_keys_and_notes_and_no_path_of_this_machine(harness: Harness) -> None:
    made = plan(leg_items(harness, "train"), spec("b"), spec("a"))

    assert worker_names(made.items) == ["a", "b"]
    assert made.keys == {"a": spec("a").key, "b": spec("b").key}
    assert made.notes == ("worker a a!", "worker b b!")
    assert str(harness.root) not in json.dumps(made.as_data())


def test_an_empty_selection_is_no_plan() -> None:
    with pytest.raises(HarnessError, match="nothing is selected"):
        plan(())


def test_workers_that_disagree_on_a_variable_are_refused(harness: Harness) -> None:
    items = leg_items(harness, "train", ["second"])

    with pytest.raises(HarnessError, match="X is '1' in worker 'a', '2' in worker 'b'"):
        plan(items, spec("a", X="1"), spec("b", X="2"))
    plan(items, spec("a", X="1"), spec("b", X="1"))
    decided = replace(items[0], environment={"X": "3"})
    plan((decided,), spec("a", X="1"), spec("b", X="2"))


def test_roles_that_would_share_a_variable_are_refused(harness: Harness) -> None:
    (item,) = leg_items(harness, "train", ["first"])
    roles = {"vllm-gym": "a", "vllm_gym": "a", "policy": "a"}

    with pytest.raises(HarnessError, match="'vllm-gym' and 'vllm_gym' would both be"):
        plan((replace(item, workers=roles),), spec("a"))


def test_a_digest_that_does_not_match_is_refused(harness: Harness, tmp_path: Path) -> None:
    data = plan(leg_items(harness, "train"), spec("a"), spec("b")).as_data()
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**data, "flavour": "cuda"}), encoding="utf-8")

    with pytest.raises(HarnessError, match="it was changed after the run"):
        read_plan(path)


def test_one_item_of_a_plan_keeps_only_its_own_workers(harness: Harness) -> None:
    whole = plan(leg_items(harness, "train"), spec("a"), spec("b"))

    assert set(whole.only("train.first").keys) == {"a"}
    with pytest.raises(HarnessError, match=r"did you mean 'train\.first'"):
        whole.only("train.frist")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"digest": "x", "items": [{}]}'])
def test_what_is_no_plan_is_called_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(HarnessError, match="name a folder that a run of this harness has written"):
        read_plan(path)


shards = st.builds(
    Shard,
    suite=st.text(),
    number=st.integers(1, 4),
    of=st.just(4),
    paths=st.tuples(st.text()),
    groups=st.lists(st.lists(st.text()).map(tuple), max_size=2).map(tuple),
    arguments=st.lists(st.text(), max_size=2).map(tuple),
    expected_s=st.floats(0, 1e6),
    may_skip=st.booleans(),
)
items = st.builds(
    Item,
    id=st.text(min_size=1),
    kind=st.sampled_from(["leg", "suite"]),
    command=st.tuples(st.text()),
    workers=st.just({}),
    environment=st.dictionaries(st.text(), st.text(), max_size=2),
    timeout_s=st.floats(0, 1e6),
    seed=st.integers(0, 9),
    shard=st.none() | shards,
    settled=st.none() | st.builds(Verdict, st.sampled_from(Kind), st.text(min_size=1)),
    required=st.booleans(),
    notes=st.lists(st.text(), max_size=2).map(tuple),
)


@given(st.lists(items, min_size=1, max_size=3))
def test_what_is_read_is_what_was_written(items: list[Item]) -> None:
    made = Plan(HEAD, "cpu2", "cpu", tuple(items), {"a": "k"}, ("n",))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        path.write_text(json.dumps(made.as_data()), encoding="utf-8")

        assert read_plan(path) == made


@given(items, items)
def test_two_plans_have_one_digest_exactly_when_they_decide_the_same(a: Item, b: Item) -> None:
    one, other = (Plan(HEAD, "cpu2", "cpu", (each,), {}) for each in (a, b))

    assert (one.digest == other.digest) == (a == b)
    assert one.digest == replace(one, invocation="typed otherwise").digest
