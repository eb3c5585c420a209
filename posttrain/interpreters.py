"""Look at the interpreters of a recipe before Ray is given them.

Ray does not check: an environment without it hangs, and another minor version of Python dies with
an error that does not say so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from posttrain.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posttrain.config.training import SingleRecipe

# What each kind of process imports first. Found, not imported: that takes no time.
NEEDED = {
    "policy": ("ray", "torch", "transformers"),
    "generation": ("ray", "torch", "vllm"),
    "gym": ("nemo_gym", "math_verify"),
}
# Kinds whose objects cross processes by Ray, which takes one minor version of Python.
CLUSTERED = ("policy", "generation")
PROBE = (
    "import importlib.util, json, sys; "
    "print(json.dumps([sys.version_info[:2],"
    " [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]]))"
)
DEADLINE_S = 30.0


def libraries(recipe: SingleRecipe) -> dict[str, list[str]]:
    """What the recipe's processes import besides what those of every run do, by their kind."""
    policy: list[str] = []
    generation: list[str] = []
    if recipe.dataplane.kind == "transfer_queue":
        policy.append("transfer_queue")
    if recipe.token_capture.enabled:
        # The engines stage into the plane, with Gym's own code.
        policy.append("nemo_gym")
        generation += ["nemo_gym", "transfer_queue"]
    return {"policy": policy, "generation": generation}


def check_interpreters(
    pythons: Mapping[str, str], also: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Check that each kind's interpreter runs, fits the cluster, and has its libraries.

    Args:
        pythons: kind of process, as in `NEEDED`, to interpreter.
        also: what this recipe's processes import besides, by kind.

    Raises:
        RecipeError: naming every interpreter that cannot be used, and why.
    """
    more = also or {}
    started = {
        kind: _start(python, [*NEEDED[kind], *more.get(kind, ())])
        for kind, python in pythons.items()
    }
    problems = [
        f"interpreters.{kind} {pythons[kind]}: {problem}"
        for kind, probe in started.items()
        if (problem := _problem(kind, probe))
    ]
    if problems:
        raise RecipeError(
            "interpreters that hold what the recipe's processes import",
            "; ".join(problems),
            "give the workers' interpreters; `nox -s workers` builds them",
        )


def _start(python: str, names: Sequence[str]) -> subprocess.Popen[str] | OSError:
    try:
        return subprocess.Popen(
            [python, "-I", "-c", PROBE, *names],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    except OSError as error:
        return error


def _problem(kind: str, probe: subprocess.Popen[str] | OSError) -> str:
    """Say what is wrong; an empty text when nothing is."""
    if isinstance(probe, OSError):
        return probe.strerror or str(probe)
    with probe:
        try:
            out, said = probe.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            probe.kill()
            return f"no answer in {DEADLINE_S:g} s"
    if probe.returncode:
        return f"exit code {probe.returncode}: {said.strip()[-500:]}"
    version, missing = json.loads(out)
    problems = []
    ours = list(sys.version_info[:2])
    if kind in CLUSTERED and version != ours:
        problems.append(f"Python {version[0]}.{version[1]}, but the driver is {ours[0]}.{ours[1]}")
    if missing:
        problems.append(f"without {', '.join(missing)}")
    return ", ".join(problems)
