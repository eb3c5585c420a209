"""Items as a report shows them: what was planned, what became of it, the end of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.classes.ends import read_ends
from exacthead.contracts.evaluate import read_json
from exacthead.errors import HarnessError
from exacthead.report.model import Check, Item, Log

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from exacthead.plan import Plan
    from exacthead.runs.folder import ItemFolder, RunFolder
    from exacthead.runs.result import ItemResult
    from exacthead.verdict import Kind

TAIL_LINES = 60
_TAIL_BYTES = 1 << 14


def describe(
    run: RunFolder, plan: Plan, result: ItemResult, kinds: Mapping[Kind, int], expected: float
) -> Item:
    """One planned item of a run.

    Args:
        run: the run folder.
        plan: what was planned.
        result: what became of the item.
        kinds: how many of its tests became what.
        expected: how long its earlier passes took, in seconds; 0 when nothing is known.
    """
    planned, folder = plan.item(result.item_id), run.item_path(result.item_id)
    shard = planned.shard
    foreseen = expected or (shard.expected_s if shard else 0.0)
    return Item(
        id=planned.id,
        kind=planned.kind,
        verdict=str(result.verdict.kind),
        reason=" ".join(result.verdict.reason.split()),
        required=result.required,
        seconds=result.seconds,
        folder=str(folder.path.relative_to(run.path)),
        suite=shard.suite if shard else "",
        shard=shard.number if shard else 0,
        shards=shard.of if shard else 0,
        started=result.started,
        expected=foreseen or None,
        peak_mb=result.peak_pss_mb,
        workers=result.workers,
        image=plan.images.get(planned.id, ""),
        stages=dict(result.stages),
        tests={str(kind): count for kind, count in kinds.items()} if shard else {},
        contract=_contract(folder),
        log=_log(run.path, folder),
        leftovers=result.leftovers,
        notes=result.notes,
        details=result.details,
        reproduction=result.reproduction,
    )


def _contract(folder: ItemFolder) -> tuple[Check, ...]:
    if not folder.contract.exists():
        return ()
    try:
        checked = read_json(folder.contract)
    except HarnessError:
        return ()  # its verdict says so already
    return tuple(
        Check(
            name=each.name,
            kind=each.kind,
            metric=each.metric,
            verdict=str(each.verdict.kind),
            reason=each.verdict.reason,
            observed=each.observed,
            bound=each.bound,
        )
        for each in checked.checks
    )


def _log(run: Path, folder: ItemFolder) -> Log | None:
    try:
        ends = read_ends(folder.log, 0, _TAIL_BYTES)
    except OSError:
        return None
    lines = ends.last.splitlines()
    tail = "\n".join(lines[-TAIL_LINES:])
    cut = ends.cut or len(lines) > TAIL_LINES
    return Log(str(folder.log.relative_to(run)), ends.size, tail, cut)
