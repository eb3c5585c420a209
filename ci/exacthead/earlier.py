"""Earlier: which items of a run were not green, for a call that is about them alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError, nearest
from exacthead.plan import read_plan
from exacthead.runs.folder import RunFolder
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.plan import Item
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


def failed_of(root: Path, run: str) -> Earlier:
    """The items of a run that were not green: red ones, and those that have no result.

    What was skipped and need not have run is neither.

    Args:
        root: the checkout, whose ``runs`` folder is looked in for an id.
        run: a run's folder or id.

    Raises:
        HarnessError: no such run, a plan that cannot be read, or a result that cannot.
    """
    folder = _folder(root, run)
    items: dict[str, str] = {}
    shards: dict[str, tuple[Shard, ...]] = {}
    whole = set()
    for item in read_plan(folder.path / "plan.json").items:
        became = _not_green(folder, item)
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


def _folder(root: Path, run: str) -> RunFolder:
    runs = root / "runs"
    for path in (Path(run), runs / run):
        if (path / "plan.json").is_file():
            return RunFolder(path.absolute())
    known = [path.parent.name for path in runs.glob("*/plan.json")]
    raise HarnessError(f"run {run!r}", "no run folder there", nearest(Path(run).name, known))


def _not_green(folder: RunFolder, item: Item) -> str:
    place = folder.item_path(item.id)
    if not place.result.exists():
        return "without a result"
    result = place.read_result()
    verdict = result.verdict
    spared = verdict.kind is Kind.SKIPPED and not result.required
    return "" if verdict.green or spared else str(verdict.kind)
