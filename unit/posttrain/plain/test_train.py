"""What a user sees when a training run is asked for something that cannot work.

Nothing here starts a process beyond the driver: all of it must be refused before that.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from posttrain.checkpoint.store import CheckpointStore
from unit.posttrain.plain.checkpoints import save

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
Run = subprocess.CompletedProcess[str]


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Run]:
    """A function that runs the main job's recipe with overrides and returns how it ended."""

    def run(*overrides: str, recipe: str = "functional/recipes/gym_training.yaml") -> Run:
        interpreters = [
            f"interpreters.{name}={sys.executable}" for name in ("policy", "generation", "gym")
        ]
        return subprocess.run(
            [
                *(sys.executable, "-m", "posttrain.train", recipe),
                *(f"run.dir={tmp_path / 'run'}", *interpreters, *overrides),
            ],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), **os.environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def refused(run: Run, *words: str) -> None:
    assert run.returncode == 1, run.stderr
    assert "\n  found: " in run.stderr
    assert "\n  to do: " in run.stderr
    for word in words:
        assert word in run.stderr
    assert "Traceback" not in run.stderr


def test_a_missing_model_is_refused_by_its_path(train: Callable[..., Run]) -> None:
    refused(train("model.path=fixtures/no-such-model"), "fixtures/no-such-model", "no such folder")


def test_a_model_of_another_revision_is_refused_with_both_digests(
    train: Callable[..., Run], tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(ROOT / "fixtures" / "tiny-llama", model)
    (model / "config.json").write_text((model / "config.json").read_text() + " ")
    run = train(f"model.path={model}")
    refused(run)
    assert run.stderr.count("sha256:") >= 2


SPLIT = "functional/recipes/gym_training_split.yaml"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "generation.workers=2",
            "1 policy rank + 2 generation workers x 1 tensor parallel = 3 CPUs, cluster.cpus is 2",
        ),
        (
            "policy.ranks=2",
            "2 policy ranks + 1 generation worker x 1 tensor parallel = 3 CPUs, cluster.cpus is 2",
        ),
        ("cluster.cpus=4096", "it asks for 4096 CPUs (cluster.cpus), the runner has "),
        ("refit.transport=shared_memory", "another machine, where this one's memory is not"),
    ],
)
def test_a_split_that_cannot_be_placed_is_refused_with_the_arithmetic(
    train: Callable[..., Run], override: str, words: str
) -> None:
    refused(train(override, recipe=SPLIT), words)


@pytest.mark.parametrize("revision", ["main", "abc1234", "v1.0"])
def test_a_revision_that_can_move_is_refused(train: Callable[..., Run], revision: str) -> None:
    refused(train(f"model.revision={revision}"), repr(revision))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ("no rows",)),
        ("{\n", ("line 1",)),
        ('{"responses_create_params": {"input": [{}]}, "question": "?"}\n', ("expected_answer",)),
    ],
)
def test_a_broken_dataset_is_refused_with_its_line(
    train: Callable[..., Run], tmp_path: Path, content: str, words: tuple[str, ...]
) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text(content)
    refused(train(f"data.train={data}"), str(data), *words)


def test_an_unknown_key_is_refused_with_the_nearest(train: Callable[..., Run]) -> None:
    refused(train("policy.learning_rte=1.0"), "policy.learning_rte", "command line")


def test_more_devices_than_the_cluster_has_are_refused_with_the_arithmetic(
    train: Callable[..., Run],
) -> None:
    refused(train("policy.ranks=3"), "3 policy ranks", "cluster.cpus is 2")


def test_more_devices_than_the_machine_has_are_refused(train: Callable[..., Run]) -> None:
    run = train("cluster.cpus=4096", "cluster.accelerators=64")
    refused(run, "4096 CPUs", "64 accelerators", "the runner has")


def test_a_row_for_another_agent_is_refused_before_anything_is_started(
    train: Callable[..., Run], tmp_path: Path
) -> None:
    data = tmp_path / "rows.jsonl"
    text = (ROOT / "fixtures" / "gym_math.jsonl").read_text(encoding="utf-8")
    data.write_text(text.replace("math_simple_agent", "coding_agent"), encoding="utf-8")
    run = train(f"data.validation={data}")
    refused(run, "row 0", "'math_simple_agent'", "'coding_agent'")
    assert "cluster: starts" not in run.stderr


def test_an_interpreter_that_is_not_there_is_refused_before_anything_is_started(
    train: Callable[..., Run], tmp_path: Path
) -> None:
    run = train(f"interpreters.policy={tmp_path / 'python'}")
    refused(run, f"interpreters.policy {tmp_path / 'python'}: No such file")
    assert "cluster: starts" not in run.stderr


def test_a_port_in_use_is_refused_before_anything_slow_starts(train: Callable[..., Run]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        run = train(f"generation.ports=[{port},{port - 1}]")
    refused(run, f"port {port} is in use by another process")
    assert "cluster: starts" not in run.stderr


def test_an_engine_over_several_accelerators_is_refused(train: Callable[..., Run]) -> None:
    run = train("cluster.accelerators=4", "generation.tensor_parallel=2", "policy.ranks=4")
    refused(run, "tensor_parallel 2", "accelerators 4")


def test_a_seed_that_a_generator_cannot_take_is_refused(train: Callable[..., Run]) -> None:
    refused(train(f"run.seed={2**32}"), "run.seed", "4294967296")


# In a process of its own: a run must prepare its environment before anything imports Ray.
INTO_AN_EARLIER_FOLDER = """
import sys
from pathlib import Path
from posttrain.checkpoint.keeper import plan_checkpoints
from posttrain.config import load_recipe
from posttrain.errors import StackError
from posttrain.launch import Checked
from posttrain.placement import plan_devices
from posttrain.train import train

folder = Path(sys.argv[1])
given = [f"interpreters.{kind}={sys.executable}" for kind in ("policy", "generation", "gym")]
path = Path("functional/recipes/gym_training.yaml")
recipe = load_recipe(path, [f"run.dir={folder}", *given]).recipe
try:
    places, saved = plan_devices(recipe), plan_checkpoints(recipe, [])
    train(Checked(recipe, places, folder, [], [], folder), saved, "mine")
except StackError as error:
    sys.exit(str(error))
"""


def test_a_folder_with_an_earlier_run_keeps_its_recipe(tmp_path: Path) -> None:
    for name in ("metrics.jsonl", "recipe.yaml"):
        (tmp_path / name).write_text("earlier\n")
    run = subprocess.run(
        [sys.executable, "-c", INTO_AN_EARLIER_FOLDER, str(tmp_path)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), **os.environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    refused(run, "metrics of an earlier run")
    assert "cluster: starts" not in run.stderr
    assert (tmp_path / "recipe.yaml").read_text() == "earlier\n"


def test_explain_names_the_file_and_line_of_an_inherited_dataset(
    train: Callable[..., Run], tmp_path: Path
) -> None:
    parent, child = tmp_path / "parent.yaml", tmp_path / "child.yaml"
    base = ROOT / "functional" / "recipes" / "gym_training.yaml"
    parent.write_text(f"defaults: {base}\ndata:\n  train: other.jsonl\n")
    child.write_text("defaults: parent.yaml\nrun:\n  seed: 3\n")
    run = train("--explain", recipe=str(child))
    assert run.returncode == 0, run.stderr
    line = next(line for line in run.stdout.splitlines() if line.strip().startswith("train:"))
    assert "other.jsonl" in line
    assert "parent.yaml:3" in line


def test_the_log_begins_with_the_data_and_model_and_what_of_it_is_inherited(
    train: Callable[..., Run], tmp_path: Path
) -> None:
    base = ROOT / "functional" / "recipes" / "gym_training.yaml"
    child = tmp_path / "child.yaml"
    # Meant to replace the rows to train on.
    child.write_text(f"defaults: {base}\ndata:\n  validation: {tmp_path}/mine.jsonl\n")
    run = train(recipe=str(child))
    refused(run, "mine.jsonl")
    lines = run.stderr.splitlines()
    assert lines[0].startswith("posttrain: model.path: fixtures/tiny-llama  # INHERITED from ")
    assert lines[2].startswith("posttrain: data.train: fixtures/gym_math.jsonl  # INHERITED from ")
    assert lines[3] == f"posttrain: data.validation: {tmp_path}/mine.jsonl  # {child}:3"


def test_a_run_that_differs_from_its_checkpoint_is_refused_before_anything_is_started(
    train: Callable[..., Run], tmp_path: Path
) -> None:
    store = CheckpointStore(tmp_path / "run" / "checkpoints")
    store.folder.mkdir(parents=True)
    save(store, 1)
    run = train("checkpoint.every=1", "checkpoint.resume=auto")
    refused(run, "step-00000001", "policy.lr: 0.001 there, 0.0001 now", "run.seed: not known there")
    assert "cluster: starts" not in run.stderr
    refused(train("checkpoint.every=1"), "step-00000001", "checkpoint.resume=auto")
