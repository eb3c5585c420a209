"""Saving and resuming two real ranks: to the bit, whole or not at all."""

from __future__ import annotations

import dataclasses
import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

from posttrain.checkpoint.manifest import CheckpointError, Saved, content_of
from posttrain.data import Row
from posttrain.dataset import Position, Prompts
from posttrain.model.load import load_model
from posttrain.policy.schedule import Schedule
from posttrain.sampling import Distribution
from unit.posttrain.policy.saved_state import assert_same, content

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from posttrain.policy.options import PolicyOptions
    from posttrain.sample import Sample

OWN = Distribution()
ANSWERS = ("2 + 2 = \\boxed{4}", "3 + 5 = \\boxed{7}", "four")


@pytest.fixture(scope="module")
def samples(make_sample: Callable[..., Sample]) -> list[Sample]:
    return [make_sample(index % 2, answer) for index, answer in enumerate(ANSWERS)]


@pytest.fixture
def falling(options: PolicyOptions) -> PolicyOptions:
    return dataclasses.replace(
        options,
        adam_epsilon=1e-8,
        schedule=Schedule("cosine", warmup_steps=2, steps=6),
    )


def prompts() -> Prompts:
    return Prompts([Row(index, {}) for index in range(3)], 2, shuffle=True, seed=5)


def step(samples: list[Sample], source: Prompts, number: int) -> tuple[Any, ...]:
    chosen = [samples[row.index] for row in source.take()]
    advantages = [
        [0.5 * number - index] * len(it.completion_ids) for index, it in enumerate(chosen)
    ]
    return ("train_step", chosen, advantages, [list(it.logprobs) for it in chosen], OWN)


def test_a_resumed_policy_takes_the_same_steps_to_the_bit_as_one_that_went_straight_on(
    ranks: Any, falling: PolicyOptions, samples: list[Sample], tmp_path: Path
) -> None:
    ways = {name: tmp_path / name for name in ("half", "straight", "resumed")}
    for folder in ways.values():
        folder.mkdir()
    source = prompts()
    steps = [step(samples, source, number) for number in range(1, 5)]
    source = prompts()
    for number in (1, 2):
        step(samples, source, number)
    resumed_source = prompts()
    resumed_source.resume(Position(**dataclasses.asdict(source.position)))
    rest = [step(samples, resumed_source, number) for number in (3, 4)]
    assert rest == steps[2:]

    straight = ranks.run(falling, *steps, ("checksum",), ("save_checkpoint", ways["straight"]))
    half = ranks.run(
        falling, *steps[:2], ("checksum",), ("save_checkpoint", ways["half"]), ("checksum",)
    )
    resumed = ranks.run(
        falling,
        ("load_checkpoint", ways["half"]),
        ("checksum",),
        *rest,
        ("checksum",),
        ("save_checkpoint", ways["resumed"]),
    )

    assert half[0][:2] == straight[0][:2]
    assert half[0][2] == half[0][4] == resumed[0][1] != ""
    assert [resumed[rank][0] for rank in range(2)] == [2, 2]
    assert resumed[0][2:5] == straight[0][2:5]
    rates = [metrics["lr"] / falling.learning_rate for metrics in straight[0][:4]]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.853553], rel=1e-5)
    everything = assert_same(ways["straight"], ways["resumed"])
    moments = [name for name in everything if name.endswith("exp_avg_sq")]
    weights = [name for name in everything if name.startswith("/model/")]
    assert len(moments) == len(weights) > 10
    assert everything["/scheduler/last_epoch"] == 4


def test_saving_changes_nothing_and_says_what_was_written(
    ranks: Any, falling: PolicyOptions, samples: list[Sample], tmp_path: Path
) -> None:
    source = prompts()
    first, second = (step(samples, source, number) for number in (1, 2))
    saving = ranks.run(falling, first, ("save_checkpoint", tmp_path), second, ("checksum",))
    plain = ranks.run(falling, first, second, ("checksum",))
    assert saving[0][2:] == plain[0][1:]
    told: dict[str, Any] = {}
    for rank in range(2):
        saved = saving[rank][1]
        assert isinstance(saved, Saved)
        assert saved.versions == {"torch": torch.__version__}
        told |= saved.files
    there = {path.name: content_of(path) for path in tmp_path.iterdir()}
    assert told == there
    assert set(there) == {".metadata", "__0_0.distcp", "__1_0.distcp"}


def test_random_generators_go_on_and_not_from_the_seed_again(
    ranks: Any, falling: PolicyOptions, samples: list[Sample], tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("first", "second", "other")]
    for folder in folders:
        folder.mkdir()
    taken = step(samples, prompts(), 1)
    ranks.run(falling, taken, ("save_checkpoint", folders[0]))
    other = dataclasses.replace(falling, seed=99)
    ranks.run(other, taken, ("save_checkpoint", folders[2]))
    ranks.run(other, ("load_checkpoint", folders[0]), ("save_checkpoint", folders[1]))
    everything = assert_same(folders[0], folders[1])
    names = [name for name in everything if name.startswith("/generators/")]
    assert {name.split("/")[2] for name in names} == {"0", "1"}
    before, after = content(folders[0]), content(folders[2])
    assert not torch.equal(before["/generators/0/torch"], after["/generators/0/torch"])


def test_what_a_rank_cannot_read_is_told_by_all_in_the_stacks_words(
    ranks: Any, falling: PolicyOptions, samples: list[Sample], tmp_path: Path
) -> None:
    ranks.run(falling, step(samples, prompts(), 1), ("save_checkpoint", tmp_path))
    (tmp_path / "__1_0.distcp").unlink()
    results = ranks.run(falling, ("load_checkpoint", tmp_path))
    for rank in range(2):
        (error,) = results[rank]
        assert isinstance(error, CheckpointError)
        assert "rank 1: FileNotFoundError" in error.found
        assert "Traceback" not in str(error)


def test_a_disk_that_takes_no_more_is_told_by_all_ranks_and_the_policy_could_go_on(
    ranks: Any, falling: PolicyOptions, samples: list[Sample], tmp_path: Path
) -> None:
    source = prompts()
    first, second = (step(samples, source, number) for number in (1, 2))
    pid = ranks._processes[1].pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    try:
        results = ranks.run(falling, first, ("save_checkpoint", tmp_path), second, ("checksum",))
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    plain = ranks.run(falling, first, second, ("checksum",))
    for rank in range(2):
        error = results[rank][1]
        assert isinstance(error, CheckpointError)
        assert "write the training state" in error.asked
        assert "rank 1: " in error.found
        assert "MiB are free there" in error.found
    assert results[0][2:] == plain[0][1:]


def test_ranks_that_are_killed_while_they_save_go_on_from_the_former_one_to_the_same_end(
    tiny_llama: Path, repository: Path, tmp_path: Path
) -> None:
    program = repository / "unit/posttrain/policy/killed_save.py"
    # What is killed cannot tell what it ran.
    unmeasured = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, program, tiny_llama, tmp_path],
        cwd=repository,
        env={"PYTHONPATH": str(repository), **unmeasured, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    straight, *rest = done.stdout.splitlines()
    # Step 1 is whole, step 2 is not there, and nothing is damaged or left over.
    assert rest[::2] == ["open killed 1 0 ['step-0000']"] * 2
    assert rest[1::2] == [straight.replace("straight", "resumed")] * 2
    assert len(straight.split()[1]) == 64


def test_weights_that_share_memory_go_on_sharing_it(
    ranks: Any, falling: PolicyOptions, samples: list[Sample], tiny_llama: Path, tmp_path: Path
) -> None:
    model = load_model(tiny_llama)
    model.config.tie_word_embeddings = True
    model.tie_weights()
    model.save_pretrained(tmp_path / "tied")
    tied = dataclasses.replace(falling, model=tmp_path / "tied")
    (tmp_path / "saved").mkdir()
    source = prompts()
    first, second = (step(samples, source, number) for number in (1, 2))
    straight = ranks.run(tied, first, second, ("checksum",))
    ranks.run(tied, first, ("save_checkpoint", tmp_path / "saved"))
    resumed = ranks.run(tied, ("load_checkpoint", tmp_path / "saved"), second, ("checksum",))
    assert resumed[0][1:] == straight[0][1:]
