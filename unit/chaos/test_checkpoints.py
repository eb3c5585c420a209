"""A run that is killed goes on from its last whole checkpoint, to the same end to the bit."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

from posttrain.checkpoint.manifest import check_whole
from unit.chaos.tree import FAR_S, ROOT
from unit.posttrain.policy.saved_state import assert_same

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unit.chaos.tree import Training

KEYS = (
    "run.steps=4",
    "checkpoint.every=1",
    "checkpoint.keep=3",
    "data.prompts_per_step=2",
    "rollouts.per_prompt=2",
    # One at a time: what is computed together decides the last bit of what an engine reports.
    "rollouts.concurrency=1",
    "generation.workers=1",
    "generation.temperature=1.0",
    "policy.lr=1e-3",
    "policy.schedule={kind: cosine, warmup_steps: 1, steps: 8}",
)


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    """What must be the same in both: all but times and what only a resumed run has to say."""
    return {key: it for key, it in line.items() if not key.startswith(("timing/", "checkpoint/"))}


def samples(run: Training) -> list[str]:
    return (run.folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()


def succeeds(run: Training) -> Training:
    assert run.wait(FAR_S) == 0, run.printed()
    run.nothing_is_left()
    return run


def test_a_killed_run_goes_on_to_the_bit_and_passes_over_a_damaged_checkpoint_aloud(
    train: Callable[..., Training], tmp_path: Path, measured: Callable[[str], None]
) -> None:
    rows = (ROOT / "fixtures/gym_math.jsonl").read_text(encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text(rows * 2, encoding="utf-8")
    keys = (*KEYS, f"data.train={tmp_path / 'rows.jsonl'}")
    straight = succeeds(train(*keys))
    expected = [without_times(line) for line in straight.metrics()]
    weights = [line["policy/checksum_after_step"] for line in expected]
    assert len(set(weights)) == 4

    folder = tmp_path / "killed"
    killed = train(*keys, folder=folder)
    # In the middle of its third step, with two checkpoints.
    killed.wait_for(r"(?s)(\] training: starts.*){3}")
    killed.process.send_signal(signal.SIGKILL)
    killed.end()
    assert [line["step"] for line in killed.metrics()] == [1, 2]

    resumed = succeeds(train(*keys, "checkpoint.resume=auto", folder=folder))
    lines = resumed.metrics()
    assert f"goes on after step 2 from {folder}/checkpoints/step-00000002" in resumed.printed()
    assert [line.get("checkpoint/resumed_step") for line in lines] == [None, None, 2, None]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert [without_times(line) for line in lines] == expected
    assert samples(resumed) == samples(straight)
    # The engines sampled the third step with the weights of the checkpoint, and its version.
    assert lines[2]["generation/0/checksum_before_refit"] == weights[1]
    assert lines[2]["refit/weight_version"] == 3
    ends = [each.folder / "checkpoints/step-00000004" for each in (straight, resumed)]
    assert check_whole(ends[0]).position == check_whole(ends[1]).position
    assert len(assert_same(ends[0] / "policy", ends[1] / "policy")) > 60

    shard = folder / "checkpoints/step-00000004/policy/__1_0.distcp"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    again = succeeds(train(*keys, "run.steps=5", "checkpoint.resume=auto", folder=folder))
    lines = again.metrics()
    said = again.printed()
    assert "WARNING: passed over a damaged checkpoint" in said
    assert "policy/__1_0.distcp: digest" in said
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    assert [line.get("checkpoint/damaged") for line in lines] == [None, None, 0, 1, None]
    assert [without_times(line) for line in lines[:4]] == expected
    kept = {path.name: check_whole(path).weights for path in folder.glob("checkpoints/step-*")}
    assert sorted(kept) == [f"step-0000000{step}" for step in (3, 4, 5)]
    assert kept["step-00000004"] == weights[3]

    done = succeeds(train(*keys, "run.steps=5", "checkpoint.resume=auto", folder=folder))
    assert "nothing to do" in done.printed()
    undone = (folder / "undone.metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in undone] == [4]
    measured(f"a checkpoint of the tiny model: {lines[-1]['timing/checkpoint']:.2f} s")
