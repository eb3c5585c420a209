"""The checked-in files: current, valid by the published schemas, and no wider than they must be."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.lint.declared import check_workflows
from exacthead.workflows.child import child_pipeline
from exacthead.workflows.generate import generate, read_actions, stale
from unit.exacthead.workflows.test_entries import (
    GATED,
    NASTY,
    harness_of,
    leg_item,
    plan_of,
    suite_item,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
GITHUB = ".github/workflows"
MAIN, ITEMS, VOUCH = (
    f"{GITHUB}/exacthead.yml",
    f"{GITHUB}/exacthead-items.yml",
    f"{GITHUB}/vouch.yml",
)
# May start workflows, read the repository, read pull requests and runs; nothing else anywhere.
WIDEST = {"contents": "read", "pull-requests": "read", "actions": "read"}


def tool(name: str, *arguments: str, cwd: Path) -> str:
    """Run a tool of this worker; what it found."""
    program = Path(sys.executable).parent / name
    done = subprocess.run(
        [str(program), *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def read(files: dict[str, str]) -> dict[str, Any]:
    return {path: yaml.safe_load(text) for path, text in files.items()}


def steps(files: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in (MAIN, ITEMS, VOUCH):
        for name, job in files[path]["jobs"].items():
            for step in job.get("steps", []):
                yield f"{path} {name}", step


@pytest.fixture(scope="module", params=["this repository", "a strange one"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generated files of a repository."""
    root = tmp_path_factory.mktemp("files")
    harness = load(ROOT)
    if request.param != "this repository":
        tables = {
            "suites": {**GATED["suites"], NASTY: {"secrets": ["HUB_TOKEN"]}},
            "jobs": {**GATED["jobs"], NASTY: {"needs": [f"unit.{NASTY}"]}},
        }
        harness = harness_of(root, **tables)
    for path, text in generate(harness).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    plan = plan_of(*_items(request.param), runner="this machine")
    if request.param == "this repository":
        items = tuple(replace(item, workers={"suite": "unit"}) for item in plan.items)
        plan = replace(plan, items=items, keys={"unit": "1" * 64})
    child = child_pipeline(harness, plan)
    (root / "child.yml").write_text(child, encoding="utf-8")
    return root


def _items(kind: str) -> list[Any]:
    if kind == "this repository":
        return [suite_item("exacthead", 1, 2), leg_item("gym_training", "flag_off")]
    return [suite_item(NASTY), leg_item(NASTY, "plain", needs=(f"unit.{NASTY}",))]


def test_what_is_checked_in_is_what_harness_toml_asks_for(tmp_path: Path) -> None:
    harness = load(ROOT)
    assert stale(harness) == {}

    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    made = generate(harness)
    for path, text in made.items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    (tmp_path / MAIN).write_text(made[MAIN].replace("read", "write"), encoding="utf-8")
    (tmp_path / VOUCH).unlink()

    elsewhere = harness.model_copy(update={"root": tmp_path})
    (tmp_path / "noxw").touch()
    assert stale(elsewhere) == {MAIN: "stale, or edited by hand", VOUCH: "missing"}
    said = [str(finding) for finding in check_workflows(elsewhere)]
    assert said[1] == f"{VOUCH}: workflows: missing; to do: run nox -s workflows and commit it"


@pytest.mark.parametrize(
    "schema", ["vendor.github-workflows", "custom.github-workflows-require-timeout"]
)
def test_github_s_files_are_valid_by_the_published_schema(files: Path, schema: str) -> None:
    paths = [str(path) for path in sorted((files / GITHUB).iterdir())]

    assert tool("check-jsonschema", "--builtin-schema", schema, *paths, cwd=files) == ""


def test_gitlab_s_files_are_valid_by_the_published_schema(files: Path) -> None:
    schema = ("--builtin-schema", "vendor.gitlab-ci")

    assert tool("check-jsonschema", *schema, ".gitlab-ci.yml", "child.yml", cwd=files) == ""


def test_actionlint_has_nothing_to_say(files: Path) -> None:
    paths = [str(path) for path in sorted((files / GITHUB).iterdir())]

    assert tool("actionlint", *paths, cwd=files) == ""
    broken = (files / MAIN).read_text(encoding="utf-8").replace("needs.plan.result", "needs.x.y", 1)
    (files / "broken.yml").write_text(broken, encoding="utf-8")
    assert 'property "x" is not defined' in tool("actionlint", "broken.yml", cwd=files)


def test_zizmor_has_nothing_to_say(files: Path) -> None:
    config = ("--config", str(ROOT / ".github" / "zizmor.yml"))
    arguments = ("--offline", "--no-progress", "--persona", "pedantic", *config)

    assert tool("zizmor", *arguments, GITHUB, cwd=files) == ""
    text = (files / ITEMS).read_text(encoding="utf-8")
    (files / "injected.yml").write_text(
        text.replace("printf '%s\\n' \"$COMMAND\"", 'echo "${{ inputs.head }}"'), encoding="utf-8"
    )
    assert "template-injection" in tool("zizmor", *arguments, "injected.yml", cwd=files)


def test_permissions_actions_and_credentials_are_the_least() -> None:
    files = read(generate(load(ROOT)))

    for path in (MAIN, ITEMS, VOUCH):
        assert files[path]["permissions"] == {}
        for name, job in files[path]["jobs"].items():
            more = {"actions": "write"} if path == VOUCH else {}
            assert set(job["permissions"].items()) <= {*WIDEST.items(), *more.items()}, name
    for where, step in steps(files):
        assert "${{" not in step.get("run", ""), where
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z/-]+@[0-9a-f]{40}", step["uses"]), where
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False, where


def test_no_job_has_a_stranger_s_code_before_the_trusted_commit_has_said_so() -> None:
    files = read(generate(load(ROOT)))
    jobs = files[MAIN]["jobs"]
    trusted = "${{ github.event.pull_request.base.sha || github.sha }}"
    checkouts = {
        name: step["with"]["ref"]
        for name, job in jobs.items()
        for step in job.get("steps", [])
        if step.get("uses", "").startswith("actions/checkout@")
    }

    head = "${{ needs.trust.outputs.head }}"
    assert checkouts == {"trust": trusted, "plan": head, "merge": head}
    for name, job in jobs.items():
        assert ("trust" in job.get("needs", [])) == (name != "trust")
        if "uses" in job:
            assert job["with"]["head"] == head
    (item,) = files[ITEMS]["jobs"].values()
    assert item["steps"][0]["with"]["ref"] == "${{ inputs.head }}"


def test_secrets_reach_the_step_that_runs_an_item_and_no_other(tmp_path: Path) -> None:
    tables = {"suites": {"a": {"secrets": ["HUB_TOKEN"]}}, "jobs": {"j": {"secrets": ["KEY"]}}}
    texts = generate(harness_of(tmp_path, **tables))
    files = read(texts)

    for where, step in steps(files):
        told = {name: str(value) for name, value in step.get("env", {}).items()}
        told = {name: value for name, value in told.items() if "secrets." in value}
        values = {name for name, value in told.items() if value == f"${{{{ secrets.{name} }}}}"}
        assert values == ({"HUB_TOKEN", "KEY"} if step.get("name") == "Run" else set()), where
        # A plan refuses a secret that nobody has set, and so is told of each whether it is.
        for name in told.keys() - values:
            assert (where, step["name"]) == (f"{MAIN} plan", "Plan")
            assert re.fullmatch(
                rf"\$\{{\{{ secrets\.{name} != '' && '[^']+' \|\| '' \}}\}}", told[name]
            )
        if step.get("name") == "Plan":
            assert told.keys() == {"HUB_TOKEN", "KEY"}
    for job in files[MAIN]["jobs"].values():
        assert set(job.get("secrets", {})) == ({"HUB_TOKEN", "KEY"} if "uses" in job else set())
    assert "secrets." not in texts[VOUCH]
    assert "inherit" not in texts[MAIN]


def test_a_kept_worker_has_the_very_key_and_no_outside_code_keeps_one() -> None:
    files = read(generate(load(ROOT)))
    (item,) = files[ITEMS]["jobs"].values()
    cached = [step for step in item["steps"] if "actions/cache/" in step.get("uses", "")]
    restored = [step for step in cached if "/restore@" in step["uses"]]
    kept = [step for step in cached if "/save@" in step["uses"]]

    # The agreement leg of the single controller has the most workers.
    assert len(restored) == len(kept) == 4
    run = next(at for at, step in enumerate(item["steps"]) if step.get("name") == "Run")
    for number, (before, after) in enumerate(zip(restored, kept, strict=True)):
        stem = f"${{{{ matrix.workers[{number}] }}}}"
        # Nothing but the key: no other worker is ever fetched in its place.
        assert before["with"] == after["with"]
        assert set(before["with"]) == {"key", "path"}
        assert before["with"]["key"] == f"exacthead-worker-{stem}"
        assert before["with"]["path"].splitlines() == [
            f".cache/workers/workers/{stem}",
            f".cache/workers/records/{stem}.json",
            f".cache/workers/manifests/{stem}.json.gz",
        ]
        assert item["steps"].index(before) < run < item["steps"].index(after)
        assert "inputs.keep" in after["if"]
        assert f"steps.{before['id']}.outputs.cache-hit != 'true'" in after["if"]
    for job in files[MAIN]["jobs"].values():
        if "uses" in job:
            assert job["with"]["keep"].startswith("${{ inputs.pull == '' && ")


def test_jobs_wait_for_their_gates_alone_and_the_merge_for_all(tmp_path: Path) -> None:
    jobs = read(generate(harness_of(tmp_path, **GATED)))[MAIN]["jobs"]
    ids = [name for name in jobs if name not in {"trust", "plan", "merge"}]

    (leg,) = (name for name in ids if name.startswith("job-j-x--"))
    assert {name: jobs[name]["needs"][2:] for name in ids} == {
        "suite-a": [],
        "suite-b": ["suite-a", leg],
        "suite-c": [],
        "job-j": [],
        "job-k": ["suite-b", "job-j", leg],
        leg: [],
    }
    assert set(jobs["merge"]["needs"]) == {"trust", "plan", *ids}
    # Where it is required, a job that is skipped counts as passed.
    assert jobs["merge"]["if"] == "${{ !cancelled() }}"
    first = jobs["merge"]["steps"][0]
    assert first["if"] == "${{ needs.plan.result != 'success' }}"
    assert subprocess.run(["bash", "-c", first["run"]], check=False).returncode == 1
    condition = jobs["suite-b"]["if"]
    assert "(needs.plan.outputs.suite-a == '' || needs.suite-a.result == 'success')" in condition
    assert "suite-a" not in jobs["suite-c"]["if"]
    for name in ids:
        assert jobs[name]["strategy"]["fail-fast"] is False


def test_an_action_is_pinned_to_a_commit_that_somebody_has_seen(tmp_path: Path) -> None:
    path = tmp_path / "actions.toml"
    line = '[actions."a/b"]\ncommit = "{}"\nversion = "v1"\nseen = "{}"\n'
    path.write_text(line.format("a" * 40, "x/y"), encoding="utf-8")
    assert read_actions(path) == {"a/b": f"a/b@{'a' * 40} # v1"}

    for commit, seen in (("v1", "x/y"), ("a" * 39, "x/y"), ("a" * 40, "")):
        path.write_text(line.format(commit, seen), encoding="utf-8")
        with pytest.raises(HarnessError, match="full id"):
            read_actions(path)


def test_without_a_service_nothing_is_generated_or_stale(tmp_path: Path) -> None:
    harness = harness_of(tmp_path).model_copy(
        update={"ci": load(ROOT).ci.model_copy(update={"services": ()})}
    )

    assert stale(harness) == {}
    with pytest.raises(HarnessError, match="no service"):
        generate(harness)
    # Each job would find no machine, and that as late as in its first plan.
    with pytest.raises(HarnessError, match="no runner is declared"):
        generate(harness_of(tmp_path, runners={}))
