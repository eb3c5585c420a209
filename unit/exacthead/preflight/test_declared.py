"""Scripts, contracts, suites and gates: what harness.toml declares against what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.selection import Asked
from unit.exacthead.preflight.conftest import CHECK

if TYPE_CHECKING:
    from unit.exacthead.preflight.conftest import Broken

PLAIN = Asked(legs=("plain",))


def test_a_script_on_disk_that_no_job_names(broken: Broken) -> None:
    broken.write(functional__lost_DOT_sh="source functional/lib.sh\n")

    problem = broken.only(PLAIN)

    assert problem.asked == "script functional/lost.sh in a job"
    # A session without jobs starts none of them.
    assert broken.problems(Asked(suites=("sums",))) == []


def test_a_job_without_its_script(broken: Broken) -> None:
    (broken.root / "functional/train.sh").rename(broken.root / "functional/trainer.sh")

    found = broken.problems(PLAIN)

    assert found[0].asked == "job 'train': script functional/train.sh"
    assert "did you mean 'functional/trainer.sh'?" in found[0].found
    # What only the lost one names is lost with it.
    lost = [problem.asked for problem in found[1:]]
    assert lost == [f"script functional/{name}.sh in a job" for name in ("lib", "trainer")]


def test_a_contract_that_names_a_metric_no_recipe_can_emit(broken: Broken) -> None:
    staged = '[[check]]\nname = "staged"\nkind = "positive"\nmetric = "capture/rows"\n'
    broken.write(functional__train_DOT_contract_DOT_toml=CHECK + staged)

    problem = broken.only()

    assert problem.asked == "leg train.plain: contract functional/train.contract.toml"
    assert problem.found == "recipes/train.json with entry 'train' writes no 'capture/rows'"
    # The leg that captures writes it.
    assert broken.problems(Asked(legs=("capture",))) == []


def test_what_a_script_writes_itself_is_declared_with_the_leg(broken: Broken) -> None:
    own = '[[check]]\nname = "own"\nkind = "positive"\nmetric = "agreement/rows"\n'
    broken.write(functional__train_DOT_contract_DOT_toml=CHECK + own)
    broken.declare(
        'workers = { policy = "trainer", generation = "trainer" }',
        'workers = { policy = "trainer", generation = "trainer" }\nmetrics = ["agreement/*"]',
    )

    assert broken.problems(PLAIN) == []


@pytest.mark.parametrize(
    ("text", "words"), [(None, "no such file"), ("[[check]]\nkind = 'finit'\n", "unknown kind")]
)
def test_a_contract_that_cannot_be_read_is_said_once(
    broken: Broken, text: str | None, words: str
) -> None:
    if text is None:
        (broken.root / "functional/train.contract.toml").unlink()
    else:
        broken.write(functional__train_DOT_contract_DOT_toml=text)

    assert words in broken.only().found


def test_a_suite_with_a_path_that_is_gone_and_a_test_file_in_no_suite(broken: Broken) -> None:
    broken.declare('paths = ["unit/sums"]', 'paths = ["unit/sums", "unit/gone"]')
    broken.write(unit__lost__test_lost_DOT_py="")

    found = broken.problems(Asked(suites=("sums",)))

    assert [problem.found for problem in found] == [
        "no such path: unit/gone",
        "in none: unit/lost/test_lost.py",
    ]
    assert broken.problems(PLAIN) == []


def test_a_missing_secret_is_named_and_no_value_is_shown(
    broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.declare('entry = "train"', 'entry = "train"\nsecrets = ["HUB_TOKEN", "OTHER_TOKEN"]')
    broken.declare('paths = ["unit/sums"]', 'paths = ["unit/sums"]\nsecrets = ["HUB_TOKEN"]')
    monkeypatch.delenv("HUB_TOKEN", raising=False)
    monkeypatch.setenv("OTHER_TOKEN", "s3cret-value")

    problem = broken.only()

    assert problem.asked == "the secret HUB_TOKEN for suite 'sums', job 'train'"
    assert problem.found == "no such variable"
    monkeypatch.setenv("HUB_TOKEN", "")
    assert broken.only().found == "the variable is empty"
    monkeypatch.setenv("OTHER_TOKEN", "")
    assert "s3cret" not in str(broken.problems())
    monkeypatch.setenv("HUB_TOKEN", "a")
    monkeypatch.setenv("OTHER_TOKEN", "b")
    assert broken.problems() == []


GATE = 'entry = "train"\nneeds = ["{}"]'
SECOND = """
[jobs.second]
script = "functional/train.sh"
contract = "functional/train.contract.toml"
level = "L3"
timeout_s = 60
{}

[jobs.second.legs.only]
workers = {{ policy = "trainer" }}

[runners.small]"""


@pytest.mark.parametrize(
    ("gate", "second", "found"),
    [
        ("unit.sum", "", "did you mean 'unit.sums'?"),
        ("train", "", "they wait for each other: train needs train"),
        ("train.plain", "", "they wait for each other: train needs train"),
        ("second.only", 'needs = ["train"]', "they wait for each other"),
        ("second", "on_request = true", "it runs on request only, and is not asked for"),
        ("second", "", ""),
        ("second.only", "", ""),
        ("unit.sums", "", ""),
    ],
)
def test_a_job_whose_gate_can_never_open(
    broken: Broken, gate: str, second: str, found: str
) -> None:
    broken.declare('entry = "train"', GATE.format(gate))
    broken.declare("[runners.small]", SECOND.format(second).lstrip())

    problems = broken.problems()

    assert bool(problems) is bool(found)
    assert all(problem.check == "gates" and found in problem.found for problem in problems)


def test_a_gate_that_is_skipped_here_never_opens(broken: Broken) -> None:
    broken.declare('entry = "train"', GATE.format("unit.sums"))
    broken.declare('paths = ["unit/sums"]', 'paths = ["unit/sums"]\ncpus = 64')

    assert broken.only().found == "it cannot run: cpus: asks 64, small has 2"
