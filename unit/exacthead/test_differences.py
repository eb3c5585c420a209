from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exacthead.differences import between, keys, packages
from exacthead.head import Head
from exacthead.runs.provenance import Machine, Provenance, WorkerUse, gather
from exacthead.workers.spec import Interpreter, Spec

OTHER = "runner 'x' was another machine"
PYTHON = Interpreter(Path("/python"), "cpython", "3.13.0", "cpython-313", "linux")
MACHINE = Machine(
    kernel="Linux 6", platform="p", cpu="a cpu", cpus=2, memory_mb=24_000, accelerators=()
)
HERE = gather(Head("c" * 40, "t" * 40, dirty=False), workers=[], locks={}, fixtures={}).model_copy(
    update={"machine": MACHINE, "environment": {"PATH": "/bin"}, "fixtures": {"model": "1"}}
)


def other(**fields: Any) -> Provenance:
    return HERE.model_copy(update=fields)


def machine(**fields: Any) -> dict[str, Machine]:
    return {"machine": MACHINE.model_copy(update=fields)}


def use(**fields: Any) -> Provenance:
    facts = {"name": "a", "key": "k", "flavour": "cpu", "interpreter": "cpython 3.12.1"}
    return other(workers=(WorkerUse(**{**facts, "how": "provided", **fields}),))


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({}, ()),
        (machine(cpus=16), (f"{OTHER}: 2 CPUs here, 16 CPUs there",)),
        (machine(memory_mb=24_010), ()),
        (
            machine(memory_mb=204_800, accelerators=("H200",)),
            (f"{OTHER}: 23 GiB here, 200 GiB there; no accelerator here, H200 there",),
        ),
        ({"environment": {"PATH": "/usr/bin"}}, ("inherited variables: PATH",)),
        ({"environment": {"PATH": "/bin", "HOME": "/h", "TZ": "CET"}}, ()),
        ({"environment": {"PATH": "/bin", "CUDA_HOME": ""}}, ("inherited variables: CUDA_HOME",)),
        ({"fixtures": {"model": "2", "rows": "1"}}, ("fixtures: model, rows",)),
        ({"harness": "0"}, (f"harness {HERE.harness} here, 0 there",)),
    ],
)
def test_each_difference_is_a_sentence(there: dict[str, Any], said: tuple[str, ...]) -> None:
    assert between(HERE, other(**there), "x") == said


def test_another_key_is_told_with_both_interpreters() -> None:
    spec = Spec("a", "lock", PYTHON, "cpu", "copy")

    assert keys({"a": spec}, {"a": spec.key}, None) == ()
    for used, version in ((use(), "3.12.1"), (other(workers=()), "unknown"), (None, "unknown")):
        (said,) = keys({"a": spec}, {"a": "f" * 64}, used)
        assert said == (
            f"worker a: key {spec.key[:12]} here, ffffffffffff there;"
            f" Python 3.13.0 here, {version} there"
        )


def test_what_a_provided_worker_holds_is_compared() -> None:
    held = " ".join(f"p{number}==1" for number in range(7))
    spec = Spec("a", f"{held} x==1", PYTHON, "cpu", "copy", provided=True)

    same = use(packages=(*held.split(), "x==1"))
    less = use(packages=("x==2",))
    assert packages({"a": spec}, same) == ()
    assert packages({"a": spec}, less) == (
        "worker a: p0==1, p1==1, p2==1, p3==1, p4==1 and 3 more here, x==2 there",
    )
