"""Workers that cannot be what their items need."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from exacthead.selection import Asked

if TYPE_CHECKING:
    from unit.exacthead.preflight.conftest import Broken

CAPTURE = Asked(legs=("capture",))


def test_a_stale_lock(broken: Broken) -> None:
    path = broken.root / "ci/harness.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('["ray", "nemo-gym"]', '["ray", "nemo-gym", "new"]'), "utf-8")

    found = broken.problems()

    assert [problem.asked for problem in found] == [
        "the lock locks/stager-cpu.txt",
        "the lock locks/trainer-cpu.txt",
    ]
    assert all("stale" in problem.found for problem in found)


def test_a_worker_environment_that_is_older_than_the_flag_that_needs_it(broken: Broken) -> None:
    """A dispatch that failed: the flag was new, and the environment was that of the day before."""
    broken.pins["stager"] = {"nemo-gym": "0.6.2"}
    broken.lock()

    problem = broken.only()

    assert problem.asked == "leg train.capture: nemo-gym>=0.7 in worker 'stager'"
    assert problem.found == "it has 0.6.2"
    assert broken.problems(Asked(legs=("plain",))) == []


def test_packages_of_a_role_that_is_none_and_a_requirement_that_is_none(broken: Broken) -> None:
    broken.declare(
        'packages = { generation = ["nemo-gym>=0.7"] }',
        'packages = { generator = ["x"], generation = ["vllm", "ray >> 1"] }',
    )

    found = broken.problems(CAPTURE)

    assert found[0].todo == "did you mean 'generation'?"
    assert found[1].found == "it has no vllm"
    assert "that is no requirement" in found[2].found


def test_a_provided_worker_that_lacks_what_it_declares(broken: Broken) -> None:
    broken.declare(
        f'provided = "{sys.executable}"\n',
        f'provided = "{sys.executable}"\nrequirements = ["pytest>=999"]\n',
    )
    broken.declare('worker = "trainer"\n', 'worker = "asker"\n')

    found = broken.problems(Asked(suites=("sums",)))

    assert len(found) == 1
    assert "pytest" in found[0].found


def test_probes_that_name_nothing(broken: Broken) -> None:
    broken.declare('probes = ["ray", "torch"]', 'probes = ["ray", "nemo-gym", "a..b", ""]')

    found = {problem.asked: problem.found for problem in broken.problems(Asked(suites=("sums",)))}

    assert found == {
        "worker 'trainer': probes that name modules": "no module can be called"
        " 'nemo-gym', 'a..b', ''"
    }


def test_a_worker_without_ray_where_an_actor_needs_it(broken: Broken) -> None:
    broken.declare('probes = ["ray", "torch"]', 'probes = ["torch"]')

    found = broken.problems(Asked(legs=("plain",)))

    assert [problem.asked for problem in found] == [
        "leg train.plain: worker 'trainer' as policy, which imports ray",
        "leg train.plain: worker 'trainer' as generation, which imports ray",
    ]
    assert found[0].found == "no probe of it proves that: torch"


def test_a_leg_whose_worker_has_not_what_its_flag_imports(broken: Broken) -> None:
    broken.declare('generation = "stager" }', 'generation = "trainer" }')

    problem = broken.only()

    assert problem.asked.endswith("worker 'trainer' as generation, which imports nemo_gym")


def test_a_kind_of_process_that_no_role_plays(broken: Broken) -> None:
    broken.declare(
        'workers = { policy = "trainer", generation = "stager" }',
        'workers = { policy = "trainer", engines = "stager" }',
    )
    found = broken.problems(CAPTURE)
    assert found[0].asked == "leg train.capture: a worker for generation"

    broken.declare('overrides = ["capture=true"]', 'overrides = ["capture=true"]\n'
                   'kinds = { generation = "engines" }')  # fmt: skip
    broken.declare("packages = { generation =", "packages = { engines =")
    assert broken.problems(CAPTURE) == []
