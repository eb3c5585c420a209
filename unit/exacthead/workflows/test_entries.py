"""From a plan to a service's jobs: limits, gates, and every character of every name."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exacthead.config import Harness
from exacthead.errors import HarnessError
from exacthead.head import Head
from exacthead.merge.account import account
from exacthead.plan import Item, Plan
from exacthead.runs.gates import needed
from exacthead.units.shard import Shard
from exacthead.verdict import Kind, Verdict
from exacthead.workers.layout import Layout
from exacthead.workflows.child import child_pipeline
from exacthead.workflows.entries import Group, command, entry, group_of, groups
from exacthead.workflows.matrix import matrices, outputs

if TYPE_CHECKING:
    from pathlib import Path

HEAD = Head("c" * 40, "d" * 40, dirty=False, content="d" * 40)
NASTY = "a\nb%0A'\"`$(touch x)${{ github.token }}\\EOF\n<<EOF\r\t; é 🚀 "
# What a shell and an argument of a program can hold: all but NUL, and no lone surrogates.
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


def harness_of(root: Path, **tables: Any) -> Harness:
    suite = {"paths": ["t"], "worker": "w"}
    leg = {"workers": {"p": "w"}}
    job = {"script": "s", "contract": "c", "level": "L0", "timeout_s": 60.0}
    return Harness.model_validate(
        {
            "project": {"name": "x"},
            "workers": {"w": {}},
            "suites": {name: {**suite, **more} for name, more in tables.get("suites", {}).items()},
            "jobs": {
                name: {**job, **more, "legs": dict.fromkeys(more.get("legs", ["plain"]), leg)}
                for name, more in tables.get("jobs", {}).items()
            },
            "runners": tables.get("runners", {"small": {"cpus": 2, "memory_gb": 8}}),
            "ci": {"services": tables.get("services", ["github", "gitlab"])},
            "root": root,
        }
    )


def leg_item(job: str, leg: str, **fields: Any) -> Item:
    return Item(f"{job}.{leg}", "leg", ("bash", "s", leg), {"p": "w"}, {}, 60.0, **fields)


def suite_item(name: str, number: int = 1, of: int = 1, **fields: Any) -> Item:
    part = f".{number}of{of}" if of > 1 else ""
    shard = Shard(name, number, of, ("t",), groups=(("t::a",),), **fields)
    return Item(f"unit.{name}{part}", "suite", ("x",), {"suite": "w"}, {}, 90.0, shard=shard)


def plan_of(*items: Item, runner: str = "small", flavour: str = "cpu") -> Plan:
    return Plan(HEAD, runner, flavour, items, {"w": "k"})


def github_reads(text: str) -> dict[str, str]:
    """Outputs of a step as GitHub reads its file, of lines without a delimiter."""
    lines = text.split("\n")
    assert lines.pop() == ""
    assert not any("<<" in line.partition("=")[0] for line in lines)
    return dict(line.split("=", 1) for line in lines)


@settings(max_examples=10, deadline=None)
@given(NAMES, NAMES)
@example(NASTY, NASTY)
@example("count", "EOF")
def test_every_character_of_a_name_survives_its_way_to_the_command(
    tmp_path_factory: pytest.TempPathFactory, job: str, leg: str
) -> None:
    root = tmp_path_factory.mktemp("names")
    (root / "noxw").write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n", encoding="utf-8")
    (root / "noxw").chmod(0o755)
    harness = harness_of(root, jobs={job: {"legs": [leg]}})

    text = outputs(matrices(harness, plan_of(leg_item(job, leg))))

    assert text.isascii()
    (chunks,) = github_reads(text).values()
    ((made,),) = map(json.loads, json.loads(chunks))
    # As the step does it, from a variable.
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", 'bash -euo pipefail -c "$COMMAND"'],
        env={"PATH": "/usr/bin:/bin", "COMMAND": made["command"]},
        cwd=root,
        capture_output=True,
        check=True,
    )
    arguments = done.stdout.decode().split("\0")[:-1]
    expected = ["-s", f"functional_{job}", "--", "--leg", leg, "--runner", "small"]
    assert arguments == expected
    assert re.fullmatch(r"[a-z0-9@=._~-]+", made["artifact"])
    assert sorted(path.name for path in root.iterdir()) == ["noxw"]


@given(st.sets(NAMES, max_size=6), st.sets(NAMES, max_size=6))
def test_every_suite_and_job_has_an_id_of_its_own(suites: set[str], jobs: set[str]) -> None:
    made = [Group(f"unit.{name}").id for name in suites]
    made += [Group(name).id for name in jobs if not name.startswith("unit.")]

    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", each) for each in made)
    assert len(set(made)) == len(made)


@pytest.mark.parametrize(
    ("shard", "words"),
    [
        ({}, "--suite sums --shard 2/3 --strict --runner small"),
        ({"retries": 2}, "--suite sums --shard 2/3 --strict --retries 2 --runner small"),
        ({"arguments": ("-m x", "-k a b")}, "--strict '--pytest='\"'\"'-k a b'\"'\"''"),
    ],
)
def test_a_shard_is_asked_for_as_it_was_planned(
    tmp_path: Path, shard: dict[str, Any], words: str
) -> None:
    harness = harness_of(tmp_path, suites={"sums": {"markers": " x"}})
    item = suite_item("sums", 2, 3, **shard)

    made = entry(harness, plan_of(item), item)

    assert made.command.startswith("python -m exacthead unit ")
    assert words in made.command
    assert (made.step_minutes, made.minutes) == (47, 67)
    assert (made.runner, made.labels) == ("small", ("ubuntu-24.04",))


def test_a_service_keeps_each_built_worker_by_its_key(tmp_path: Path) -> None:
    declared = harness_of(tmp_path, jobs={"j": {}})
    given = declared.workers["w"].model_copy(update={"provided": "/usr/bin/python3"})
    harness = declared.model_copy(
        update={"workers": {**declared.workers, "same": declared.workers["w"], "given": given}}
    )
    roles = {"a": "w", "b": "same", "c": "given"}
    item = replace(leg_item("j", "plain"), workers=roles)
    # Two names of one spec are one worker; who provides one keeps it himself.
    keys = {"w": "1" * 64, "same": "1" * 64, "given": "2" * 64}
    plan = replace(plan_of(item), keys=keys)

    assert entry(harness, plan, item).workers == ("1" * 32,)
    ((made,),) = (json.loads(chunk) for chunk in matrices(harness, plan)["job-j"])
    assert made["workers"] == ["1" * 32]
    job = yaml.safe_load(child_pipeline(harness, plan))["item 1: j.plain"]
    assert [each["key"] for each in job["cache"]] == [f"exacthead-worker-{'1' * 32}"]
    layout = Layout(tmp_path / ".cache/workers")
    places = (layout.worker(keys["w"]), layout.record(keys["w"]), layout.manifest(keys["w"]))
    assert [tmp_path / path for path in job["cache"][0]["paths"]] == list(places)


def test_a_suite_whose_tests_are_not_known_yet_is_asked_for_by_its_number(tmp_path: Path) -> None:
    harness = harness_of(tmp_path, suites={"a.b": {}})
    items = [
        Item(name, "suite", ("x",), {"suite": "w"}, {}, 60.0)
        for name in ("unit.a.b", "unit.a.b.2of3")
    ]

    assert [command(harness, plan_of(*items, flavour="cuda"), item)[3:] for item in items] == [
        ("unit", "--suite", "a.b", "--strict", "--runner", "small", "--flavour", "cuda"),
        (
            *("unit", "--suite", "a.b", "--shard", "2/3", "--strict"),
            *("--runner", "small", "--flavour", "cuda"),
        ),
    ]


def test_the_smallest_runner_that_will_do_is_taken(tmp_path: Path) -> None:
    runners = {
        "large": {"cpus": 32, "memory_gb": 400, "accelerators": 2},
        "small": {"cpus": 2, "memory_gb": 8},
        "one": {"cpus": 16, "memory_gb": 200, "accelerators": 1, "labels": ["self-hosted", "h"]},
    }
    asks = {"a": {}, "b": {"accelerators": 1}, "c": {"accelerators": 2}, "d": {"cpus": 64}}
    harness = harness_of(tmp_path, jobs=asks, runners=runners)
    plan = plan_of(*(leg_item(name, "plain") for name in asks), runner="this machine")

    made = [entry(harness, plan, item) for item in plan.items[:3]]

    assert [each.runner for each in made] == ["small", "one", "large"]
    assert made[1].labels == ("self-hosted", "h")
    with pytest.raises(HarnessError, match="64 cpus"):
        entry(harness, plan, plan.items[3])
    # Asked for by name, it is that one: preflight has the last word on whether it fits.
    assert entry(harness, plan_of(*plan.items, runner="one"), plan.items[0]).runner == "one"


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 700), st.integers(1, 256))
def test_no_matrix_has_more_entries_than_it_may_and_none_is_lost(
    tmp_path_factory: pytest.TempPathFactory, count: int, most: int
) -> None:
    harness = harness_of(tmp_path_factory.getbasetemp(), suites={"sums": {}})
    items = [suite_item("sums", number, count) for number in range(1, count + 1)]

    (chunks,) = matrices(harness, plan_of(*items), most=most).values()

    sizes = [len(json.loads(chunk)) for chunk in chunks]
    assert all(size == most for size in sizes[:-1])
    assert 1 <= sizes[-1] <= most
    ids = [each["id"] for chunk in chunks for each in json.loads(chunk)]
    assert ids == [item.id for item in items]


def test_what_would_not_fit_a_job_s_outputs_is_refused(tmp_path: Path) -> None:
    harness = harness_of(tmp_path, suites={"sums": {}})
    items = [suite_item("sums", number, 3000) for number in range(1, 3001)]
    made = matrices(harness, plan_of(*items))

    with pytest.raises(HarnessError, match=r"3000 items\n.*1048576"):
        outputs(made)
    # The limit counts two bytes for each character.
    text = outputs(made, most=1 << 30)
    size = 2 * (len(text) - len("=\n"))
    assert outputs(made, most=size) == text
    with pytest.raises(HarnessError):
        outputs(made, most=size - 1)


def test_what_the_plan_has_settled_gets_no_job(tmp_path: Path) -> None:
    harness = harness_of(tmp_path, jobs={"a": {}, "b": {}})
    skipped = leg_item("a", "plain", settled=Verdict(Kind.SKIPPED, "not here"))

    assert list(matrices(harness, plan_of(skipped, leg_item("b", "plain")))) == ["job-b"]
    assert outputs(matrices(harness, plan_of(skipped))) == ""


def test_what_is_behind_a_gate_that_the_plan_has_closed_gets_no_job(tmp_path: Path) -> None:
    harness = harness_of(tmp_path, suites={"a": {}}, jobs={"b": {}, "c": {}, "d": {}})
    skipped = Verdict(Kind.SKIPPED, "needs what is not here")
    empty = Verdict(Kind.SKIPPED, "empty by plan")
    closed = Item(**{**vars(suite_item("a")), "shard": None, "settled": skipped})
    shard = replace(suite_item("a", 2, 2).shard, groups=())
    void = Item(**{**vars(suite_item("a", 2, 2)), "shard": shard, "settled": empty})
    behind = [leg_item("b", "plain", needs=("unit.a",)), leg_item("c", "plain", needs=("b",))]

    # A chain behind it, as a run on one machine has it: not_run(gate).
    plan = plan_of(closed, *behind, leg_item("d", "plain"))
    assert list(matrices(harness, plan)) == ["job-d"]
    accounts, _ = account(plan, [])
    assert [str(each.result.verdict.reason) for each in accounts[1:3]] == [
        "gate: unit.a is skipped",
        "gate: b.plain is not_run",
    ]
    text = child_pipeline(harness, plan)
    assert [name for name in yaml.safe_load(text) if name.startswith("item ")] == [
        "item 1: d.plain"
    ]
    # A shard without tests is no red gate.
    plan = plan_of(suite_item("a", 1, 2), void, *behind)
    assert list(matrices(harness, plan)) == ["suite-a", "job-b", "job-c"]


def test_a_gate_that_is_not_required_is_red_by_its_exit_code(tmp_path: Path) -> None:
    harness = harness_of(tmp_path, jobs={"a": {}, "b": {}, "c": {}})
    gate, alone = leg_item("a", "plain", required=False), leg_item("b", "plain", required=False)
    plan = plan_of(gate, alone, leg_item("c", "plain", needs=("a",)))

    held = {item.id: "--required" in command(harness, plan, item) for item in plan.items}

    assert held == {"a.plain": True, "b.plain": False, "c.plain": False}


GATED: dict[str, Any] = {
    "suites": {"a": {}, "b": {"needs": ["unit.a", "j.x"]}, "c": {}},
    "jobs": {"j": {"legs": ["x", "y"]}, "k": {"needs": ["j", "unit.b"]}},
}


def test_a_group_waits_for_its_own_gates_and_for_nothing_else(tmp_path: Path) -> None:
    harness = harness_of(tmp_path, **GATED)

    made = {group.name: group.needs for group in groups(harness)}

    assert made == {
        "unit.a": (),
        "unit.b": ("unit.a", "j.x"),
        "unit.c": (),
        "j": (),
        "k": ("unit.b", "j", "j.x"),
        "j.x": (),
    }
    # A leg that is a gate by itself is waited for alone.
    known = groups(harness)
    assert group_of(leg_item("j", "x"), known).name == "j.x"
    assert group_of(leg_item("j", "y"), known).name == "j"
    assert group_of(suite_item("b", 1, 2), known).name == "unit.b"
    with pytest.raises(HarnessError, match="neither"):
        group_of(leg_item("gone", "x"), known)


def test_gitlab_s_jobs_wait_for_exactly_the_items_that_they_need(tmp_path: Path) -> None:
    harness = harness_of(tmp_path, **GATED)
    items = (
        *(suite_item("a", number, 2) for number in (1, 2)),
        *(leg_item("j", leg) for leg in ("x", "y")),
        Item(**{**vars(suite_item("b")), "needs": ("unit.a", "j.x")}),
        leg_item("k", "plain", needs=("j", "unit.b")),
    )
    ids = [item.id for item in items]

    jobs = yaml.safe_load(child_pipeline(harness, plan_of(*items)))

    titles = {name.partition(": ")[2]: name for name in jobs if name.startswith("item ")}
    assert list(titles) == ids
    for item in items:
        expected = [titles[gate] for gate in needed(item.needs, ids)]
        assert jobs[titles[item.id]]["needs"] == expected
    assert jobs["merge"]["when"] == "always"
    assert "needs" not in jobs["merge"]
    many = (*(suite_item("a", n, 51) for n in range(1, 52)), items[4])
    with pytest.raises(HarnessError, match="51 gates"):
        child_pipeline(harness, plan_of(*many))


def test_gitlab_takes_names_and_commands_as_they_are(tmp_path: Path) -> None:
    legs = [NASTY, 300 * "x", 300 * "🚀"]
    harness = harness_of(tmp_path, jobs={NASTY: {"legs": legs}})
    items = [leg_item(NASTY, leg) for leg in legs]

    text = child_pipeline(harness, plan_of(*items))

    assert text.isascii()
    jobs = {name: job for name, job in yaml.safe_load(text).items() if name.startswith("item ")}
    assert len(jobs) == 3
    assert all(len(name) <= 255 and name.isprintable() for name in jobs)
    for item, job in zip(items, jobs.values(), strict=True):
        value = job["variables"]["EXACTHEAD_COMMAND"]
        made = entry(harness, plan_of(*items), item)
        assert value == {"value": made.command, "expand": False}
