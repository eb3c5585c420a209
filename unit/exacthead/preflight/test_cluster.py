"""One Ray cluster: one minor version of Python, and no `uv run` that Ray would pass on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.selection import Asked

if TYPE_CHECKING:
    from unit.exacthead.preflight.conftest import Broken

PLAIN = Asked(legs=("plain",))


def test_python_minors_that_differ_inside_one_cluster(broken: Broken) -> None:
    broken.declare(
        '[workers.stager]\npython = "3.13"',
        '[workers.stager]\npython = "3.12"',
    )

    found = [each for each in broken.problems() if each.check == "cluster"]

    assert [problem.asked for problem in found] == [
        "leg train.capture: one minor version of Python in its Ray cluster"
    ]
    assert found[0].found == "policy (trainer) 3.13, generation (stager) 3.12"


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("source functional/lib.sh\nuv run python train.py\n", "functional/train.sh:2"),
        ("exec /usr/bin/env uv --quiet run train.py\n", "functional/train.sh:1"),
    ],
)
def test_uv_run_in_a_script(broken: Broken, script: str, place: str) -> None:
    broken.write(functional__train_DOT_sh=f"# functional/lib.sh\n. functional/lib.sh\n{script}")

    problem = broken.only()

    name, line = place.split(":")
    assert problem.asked == f"{name}:{int(line) + 2}"
    assert "uv" in problem.found


def test_uv_run_in_a_script_that_is_sourced_and_in_no_comment(broken: Broken) -> None:
    broken.write(
        functional__train_DOT_sh="source functional/lib.sh  # never uv run\n",
        functional__lib_DOT_sh='# uv run\nstart() { uv run "$@"; }\nmy-uv run\nuv running\n',
    )

    assert broken.only().asked == "functional/lib.sh:2"


def test_uv_run_by_variables_of_the_leg_and_the_worker_and_in_the_recipe(broken: Broken) -> None:
    broken.declare(
        'workers = { policy = "trainer", generation = "trainer" }',
        'workers = { policy = "trainer", generation = "trainer" }\n'
        'environment = { RAY_RUNTIME_ENV_HOOK = "uv_hook" }',
    )
    broken.declare('probes = ["ray", "torch"]', 'probes = ["ray", "torch"]\n'
                   'environment = { PYTHON = "uv run python" }')  # fmt: skip
    broken.write(recipes__train_DOT_json='{"base": "recipes/base.json", "python": "uv run -q",'
                 ' "data": "fixtures/own.jsonl"}')  # fmt: skip

    found = [problem.asked for problem in broken.problems(PLAIN)]

    assert found == [
        "leg train.plain: leg train.plain: RAY_RUNTIME_ENV_HOOK",
        "leg train.plain: worker 'trainer': PYTHON",
        "leg train.plain: recipe recipes/train.json: python",
    ]


def test_uv_run_inside_a_ray_runtime_environment_in_python(broken: Broken) -> None:
    line = 'ray.init(runtime_env={"py_executable": "uv run --isolated"})\n'
    broken.write(
        lib__start_DOT_py=f"import ray\n{line}",
        unit__sums__test_ray_DOT_py=f"import ray\n{line}",
    )

    assert broken.only().asked == "lib/start.py:2"
    assert broken.problems(Asked(suites=("sums",))) == []
