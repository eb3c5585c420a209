"""Keys that an entry point would ignore are errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from posttrain.config.keys import (
    Section,
    documented_keys,
    honoured_by,
    schema_keys,
    table,
)
from posttrain.config.load import load_schema
from posttrain.config.text import (
    Leaf,
    parse_file,
)
from posttrain.config.training import SingleRecipe, TrainRecipe
from posttrain.errors import RecipeError
from unit.posttrain.plain.config.recipes import (
    GIVEN,
    GYM_TRAINING,
    SMALL,
    Capture,
    Shared,
    Small,
    refused,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_a_key_that_the_entry_point_would_ignore_is_refused_and_says_who_honours_it(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, main="seed: 1\ncapture:\n  folder: x\n")
    with pytest.raises(RecipeError) as caught:
        load_schema(Shared, path, entry="train")
    expected = f"capture.folder: 'train' would ignore it; honoured by 'controller' ({path}:3)"
    assert expected in str(caught.value)
    recipe = load_schema(Shared, path, entry="controller").recipe
    assert recipe.capture == Capture(folder="x")


def test_a_key_is_asked_for_only_by_the_entry_points_that_honour_it(tmp_path: Path) -> None:
    path = write(tmp_path, main="seed: 1\n")
    assert load_schema(Shared, path, entry="train").recipe.capture is None
    with pytest.raises(RecipeError, match=r"capture\.folder: missing"):
        load_schema(Shared, path, entry="controller")


def test_a_file_reads_as_leaves_with_lines() -> None:
    layer = parse_file("a:\n  b: 1\n\n  c: [1]\n", "r.yaml")
    assert layer.leaves == {"a.b": Leaf(1, "r.yaml:2"), "a.c": Leaf([1], "r.yaml:4")}
    assert layer.defaults.value == []


class Check(Section):
    seed: int
    judge: str


BOTH = {"train": Small, "verify": Check}


def test_a_key_of_another_entry_points_schema_is_an_error_that_names_its_readers(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, main="seed: 1\njudge: x\ninner:\n  lr: 1\n")
    with pytest.raises(RecipeError) as caught:
        load_schema(Check, path, ["on=true", "sede=1"], "verify", BOTH)
    message = str(caught.value)
    assert f"inner.lr: 'verify' would ignore it; honoured by 'train' ({path}:4)" in message
    assert "on: 'verify' would ignore it; honoured by 'train' (command line)" in message
    assert "sede: unknown key; did you mean 'seed'? (command line)" in message


def test_all_readers_of_a_key_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, main="seed: 1\nlabel: x\n")
    three = {**BOTH, "show": Small}
    with pytest.raises(RecipeError, match=r"label: 'verify' .*honoured by 'train', 'show'"):
        load_schema(Check, path, (), "verify", three)


def test_a_shared_file_may_say_what_other_entry_points_read(tmp_path: Path) -> None:
    shared = "shared: true\n" + SMALL + "judge: x\n"
    path = write(tmp_path, base=shared, main="defaults: base.yaml\nseed: 2\n")
    assert load_schema(Check, path, (), "verify", BOTH).recipe == Check(seed=2, judge="x")
    assert load_schema(Small, path, (), "train", BOTH).recipe.seed == 2
    with pytest.raises(RecipeError, match="label: 'verify' would ignore it"):
        load_schema(Check, path, ["label=y"], "verify", BOTH)


def test_a_shared_file_may_not_say_what_nobody_reads(tmp_path: Path) -> None:
    path = write(tmp_path, main="shared: true\n" + SMALL + "sede: 2\n")
    assert "sede: unknown key" in refused(path)
    assert "shared: takes `true` or `false`; found yes" in refused(
        write(tmp_path, main=SMALL + "shared: yes\n")
    )


def test_the_documentation_names_the_readers_of_what_not_everybody_reads() -> None:
    lines = table(documented_keys(BOTH)).splitlines()
    assert "| `seed` | whole number |  | all |" in lines
    assert "| `judge` | text |  | `verify` |" in lines
    assert "| `inner.lr` | number |  | `train` |" in lines


def test_every_key_of_the_training_recipe_is_honoured_by_train() -> None:
    assert all(key.honoured("train") for key in schema_keys(TrainRecipe).values())


def single(*overrides: str) -> SingleRecipe:
    arguments = [*GIVEN, *overrides]
    return load_schema(SingleRecipe, GYM_TRAINING, arguments, "single_controller").recipe


def test_an_entry_point_that_does_not_use_the_data_plane_refuses_the_recipe(
    tmp_path: Path,
) -> None:
    message = refused(GYM_TRAINING, *GIVEN, "dataplane.kind=transfer_queue", schema=TrainRecipe)
    ignored = "dataplane.kind: an entry point whose rows never leave its memory would ignore it"
    assert f"{ignored}; honoured by 'single_controller'" in message
    # Not even a file that is shared may say it: it would be a fall back that nobody sees.
    shared = write(
        tmp_path,
        main=f"shared: true\ndefaults: {GYM_TRAINING}\ndataplane:\n  kind: transfer_queue\n",
    )
    assert "main.yaml:4" in refused(shared, *GIVEN, schema=TrainRecipe)
    assert single("dataplane.kind=transfer_queue").dataplane.kind == "transfer_queue"


@pytest.mark.parametrize(
    "key", ["dataplane.storage_units=3", "dataplane.deadline_s=1", "controller.staleness=1"]
)
def test_keys_of_the_single_controller_are_errors_for_train(key: str) -> None:
    message = refused(GYM_TRAINING, *GIVEN, key, schema=TrainRecipe)
    name = key.split("=", maxsplit=1)[0]
    assert f"{name}: 'train' would ignore it; honoured by 'single_controller'" in message


def test_checkpoints_are_an_error_for_the_single_controller() -> None:
    with pytest.raises(RecipeError, match=r"checkpoint\.every: .* would ignore it"):
        single("checkpoint.every=1")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["rollouts.per_prompt=9"], "rollouts.concurrency: the 9 rollouts of a prompt"),
        (
            ["dataplane.kind=transfer_queue", "dataplane.storage_units=1"],
            "dataplane.storage_units: `transfer_queue` spreads rows over at least 2",
        ),
        *(
            (
                ["dataplane.kind=transfer_queue", f"dataplane.deadline_s={seconds}"],
                "dataplane.deadline_s: `transfer_queue` keeps deadlines of 3 to 120 s",
            )
            for seconds in (2.9, 121)
        ),
        (["cluster.accelerators=2"], "generation.colocated: engines that hand their accelerators"),
        (["controller.staleness=-1"], "controller.staleness: takes whole number, at least 0"),
        (["controller.stall_s=0"], "controller.stall_s: takes number, above 0"),
    ],
)
def test_a_single_controller_that_cannot_work_is_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(RecipeError) as caught:
        single(*overrides)
    assert words in str(caught.value)


def test_a_mark_without_an_entry_point_is_refused() -> None:
    with pytest.raises(ValueError, match="needs an entry point"):
        honoured_by()
