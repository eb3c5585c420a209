"""Interpreters that cannot serve are named before Ray is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from posttrain.config.load import load_schema
from posttrain.config.training import SingleRecipe
from posttrain.errors import RecipeError
from posttrain.interpreters import NEEDED, check_interpreters, libraries

RECIPE = Path(__file__).resolve().parents[3] / "functional" / "recipes" / "gym_training.yaml"


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """A program in place of an interpreter, which a test fills."""
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_an_interpreter_with_its_libraries_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEEDED, "policy", ("json",))
    check_interpreters({"policy": sys.executable})


def test_every_interpreter_that_lacks_something_is_named_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(NEEDED, "policy", ("json", "no_such_library", "nor_this"))
    with pytest.raises(RecipeError) as refusal:
        check_interpreters({"policy": sys.executable, "gym": str(tmp_path / "nowhere")})
    assert f"interpreters.policy {sys.executable}: without no_such_library, nor_this" in str(
        refusal.value
    )
    assert f"interpreters.gym {tmp_path / 'nowhere'}: No such file" in str(refusal.value)


def test_what_only_this_recipe_needs_is_looked_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEEDED, "generation", ("json",))
    check_interpreters({"generation": sys.executable}, {"policy": ["no_such_library"]})
    with pytest.raises(RecipeError, match="without no_such_library"):
        check_interpreters({"generation": sys.executable}, {"generation": ["no_such_library"]})


CAPTURED = (
    "token_capture={enabled: true, deadline_s: 10, gate_memory_mb: 1024, turns: 2}",
    "dataplane.kind=transfer_queue",
)


@pytest.mark.parametrize(
    ("overrides", "policy", "generation"),
    [
        ((), [], []),
        (CAPTURED[1:], ["transfer_queue"], []),
        (CAPTURED, ["transfer_queue", "nemo_gym"], ["nemo_gym", "transfer_queue"]),
    ],
)
def test_capture_and_its_data_plane_need_their_libraries(
    overrides: tuple[str, ...], policy: list[str], generation: list[str]
) -> None:
    given = ["run.dir=x", *(f"interpreters.{kind}=x" for kind in ("policy", "generation", "gym"))]
    loaded = load_schema(SingleRecipe, RECIPE, [*given, *overrides], "single_controller")
    assert libraries(loaded.recipe) == {"policy": policy, "generation": generation}


def test_another_minor_version_of_python_cannot_join_the_cluster(interpreter: Path) -> None:
    interpreter.write_text("#!/bin/sh\necho '[[3, 7], []]'\n")
    check_interpreters({"gym": str(interpreter)})
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    with pytest.raises(RecipeError, match=rf"Python 3\.7, but the driver is {ours}"):
        check_interpreters({"generation": str(interpreter)})


def test_an_interpreter_that_fails_is_quoted(interpreter: Path) -> None:
    interpreter.write_text("#!/bin/sh\necho no such encoding >&2\nexit 3\n")
    with pytest.raises(RecipeError, match="exit code 3: no such encoding"):
        check_interpreters({"policy": str(interpreter)})
