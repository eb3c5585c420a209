"""Child: the pipeline of a plan's items for GitLab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError
from exacthead.runs.gates import Gates
from exacthead.workflows.entries import KEPT_OF_WORKER, called, entry, startable
from exacthead.workflows.text import as_yaml

if TYPE_CHECKING:
    from exacthead.config import Harness
    from exacthead.plan import Plan
    from exacthead.workflows.entries import Entry

# GitLab's own limits: jobs that a job can need, caches of a job, the length of a job's name.
MOST_NEEDS = 50
MOST_CACHES = 4
LONGEST_NAME = 255
# Where a checkout stays the head that it is.
PLAN, PARTS = ".cache/plan.json", ".cache/parts"
_KEPT = "2 weeks"


def child_pipeline(harness: Harness, plan: Plan) -> str:
    """The jobs of a plan: each item as soon as its gates are green, then their merge.

    Raises:
        HarnessError: no runner can run an item, or an item has more gates than GitLab can tell.
    """
    gates = Gates.of(plan.items).before
    running = {item.id: item for item in startable(plan)}
    names = {each: f"item {number}" for number, each in enumerate(running, 1)}
    jobs: dict[str, Any] = {
        "stages": ["plan", "items", "merge"],
        "default": _default(harness),
        # What the parent pipeline planned, for the merge; no item waits for it.
        "plan": {
            "stage": "plan",
            "needs": [{"pipeline": "$EXACTHEAD_PARENT_PIPELINE", "job": "plan"}],
            "script": [f"test -s {PLAN}"],
            "artifacts": {"paths": [PLAN], "expire_in": _KEPT},
        },
    }
    for item_id, item in running.items():
        before = [names[gate] for gate in gates.get(item_id, ()) if gate in names]
        if len(before) > MOST_NEEDS:
            raise HarnessError(
                f"a GitLab job for {item_id!r}",
                f"{len(before)} gates; GitLab knows {MOST_NEEDS} at most",
                "name fewer, or fewer shards of them",
            )
        jobs[_title(names[item_id], item_id)] = _job(entry(harness, plan, item), before)
    titles = {names[each]: _title(names[each], each) for each in running}
    for job in jobs.values():
        if isinstance(job, dict) and job.get("stage") == "items":
            job["needs"] = [titles[name] for name in job["needs"]]
    merge = " ".join(called(harness, "merge", with_arguments=True))
    jobs["merge"] = {
        "stage": "merge",
        "when": "always",
        "script": [f"{merge} --plan {PLAN} {PARTS}"],
        "artifacts": {
            "when": "always",
            "paths": ["runs/"],
            "reports": {"junit": ["runs/*/junit.xml"]},
            "expire_in": _KEPT,
        },
    }
    return as_yaml(jobs, indent=1) + "\n"


def _default(harness: Harness) -> dict[str, Any]:
    packages = " ".join(harness.ci.packages)
    install = f"apt-get update -qq && apt-get install -y -qq --no-install-recommends {packages}"
    return {
        **({"image": harness.ci.image} if harness.ci.image else {}),
        **({"before_script": [install]} if packages else {}),
    }


def _title(name: str, item_id: str) -> str:
    """A job's name: its number tells it from all others, the rest is for people."""
    shown = "".join(each if each.isprintable() else "?" for each in item_id)
    # By bytes: a key of YAML has an end too, of 1,024 characters as they are escaped.
    return f"{name}: {shown}".encode()[:LONGEST_NAME].decode(errors="ignore")


def _job(made: Entry, before: list[str]) -> dict[str, Any]:
    folder = f"{PARTS}/{made.artifact}"
    return {
        "stage": "items",
        "needs": before,
        "tags": [made.runner],
        "timeout": f"{made.minutes} minutes",
        # As they are: `$` and all.
        "variables": {"EXACTHEAD_COMMAND": {"value": made.command, "expand": False}},
        # By a worker's key and no other, and only of jobs that came to a good end.
        "cache": [
            {
                "key": f"exacthead-worker-{stem}",
                "paths": [f".cache/workers/{kind}/{stem}{end}" for kind, end in KEPT_OF_WORKER],
            }
            for stem in made.workers[:MOST_CACHES]
        ],
        "script": ['bash -euo pipefail -c "$EXACTHEAD_COMMAND"'],
        "after_script": [f"mkdir -p runs '{folder}' && mv runs '{folder}/'"],
        "artifacts": {"when": "always", "paths": [f"{folder}/"], "expire_in": _KEPT},
    }
