"""What the chaos job says of a run: each thing that may not happen is seen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from functional.faults.check import ending, trained
from functional.faults.inject import from_the_start
from functional.faults.legs import LEGS, Leg

if TYPE_CHECKING:
    from pathlib import Path

DEATH = "posttrain: both engines\n  found: generation-0 died\n  to do: see its log\n"
ENDS = Leg(from_the_start, said="generation-0 died")
LIVES = Leg(from_the_start, placeholders={"gate_late": 1})
STEP = {
    "controller/groups_trained": 2,
    "controller/placeholders": 1,
    "capture/placeholders": 1,
    "capture/placeholders/gate_late": 1,
    "dataplane/0/rows": 3,
    "dataplane/1/rows": 1,
}


def run(folder: Path, samples: list[float], *steps: dict[str, Any]) -> Path:
    lines = {
        "metrics.jsonl": [{"step": number, **it} for number, it in enumerate(steps, start=1)],
        "samples.jsonl": [{"step": 1, "reward": reward} for reward in samples],
    }
    for name, each in lines.items():
        (folder / name).write_text("".join(json.dumps(it) + "\n" for it in each), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("code", "printed", "expected"),
    [
        (1, f"[ 1 s] start\nposttrain: model.path: x\n{DEATH}", (1, 1)),
        (1, DEATH.replace("-0", "-1"), (1, 0)),
        (1, "Traceback: generation-0 died\n", (1, 0)),
        (1, DEATH + "Traceback\n", (1, 0)),
        (0, "", (0, 0)),
        (-1, DEATH, (0, 1)),
    ],
)
def test_a_run_that_must_end_with_its_fault(
    code: int, printed: str, expected: tuple[int, int]
) -> None:
    found = ending(code, printed, ENDS)
    assert (found["chaos/ended_as_expected"], found["chaos/cause_named"]) == expected


@pytest.mark.parametrize(("code", "printed", "named"), [(0, "posttrain: x: y\n", 1), (1, DEATH, 0)])
def test_a_run_that_must_live_on(code: int, printed: str, named: int) -> None:
    found = ending(code, printed, LIVES)
    assert (found["chaos/ended_as_expected"], found["chaos/cause_named"]) == (1 - code, named)


def test_a_run_that_lived_on_as_it_should(tmp_path: Path) -> None:
    found = trained(run(tmp_path, [1.0] * 3, STEP), LIVES, per_prompt=2)
    assert found["chaos/placeholders_as_expected"] == 1
    assert found["chaos/zero_rewards_trained"] == 0
    assert found["chaos/placeholders_trained"] == 0
    assert found["chaos/rows_left"] == 0


@pytest.mark.parametrize(
    ("samples", "changed", "wrong"),
    [
        ([1.0, 1.0, 0.0], {}, {"chaos/zero_rewards_trained": 1}),
        ([1.0] * 4, {}, {"chaos/placeholders_trained": 1}),
        ([1.0] * 3, {"dataplane/1/rows": 2}, {"chaos/rows_left": 1}),
        (
            [1.0] * 3,
            {"capture/placeholders/gate_late": 2},
            {"chaos/placeholders_as_expected": 0},
        ),
        (
            [1.0] * 3,
            {"capture/placeholders/staging_dead": 1},
            {"chaos/placeholders_as_expected": 0},
        ),
    ],
)
def test_what_may_not_be_is_seen(
    tmp_path: Path, samples: list[float], changed: dict[str, int], wrong: dict[str, int]
) -> None:
    right = trained(run(tmp_path, [1.0] * 3, STEP), LIVES, per_prompt=2)
    found = trained(run(tmp_path, samples, STEP | changed), LIVES, per_prompt=2)
    names = ("placeholders_as_expected", "zero_rewards_trained", "placeholders_trained")
    names = (*names, "rows_left")
    assert {f"chaos/{it}": found[f"chaos/{it}"] for it in names} == {
        f"chaos/{it}": right[f"chaos/{it}"] for it in names
    } | wrong


def test_a_run_that_trained_nothing(tmp_path: Path) -> None:
    found = trained(tmp_path, ENDS, per_prompt=2)
    assert found["chaos/steps"] == found["chaos/samples"] == found["chaos/rows_left"] == 0
    assert found["chaos/placeholders_as_expected"] == 1
    assert trained(tmp_path, LIVES, per_prompt=2)["chaos/placeholders_as_expected"] == 0


def test_every_leg_says_how_it_ends() -> None:
    for leg in LEGS.values():
        assert bool(leg.said) != bool(leg.placeholders)
        assert bool(leg.budget) == bool(leg.placeholders)
