"""Which image an item runs in; and that this never decides which items run."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.head import Head
from exacthead.images.box import BoxSpec, Limits
from exacthead.images.owner import this
from exacthead.images.where import Wanted, again, image_for, wanted
from exacthead.leg_items import leg_items
from exacthead.plan import Item, Plan, make_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.config import Harness
    from exacthead.images.engine import Engine

ROOT = Path(__file__).parents[3]
HARNESS = load(ROOT)


def options(**given: object) -> Namespace:
    usual = {"where": "here", "image": "", "reuse": "", "dirty": False, "base_image": ""}
    return Namespace(**{**usual, **given})


def test_nothing_is_asked_of_images_by_default() -> None:
    assert wanted(options()) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"where": "image"}, Wanted()),
        ({"image": "x"}, Wanted("x")),
        ({"image": "x", "reuse": "abc"}, Wanted("x", "abc")),
        ({"where": "image", "dirty": True}, Wanted(dirty=True)),
        ({"where": "image", "base_image": "b"}, Wanted(base="b")),
    ],
)
def test_each_option_is_understood(given: dict[str, object], expected: Wanted) -> None:
    assert wanted(options(**given)) == expected


@pytest.mark.parametrize(
    "given",
    [
        {"reuse": "abc"},
        {"dirty": True},
        {"base_image": "b"},
        {"where": "image", "reuse": "abc"},
        {"image": "x", "reuse": "abc", "dirty": True},
        {"image": "x", "base_image": "b"},
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(HarnessError):
        wanted(options(**given))


IMAGES = """
[workers.one]
[workers.two]
[bases.local]
suite = "trixie"
[images.small]
base = "local"
workers = ["one"]
[images.large]
base = "local"
workers = ["one", "two"]
[images.gpu]
base = "local"
flavour = "cuda"
workers = ["one"]
"""


def item(*workers: str) -> Item:
    roles = {f"role{number}": worker for number, worker in enumerate(workers)}
    return Item("x", "leg", ("true",), roles, {}, 1.0)


def test_the_first_image_with_all_workers_of_a_flavour_is_an_items_own(
    make_harness: Callable[[str], Harness],
) -> None:
    harness = make_harness(IMAGES)

    assert image_for(harness, item("one"), "cpu") == "small"
    assert image_for(harness, item("two"), "cpu") == "large"
    assert image_for(harness, item("one", "two"), "cpu") == "large"
    assert image_for(harness, item("one"), "cuda") == "gpu"
    with pytest.raises(HarnessError, match=r"flavour cuda with[\s\S]*large: one, two"):
        image_for(harness, item("two"), "cuda")


WHERE = st.builds(
    lambda chosen, dirty, images: (Wanted(chosen[0], dirty=dirty, base=chosen[1]), images),
    st.sampled_from([("", ""), ("", "debian"), ("sha256:" + "0" * 64, ""), ("moved:latest", "")]),
    st.booleans(),
    st.dictionaries(st.sampled_from(["gym_training.flag_off", "unit.x"]), st.text(max_size=8)),
)


@given(WHERE, st.sampled_from(["gym_training", "single_controller", "learning"]))
def test_the_legs_of_a_job_are_the_same_for_any_choice_of_image(
    chosen: tuple[Wanted, dict[str, str]], job: str
) -> None:
    _, images = chosen
    items = leg_items(HARNESS, job)
    head = Head("0" * 40, "1" * 40, dirty=False)
    specs: dict[str, object] = {}
    plain = plan_of(head, items, specs, {})
    there = plan_of(head, items, specs, images)

    assert there.items == plain.items == items
    # What is in no item is all that differs.
    assert replace(there, images={}) == plain


def plan_of(
    head: Head, items: tuple[Item, ...], specs: dict[str, object], images: dict[str, str]
) -> Plan:
    bare = tuple(replace(each, workers={}) for each in items)
    made = make_plan(
        head, bare, specs, runner="r", flavour="cpu", invocation="", images=images,  # type: ignore[arg-type]
    )  # fmt: skip
    return replace(made, items=items)


def test_a_plan_that_is_read_again_knows_its_images(tmp_path: Path) -> None:
    import json

    from exacthead.plan import read_plan

    head = Head("0" * 40, "1" * 40, dirty=False)
    plan = Plan(
        head, "r", "cpu", (item(), replace(item(), id="y")), {}, images={"x": "1", "y": "2"}
    )
    (tmp_path / "plan.json").write_text(json.dumps(plan.as_data()), encoding="utf-8")

    assert read_plan(tmp_path / "plan.json") == plan
    assert plan.only("x").images == {"x": "1"}
    assert plan.digest != replace(plan, images={"x": "1", "y": "3"}).digest


class Known:
    """An engine that knows one image: what is asked of it here is no more than that."""

    def __init__(self, labels: dict[str, str] | None) -> None:
        self.labels = labels

    def image(self, _reference: str) -> Known | None:
        return None if self.labels is None else self


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (None, Wanted()),
        ({"org.opencontainers.image.revision": "0" * 40}, Wanted("1")),
        ({"org.opencontainers.image.revision": "2" * 40}, Wanted("1", reuse="2" * 40)),
        ({}, Wanted("1")),
    ],
)
def test_an_item_that_is_replayed_wants_the_image_that_it_was_in(
    labels: dict[str, str] | None, expected: Wanted
) -> None:
    plan = Plan(Head("0" * 40, "1", dirty=False), "r", "cpu", (item(),), {}, images={"x": "1"})
    engine: Engine = Known(labels)  # type: ignore[assignment]

    assert again(plan, engine) == expected


def test_a_container_is_closed_unless_an_item_asks() -> None:
    limits = Limits(cpus=2, memory_gb=4, pids=100)
    body = BoxSpec("sha256:1", ("true",), this(), limits).body()
    host = body["HostConfig"]

    assert body["NetworkDisabled"]
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["Init"]) == ("none", True, True)
    assert host["CapDrop"] == ["ALL"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (2e9, 4e9, 4e9)
    assert (host["PidsLimit"], host["DeviceRequests"], host["Mounts"]) == (100, [], [])
    assert body["OpenStdin"]
    assert body["StdinOnce"]

    asked = replace(limits, accelerators=2)
    body = BoxSpec("sha256:1", ("true",), this(), asked, network=True).body()
    assert body["HostConfig"]["NetworkMode"] == "bridge"
    assert not body["NetworkDisabled"]
    (devices,) = body["HostConfig"]["DeviceRequests"]
    assert (devices["Count"], devices["Capabilities"][0][0]) == (2, "gpu")
