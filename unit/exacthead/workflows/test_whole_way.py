"""The generated workflow's own scripts as GitHub would run them: plan, matrix, items, merge."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from exacthead.config import load
from exacthead.workflows.generate import generate

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

ROOT = Path(__file__).parents[3]
# What noxw is to a person, without nox and its environment.
NOXW = f"""#!/bin/sh
shift; session=$1; shift; [ $# = 0 ] || shift
case $session in
functional_*) set -- functional "${{session#functional_}}" "$@" ;;
*) set -- "$session" "$@" ;;
esac
PYTHONPATH='{ROOT / "ci"}' exec '{sys.executable}' -m exacthead "$@"
"""
MORE = """
[runners.small]
cpus = 1
memory_gb = 1

[ci]
services = ["github", "gitlab"]

[jobs.broken]
script = "functional/broken.sh"
contract = "functional/count.contract.toml"
level = "L1"
timeout_s = 60
needs = ["unit.sums"]

[jobs.broken.legs.one]
workers = { policy = "plain" }

[jobs.broken.legs."it's 100%"]
workers = { policy = "plain" }
"""


@dataclass
class Service:
    """Machines that share nothing but artifacts and outputs."""

    repository: Repository
    folder: Path
    jobs: dict[str, Any]
    items: dict[str, Any]
    gitlab: dict[str, Any]

    def machine(self, name: str) -> Path:
        root = self.folder / name
        self.repository.git("clone", "--quiet", str(self.repository.root), str(root))
        return root

    def step(self, job: dict[str, Any], name: str, root: Path, **env: str) -> tuple[int, str]:
        """Run a step's script; it holds no expression, so it is run as it stands."""
        (step,) = (each for each in job["steps"] if each.get("name") == name)
        assert "${{" not in step["run"]
        declared = {key: "" for key in step.get("env", {}) if key not in env}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=root,
            env={**os.environ, **declared, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def plan(self, root: Path, **inputs: str) -> dict[str, list[dict[str, Any]]]:
        """What the plan's job tells: the entries of each job behind it."""
        code, printed = self.step(self.jobs["plan"], "Plan", root, **inputs)
        assert code == 0, printed
        output = root / ".cache" / "output"
        code, printed = self.step(self.jobs["plan"], "Matrix", root, GITHUB_OUTPUT=str(output))
        assert code == 0, printed
        told = dict(line.split("=", 1) for line in output.read_text("utf-8").splitlines())
        assert set(told) <= set(self.jobs["plan"]["outputs"])
        return {
            name: [entry for chunk in json.loads(text) for entry in json.loads(chunk)]
            for name, text in told.items()
        }

    def run(self, entry: dict[str, Any], attempt: int = 1) -> tuple[int, Path]:
        """Run one entry on a machine of its own; the exit code and its artifact."""
        job = self.items["item"]
        root = self.machine(f"item-{entry['artifact']}-{attempt}")
        summary = self.folder / "summary"
        told = {"COMMAND": entry["command"], "GITHUB_STEP_SUMMARY": str(summary)}
        code, printed = self.step(job, "Run", root, **told)
        assert entry["command"] in printed
        assert self.step(job, "Pack", root)[0] == 0
        return code, root / "run.tar"

    def merge(self, root: Path, artifacts: dict[str, Path], plan: Path) -> tuple[int, str]:
        """Download, then merge: each artifact lies in a folder of its name."""
        cache = root / ".cache"
        for name, tar in artifacts.items():
            (cache / "parts" / name).mkdir(parents=True)
            shutil.copy(tar, cache / "parts" / name / "run.tar")
        (cache / "plan").mkdir(parents=True)
        shutil.copy(plan, cache / "plan" / "plan.json")
        summary = root / ".cache" / "summary"
        code, printed = self.step(
            self.jobs["merge"], "Merge", root, GITHUB_STEP_SUMMARY=str(summary)
        )
        assert self.step(self.jobs["merge"], "Pack", root)[0] == 0
        assert (root / "run.tar").stat().st_size > 10_000
        return code, printed + summary.read_text(encoding="utf-8")


@pytest.fixture
def service(small_repository: Repository, tmp_path: Path) -> Service:
    root = small_repository.root
    declared = (root / "ci" / "harness.toml").read_text(encoding="utf-8")
    small_repository.commit(
        {
            "ci/harness.toml": declared + MORE,
            "functional/broken.sh": 'test "$1" != one || exit 3\n' + COUNTED,
            "noxw": NOXW,
        }
    )
    (root / "noxw").chmod(0o755)
    small_repository.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    made = generate(load(root))
    jobs = [
        yaml.safe_load(made[f".github/workflows/{name}.yml"])["jobs"]
        for name in ("exacthead", "exacthead-items")
    ]
    gitlab = yaml.safe_load(made[".gitlab-ci.yml"])
    return Service(small_repository, tmp_path / "machines", *jobs, gitlab)


COUNTED = """
echo '{"step": 1, "count": 3}' >"$EXACTHEAD_ITEM_FOLDER/metrics.jsonl"
"""


def test_what_the_service_runs_is_what_was_planned_and_what_it_loses_is_red(
    service: Service,
) -> None:
    root = service.machine("plan")
    entries = service.plan(root, LEVEL="(all)", RUNNER="small")

    commands = {each["id"]: each["command"] for one in entries.values() for each in one}
    assert commands == {
        "unit.sums": "./noxw -s unit -- --suite sums --strict --runner small",
        "count.plain": "./noxw -s functional_count -- --leg plain --runner small",
        "broken.one": "./noxw -s functional_broken -- --leg one --runner small",
        "broken.it's 100%": "./noxw -s functional_broken -- --leg 'it'\"'\"'s 100%' --runner small",
    }
    assert list(entries) == ["suite-sums", "job-count", "job-broken"]
    artifacts, codes = {}, {}
    for each in (each for one in entries.values() for each in one):
        codes[each["id"]], tar = service.run(each)
        artifacts[f"run-{each['artifact']}-1"] = tar
    assert codes == {name: int(name == "broken.one") for name in commands}

    # All are back: what is red is what failed, and nothing else.
    plan = root / ".cache" / "plan.json"
    code, said = service.merge(service.machine("merge"), artifacts, plan)
    assert code == 1, said
    assert "# Exacthead: 1 new failure, 3 passed\n" in said
    # A dispatch of what was not green: planned alone, merged onto the first run. Of two uploads of
    # that the later counts; and its machine is lost.
    again = service.machine("plan-again")
    for number in (2, 10):
        earlier = again / ".cache" / "earlier" / f"merged-{number}"
        earlier.mkdir(parents=True)
        shutil.copy(service.folder / "merge" / "run.tar", earlier / "run.tar")
    (again / ".cache" / "earlier" / "merged-2" / "run.tar").write_bytes(b"not even a tar")
    entries = service.plan(again, ONLY_FAILED_OF="4711", RUNNER="small")
    ((red,),) = entries.values()
    assert red["id"] == "broken.one"
    merge = service.machine("merge-again")
    shutil.copytree(again / ".cache" / "earlier", merge / ".cache" / "earlier")
    later = {"run-broken.one-1": service.run(red, 2)[1]}
    code, said = service.merge(merge, later, again / ".cache" / "plan.json")
    assert code == 1, said
    assert "# Exacthead: 1 new failure, 3 passed\n" in said
    attempts = said.partition("## Attempts")[2].partition("##")[0]
    assert attempts.count("failed(") + attempts.count("failed\\(") == 2

    # A machine that is lost is red by name.
    del artifacts["run-count.plain-1"]
    code, said = service.merge(service.machine("merge-lost"), artifacts, plan)
    assert code == 1, said
    assert "# Exacthead: 1 new failure, 1 not run, 2 passed\n" in said
    assert "lost: no run folder has it" in said


def gitlab_runs(root: Path, lines: list[str], **variables: str) -> None:
    """A job's script as GitLab's runner has it: each entry in turn, in one shell."""
    script = "set -eo pipefail\n" + "\n".join(lines)
    environment = {**os.environ, **variables}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_gitlab_s_child_pipeline_comes_to_the_same(service: Service) -> None:
    root = service.machine("plan")
    asked = {"LEVEL": "L0", "JOB": "count", "SUITE": "", "RUNNER": "small"}
    gitlab_runs(root, service.gitlab["plan"]["script"], **asked)
    child = yaml.safe_load((root / ".cache" / "items.yml").read_text(encoding="utf-8"))
    (item,) = (job for name, job in child.items() if name == "item 1: count.plain")
    assert item["tags"] == ["small"]

    machine = service.machine("item")
    command = item["variables"]["EXACTHEAD_COMMAND"]["value"]
    gitlab_runs(machine, item["script"], EXACTHEAD_COMMAND=command)
    gitlab_runs(machine, item["after_script"])

    merge = service.machine("merge")
    for source, path in ((root, child["plan"]["artifacts"]), (machine, item["artifacts"])):
        for name in path["paths"]:
            target = merge / name
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (source / name).is_dir() else shutil.copy
            copy(source / name, target)
    gitlab_runs(merge, child["merge"]["script"])
    (run,) = (path.parent for path in (merge / "runs").glob("*/plan.json"))
    assert json.loads((run / "result.json").read_text("utf-8"))["state"] == "passed"
