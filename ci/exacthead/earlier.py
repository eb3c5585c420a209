"""Earlier: which items of a run were not green, for a call that is about them alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError, nearest
from exacthead.plan import read_plan
from exacthead.runs.folder import RunFolder, State
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.plan import Plan
    from exacthead.units.shard import Shard

_PART = re.compile(r"\.\d+of\d+$")


@dataclass(frozen=True)
class Earlier:
    """What was not green in a run.

    Attributes:
        run: the run's id.
        items: id of a suite (``unit.NAME``, without its shard) or leg -> what became of it.
        shards: suite -> its shards that were not green; a suite that is not here had no plan of its
            tests, and runs as a whole.
    """

    run: str
    items: Mapping[str, str]
    shards: Mapping[str, tuple[Shard, ...]]


def not_green(folder: RunFolder, plan: Plan) -> dict[str, str]:
    """The items of a run that a further attempt is about, and what became of each.

    These are the red ones and those without a result. What was skipped and need not have run is
    neither.

    Args:
        folder: the run's, of a single run or of a merged one.
        plan: the run's.

    Raises:
        HarnessError: the run still goes on, or a result cannot be read.
    """
    if folder.state() is State.RUNNING:
        todo = "wait for its end, or interrupt it"
        raise HarnessError(f"what was red in run {folder.run_id}", "it still runs", todo)
    found = {}
    for item in plan.items:
        place = folder.item_path(item.id)
        if not place.result.exists():
            found[item.id] = "without a result"
            continue
        result = place.read_result()
        spared = result.verdict.kind is Kind.SKIPPED and not result.required
        if not (result.verdict.green or spared):
            found[item.id] = str(result.verdict.kind)
    return found


def failed_of(root: Path, run: str) -> Earlier:
    """What was :func:`not_green` in a run, for a call that is about it alone.

    Args:
        root: the checkout, whose ``runs`` folder is looked in for an id.
        run: a run's folder or id.

    Raises:
        HarnessError: no such run, a plan that cannot be read, or a result that cannot.
    """
    folder = find_run(root, run)
    plan = read_plan(folder.path / "plan.json")
    red = not_green(folder, plan)
    items: dict[str, str] = {}
    shards: dict[str, tuple[Shard, ...]] = {}
    whole = set()
    for item in plan.items:
        became = red.get(item.id, "")
        if not became:
            continue
        name = _PART.sub("", item.id) if item.kind == "suite" else item.id
        items.setdefault(name, f"{became} in {folder.run_id}")
        if item.kind != "suite":
            continue
        suite = name.removeprefix("unit.")
        if item.shard is None or not item.shard.groups:
            whole.add(suite)
        else:
            shards[suite] = (*shards.get(suite, ()), item.shard)
    if not items:
        raise HarnessError(
            f"what was red in run {folder.run_id}", "every item is green", "there is nothing to do"
        )
    kept = {suite: parts for suite, parts in shards.items() if suite not in whole}
    return Earlier(folder.run_id, items, kept)


def find_run(root: Path, run: str) -> RunFolder:
    """The run that is meant by its folder, or by its id alone.

    Raises:
        HarnessError: there is none, with the nearest id.
    """
    runs = root / "runs"
    for path in (Path(run), runs / run):
        if (path / "plan.json").is_file():
            return RunFolder(path.absolute())
    known = [path.parent.name for path in runs.glob("*/plan.json")]
    todo = nearest(Path(run).name, known) if known else f"there is no run in {runs} at all"
    raise HarnessError(f"run {run!r}", "no run folder there", todo)
