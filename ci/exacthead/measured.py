"""What a run covered: its items' coverage combined at its end, and a change judged by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.cover.combine import combine_run
from exacthead.cover.patch import gate
from exacthead.cover.settings import Settings
from exacthead.errors import HarnessError
from exacthead.impact.map import Measured as MeasuredItem
from exacthead.impact.map import record
from exacthead.impact.run import MEASURED
from exacthead.runs.render import code, plain
from exacthead.units.read import read_results

if TYPE_CHECKING:
    from exacthead.config import Harness
    from exacthead.cover.combine import Coverage
    from exacthead.cover.patch import Patch
    from exacthead.plan import Item, Plan
    from exacthead.runs.folder import RunFolder

_LEAST_COVERED = 10


@dataclass(frozen=True)
class Measured:
    """The coverage of a run, and what its gate says when one was asked for.

    Attributes:
        coverage: None when it could not be put together.
        patch: None when no gate was asked for.
        problem: what kept one of them from being told; empty when nothing did.
        gated: whether the run may only pass with a change that is covered.
    """

    coverage: Coverage | None
    patch: Patch | None
    problem: str
    gated: bool

    @property
    def green(self) -> bool:
        """Whether the gate lets the run pass."""
        return not self.gated or (self.patch is not None and self.patch.green)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What makes the run red; empty when nothing of it does."""
        if self.green:
            return ()
        return (self.problem or "the change's coverage is below its limit",)

    def lines(self) -> list[str]:
        """The section of the report, as Markdown."""
        said = (self.coverage, self.patch, self.problem)
        lines = ["## Coverage", "", *(plain(str(each)) for each in said if each)]
        if self.coverage is None:
            return lines
        files = sorted(
            (each for each in self.coverage.files if each.covered < each.total),
            key=lambda each: (each.covered - each.total, each.path),
        )
        return [
            *lines,
            "",
            *(f"- {plain(note)}" for note in self.coverage.notes),
            *(
                f"- {code(each.path)}: {each.covered} of {each.total} lines"
                for each in files[:_LEAST_COVERED]
            ),
        ]


def settings(harness: Harness, *, contexts: bool = False) -> Settings | None:
    """What is measured in the repository; None when it asks for nothing."""
    if contexts:
        return MEASURED
    asked = harness.coverage
    return Settings(asked.sources, asked.omit, asked.exclude) if asked.sources else None


def measure(harness: Harness, plan: Plan, folder: RunFolder, base: str) -> Measured | None:
    """Combine the run's coverage; None when nothing was to be measured and no gate waits for it.

    A gate is asked also where no item measured anything, as when what changed reaches no test: a
    change without an executable line passes, and of any other nothing ran.

    Args:
        harness: the declarations of the checkout that ran.
        plan: what was run.
        folder: of the run.
        base: the revision whose merge base the change is judged against; empty for no gate.
    """
    contexts = any(item.shard.contexts for item in plan.items if item.shard)
    asked = settings(harness, contexts=contexts)
    items = {item.id: folder.item_path(item.id).path for item in plan.items if item.measured}
    if asked is None or not (items or base):
        return None
    coverage, patch, problem = None, None, ""
    try:
        coverage = combine_run(folder.path, items, harness.root, asked)
        if base:
            limit = harness.coverage.patch_percent
            patch = gate(folder.path, harness.root, base, coverage, limit)
    except HarnessError as error:
        problem = str(error)
    return Measured(coverage, patch, problem, gated=bool(base))


def keep_maps(harness: Harness, plan: Plan, folder: RunFolder) -> list[str]:
    """Make the impact map of each suite of a run with contexts; what is to be said of them.

    Raises:
        HarnessError: the head was dirty, or a suite has no evidence of anything.
    """
    said = []
    suites: dict[str, list[Item]] = {}
    for item in plan.items:
        if item.shard is not None and item.measured:
            suites.setdefault(item.shard.suite, []).append(item)
    for suite, items in suites.items():
        measured = [_evidence(item, folder) for item in items]
        keys = {worker: plan.keys[worker] for item in items for worker in item.workers.values()}
        path, notes = record(harness.root, suite, plan.head, keys, measured)
        said += [f"impact map {path}", *notes]
    return said


def _evidence(item: Item, folder: RunFolder) -> MeasuredItem:
    place = folder.item_path(item.id).path
    nodeids = item.shard.nodeids if item.shard else ()
    return MeasuredItem(place, read_results(place, nodeids, "").results)
