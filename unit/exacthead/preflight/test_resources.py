"""More devices, CPUs or memory than there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.preflight.resources import check_runner
from exacthead.selection import Asked
from exacthead.tables import Job, Leg, Runner

if TYPE_CHECKING:
    from unit.exacthead.preflight.conftest import Broken


def test_what_can_work_has_no_problem(broken: Broken) -> None:
    assert broken.problems() == []


def test_a_job_that_asks_for_too_much_is_refused_with_both_numbers() -> None:
    job = Job(
        script="s",
        contract="c",
        level="L3",
        timeout_s=1,
        cpus=4,
        memory_gb=8,
        accelerators=1,
        legs={"a": Leg(workers={})},
    )

    large, small = Runner(cpus=4, memory_gb=8, accelerators=1), Runner(cpus=2, memory_gb=16)
    assert list(check_runner("j", job, "large", large)) == []
    (problem,) = check_runner("j", job, "small", small)
    assert problem.found == "cpus: asks 4, small has 2; accelerators: asks 1, small has 0"


def test_four_devices_asked_of_two(broken: Broken) -> None:
    """A dispatch that failed: the recipe's actors sum up to more than the machine has."""
    broken.write(recipes__train_DOT_json='{"base": "recipes/base.json", "engines": 3,'
                 ' "data": "fixtures/own.jsonl"}')  # fmt: skip

    problem = broken.only(Asked(legs=("plain",)))

    assert problem.check == "recipes"
    assert problem.found == "1 ranks + 3 engines x 1 tensor parallel = 4 CPUs, cpus is 2"


def test_a_cluster_that_is_larger_than_its_job_declares_shows_the_sum(broken: Broken) -> None:
    broken.write(recipes__train_DOT_json='{"base": "recipes/base.json", "cpus": 4, "parallel": 3,'
                 ' "accelerators": 1, "data": "fixtures/own.jsonl"}')  # fmt: skip

    problem = broken.only(Asked(legs=("plain",)))

    total = "1 ranks + 1 engines x 3 tensor parallel = 4"
    assert problem.check == "resources"
    assert problem.found == (
        f"cpus: its Ray cluster asks 4 ({total}), the job declares 2;"
        f" accelerators: its Ray cluster asks 1 ({total}), the job declares 0"
    )


def test_a_job_that_is_larger_than_the_runner_is_refused_once_for_all_legs(broken: Broken) -> None:
    broken.declare("memory_gb = 1\n", "memory_gb = 5\n")

    problem = broken.only()

    assert problem.asked == "run job 'train' on runner 'small'"
    assert problem.found == "memory in GB: asks 5, small has 4"
