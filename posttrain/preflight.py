"""What can be known of recipes before anything is started: ``python -m posttrain.preflight``.

Questions are read from standard input and answered on standard output, a JSON list each. Nothing
is imported that is heavier than what reads a recipe, so that a harness can ask before it has built
the workers of a job.

A question: ``recipe`` (path), ``entry`` (name of the entry point), ``overrides`` (``key=value``).
What the launcher gives (``run.dir``, ``interpreters.*``) need not be there.

An answer: ``problems`` (each ``asked``, ``found``, ``todo``); unless the recipe cannot be read also
``values`` (dotted key -> value), ``cluster`` (``cpus``, ``accelerators`` of its Ray cluster, zeros
without one), ``sum`` (which devices its actors need, in words; empty without actors), ``modules``
(kind of process -> what it imports first), ``ports`` (fixed ones), and ``metrics`` (regular
expressions of the names that the run can write).
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.config.acceptance import AcceptRecipe, VerifyRecipe
from posttrain.config.entries import ENTRY_POINTS
from posttrain.config.keys import schema_keys
from posttrain.config.load import load_schema
from posttrain.config.schema import Recipe
from posttrain.config.training import SingleRecipe
from posttrain.data import check_agent, read_objects, read_rows
from posttrain.errors import RecipeError, StackError
from posttrain.interpreters import NEEDED, libraries
from posttrain.metrics.emitted import emitted
from posttrain.nearest import nearest
from posttrain.placement import (
    check_parallel,
    check_transport,
    engines_demand,
    plan_devices,
    plan_engines,
    training_demand,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from posttrain.config import Loaded

_GIVEN = ("run.dir", "interpreters.")


def main() -> int:
    """Answer every question; a recipe that cannot work is an answer, and no failure."""
    answers = [answer(**question) for question in json.load(sys.stdin)]
    json.dump(answers, sys.stdout)
    return 0


def answer(recipe: str, entry: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The answer to one question, as the module describes it."""
    try:
        loaded = _load(recipe, entry, overrides)
    except StackError as error:
        return {"problems": [_as_data(error)]}
    read = loaded.recipe
    values = {value.path: value.value for value in loaded.values}
    return {
        "problems": [_as_data(error) for error in _problems(read, values)],
        "values": values,
        "cluster": {
            "cpus": values.get("cluster.cpus", 0),
            "accelerators": values.get("cluster.accelerators", 0),
        },
        "sum": _sum(read),
        "modules": _modules(read),
        "ports": list(values.get("generation.ports", ())),
        "metrics": emitted(entry, values),
    }


def _load(recipe: str, entry: str, overrides: Sequence[str]) -> Loaded[Any]:
    if entry not in ENTRY_POINTS:
        raise RecipeError(
            f"the entry point {entry!r} of {recipe}", "no such one", nearest(entry, ENTRY_POINTS)
        )
    schema = ENTRY_POINTS[entry]
    given = [f"{key}=given" for key in schema_keys(schema) if key.startswith(_GIVEN)]
    return load_schema(schema, Path(recipe), [*given, *overrides], entry)


def _problems(recipe: Any, values: Mapping[str, Any]) -> Iterator[StackError]:
    """Every refusal of the stack's own that needs nothing but the recipe and its datasets."""
    checks: list[Callable[[], object]] = []
    if isinstance(recipe, Recipe):
        checks += [
            lambda: plan_devices(recipe),
            lambda: check_transport(recipe),
            lambda: check_parallel(recipe),
        ]
        datasets = dict.fromkeys((recipe.data.train, recipe.data.validation))
        for dataset in datasets:
            # Rows for another agent are the wrong dataset, whatever its name is.
            checks.append(partial(_check_rows, dataset, recipe.environment.agent))
    elif isinstance(recipe, AcceptRecipe):
        checks += [lambda: plan_engines(recipe), lambda: read_rows(Path(recipe.data.rollouts))]
    elif isinstance(recipe, VerifyRecipe):
        checks.append(lambda: read_objects(Path(recipe.data.answers)))
    path = values.get("model.path", "")
    if str(values.get("model.revision", "")).startswith("sha256:"):
        checks.append(lambda: _check_folder(path))
    for check in checks:
        try:
            check()
        except StackError as error:
            yield error


def _sum(recipe: Any) -> str:
    if isinstance(recipe, Recipe):
        return training_demand(recipe).arithmetic
    return engines_demand(recipe).arithmetic if isinstance(recipe, AcceptRecipe) else ""


def _check_rows(dataset: str, agent: str) -> None:
    check_agent(read_rows(Path(dataset)), agent)


def _check_folder(path: str) -> None:
    if not Path(path).is_dir():
        raise RecipeError(f"the model {path}", "no such folder", "correct model.path")


def _modules(recipe: Any) -> dict[str, list[str]]:
    kinds = type(recipe.interpreters).model_fields
    also = libraries(recipe) if isinstance(recipe, SingleRecipe) else {}
    return {kind: [*NEEDED[kind], *also.get(kind, ())] for kind in kinds}


def _as_data(error: StackError) -> dict[str, str]:
    return {"asked": error.asked, "found": error.found, "todo": error.todo}


if __name__ == "__main__":
    sys.exit(main())
