"""What the stack says of its recipes before anything is started."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exacthead.config import Harness, load
from exacthead.equip import open_store
from exacthead.head import read_head
from exacthead.preflight import contracts, machine
from exacthead.preflight.case import Case
from exacthead.preflight.checks import CHECKS
from exacthead.selection import Asked, select
from exacthead.tables import Worker
from posttrain.metrics.emitted import emitted
from posttrain.metrics.table import METRICS
from posttrain.preflight import answer

ROOT = Path(__file__).resolve().parents[3]
RECIPES = ROOT / "functional" / "recipes"
JOBS = tomllib.loads((ROOT / "ci/harness.toml").read_text(encoding="utf-8"))["jobs"]
CAPTURE = (
    "token_capture.enabled=true",
    "token_capture.deadline_s=10",
    "token_capture.gate_memory_mb=1024",
    "token_capture.turns=2",
)


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def of(name: str, entry: str, *overrides: str) -> dict[str, Any]:
    return answer(f"functional/recipes/{name}.yaml", entry, overrides)


@pytest.mark.parametrize("job", list(JOBS))
def test_every_job_s_recipe_is_what_the_job_binds(job: str) -> None:
    declared = JOBS[job]
    said = answer(declared["recipe"], declared["entry"], ())

    assert said["problems"] == []
    assert {key: said["values"][key] for key in declared["binds"]} == declared["binds"]
    assert said["cluster"]["cpus"] <= declared["cpus"]


def own(folder: str, _: list[str]) -> set[str]:
    return {".git", ".cache", "runs"} if Path(folder) == ROOT else set()


def repository(root: Path) -> Path:
    """A repository of the files here: in an image the head has none."""
    shutil.copytree(ROOT, root, ignore=own)
    for command in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "--quiet", "-m", "head"),
    ):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def test_preflight_has_nothing_against_any_leg_also_of_jobs_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXACTHEAD_CACHE", str(tmp_path / "cache"))
    root = repository(tmp_path / "head")
    declared = load(root)
    # This very interpreter answers; whatever else is declared stays as it is.
    asker = Worker(python=".".join(map(str, sys.version_info[:2])), provided=sys.executable)
    harness = declared.model_copy(update={"workers": {**declared.workers, "recipes": asker}})
    selection = select(harness, Asked(jobs=tuple(harness.jobs)))
    runner = harness.runner("cpu2")
    settings = {"runner_name": "cpu2", "runner": runner, "flavour": "cpu"}
    case = Case(harness, selection, read_head(root), **settings, store=open_store(root))

    # The machine is no fact of the repository, and no suite is selected.
    found = [problem for check in CHECKS if check != machine.check for problem in check(case)]

    assert [str(problem) for problem in found] == []
    asked = {f"{name}.{leg}" for name, job in harness.jobs.items() for leg in job.legs}
    assert {leg.id for leg in case.legs} == asked == case.answers.keys()
    assert {"single_controller_chaos.engine_idle", "gym_training.flag_off"} <= asked
    # It would have said so: a contract that no leg can meet is one of what it refuses.
    (problem,) = contracts.check(
        replace(case, harness=without_metrics(harness, "single_controller_chaos", "engine_idle"))
    )
    assert "engine_idle" in problem.asked


def without_metrics(harness: Harness, name: str, leg: str) -> Harness:
    """The declarations with one leg that does not say what its script writes."""
    job = harness.jobs[name]
    legs = {**job.legs, leg: job.legs[leg].model_copy(update={"metrics": ()})}
    jobs = {**harness.jobs, name: job.model_copy(update={"legs": legs})}
    return harness.model_copy(update={"jobs": jobs})


def test_an_answer_tells_the_sum_the_cluster_and_who_imports_what() -> None:
    said = of("gym_training", "train")

    assert said["sum"] == (
        "colocated, the larger of 2 policy ranks and 2 generation workers x 1 tensor parallel"
        " = 2 CPUs"
    )
    assert said["cluster"] == {"cpus": 2, "accelerators": 0}
    assert said["modules"]["generation"] == ["ray", "torch", "vllm"]
    captured = of("single_controller", "single_controller", *CAPTURE)
    assert captured["modules"]["generation"] == [
        *("ray", "torch", "vllm", "nemo_gym", "transfer_queue")
    ]
    assert of("verifier_acceptance", "verify")["modules"] == {"gym": ["nemo_gym", "math_verify"]}
    assert of("verifier_acceptance", "verify")["sum"] == ""


@pytest.mark.parametrize(
    ("overrides", "found"),
    [
        (("generation.workers=4",), "= 4 CPUs, cluster.cpus is 2"),
        (("generation.colocated=false",), "a separate engine may run on another machine"),
        (("data.train=nowhere.jsonl",), "No such file"),
        (("model.path=nowhere",), "no such folder"),
        (("data.train=fixtures/gym_conversations.jsonl",), "agent_ref.name 'conversation_agent'"),
        (("generation.workerz=4",), "did you mean 'workers'?"),
    ],
)
def test_whatever_the_stack_refuses_is_a_problem(overrides: tuple[str, ...], found: str) -> None:
    problems = of("gym_training", "train", *overrides)["problems"]

    assert any(found in problem["found"] for problem in problems), problems


def test_several_problems_are_told_at_once() -> None:
    said = of("gym_training", "train", "generation.workers=4", "data.train=nowhere.jsonl")

    assert len(said["problems"]) == 2
    assert said["values"]["data.train"] == "nowhere.jsonl"


def test_an_unknown_entry_point_is_told_with_the_nearest() -> None:
    (problem,) = of("gym_training", "trian")["problems"]

    assert problem["todo"] == "did you mean 'train'?"


def names(entry: str, **values: Any) -> list[re.Pattern[str]]:
    return [re.compile(each) for each in emitted(entry, values)]


@pytest.mark.parametrize(
    ("name", "entry", "values", "written"),
    [
        ("train/loss", "train", {}, True),
        ("train/loss", "accept", {}, False),
        ("rollout/turns", "accept", {}, True),
        ("verifier/mcqa/rows", "verify", {}, True),
        ("capture/rows", "single_controller", {"token_capture.enabled": True}, True),
        ("capture/rows", "single_controller", {"token_capture.enabled": False}, False),
        ("capture/placeholders/late", "single_controller", {"token_capture.enabled": True}, True),
        ("generation/1/checksum_after_refit", "train", {"generation.workers": 2}, True),
        ("generation/2/checksum_after_refit", "train", {"generation.workers": 2}, False),
        ("generation/01/checksum_after_refit", "train", {"generation.workers": 2}, False),
        ("train/reference_kl", "train", {"advantages.kl_coefficient": 0.1}, True),
        ("train/reference_kl", "train", {"advantages.kl_coefficient": 0.0}, False),
        ("dataplane/0/puts", "single_controller", {"dataplane.kind": "memory"}, False),
        (
            "dataplane/0/puts",
            "single_controller",
            {"dataplane.kind": "transfer_queue", "dataplane.storage_units": 1},
            True,
        ),
        ("train/los", "train", {}, False),
    ],
)
def test_which_metrics_a_recipe_can_write(
    name: str, entry: str, values: dict[str, Any], *, written: bool
) -> None:
    assert any(pattern.fullmatch(name) for pattern in names(entry, **values)) is written


def test_every_declared_metric_is_written_by_something() -> None:
    values = {
        "token_capture.enabled": True,
        "advantages.kl_coefficient": 1.0,
        "generation.workers": 1,
        "dataplane.kind": "transfer_queue",
        "dataplane.storage_units": 1,
    }
    known = [
        pattern
        for entry in ("train", "single_controller", "verify", "accept")
        for pattern in names(entry, **values)
    ]
    marks = {"<n>": "0", "<verifier>": "mcqa", "<cause>": "late"}
    lost = []
    for metric in METRICS:
        name = metric.name
        for mark, text in marks.items():
            name = name.replace(mark, text)
        if not any(pattern.fullmatch(name) for pattern in known):
            lost.append(name)

    # Of two runs that are compared, which no entry point writes.
    assert {name.split("/")[0] for name in lost} == {"agreement"}


def test_questions_come_by_standard_input_and_no_heavy_library_is_imported() -> None:
    heavy = "import sys, posttrain.preflight as p; p.main(); "
    heavy += "assert not {'torch', 'ray', 'vllm', 'transformers'} & set(sys.modules)"
    asked = [{"recipe": "functional/recipes/learning.yaml", "entry": "train", "overrides": []}]
    done = subprocess.run(
        [sys.executable, "-c", heavy],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )

    (said,) = json.loads(done.stdout)
    assert said["problems"] == []
    assert said["values"]["data.train"] == "fixtures/arithmetic/train.jsonl"
