"""Build the report of a run from what its folder holds and what its history says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exacthead.classes import evidence
from exacthead.classes.classify import classify
from exacthead.report.items import describe
from exacthead.report.model import (
    Class,
    Counts,
    Failure,
    Head,
    NotRun,
    Report,
    Standing,
    Worker,
)
from exacthead.report.read import Found, read_item, standing
from exacthead.report.verdict import verdict_line
from exacthead.units.result import RED, UNRUN
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from exacthead.classes.rules import Rule
    from exacthead.plan import Item as Planned
    from exacthead.plan import Plan
    from exacthead.report.past import PastRuns
    from exacthead.runs.folder import ItemFolder, RunFolder, State
    from exacthead.runs.provenance import Provenance
    from exacthead.runs.result import ItemResult

_NAMES = 20
_ORDER = (Standing.NEW, Standing.ALSO_RED, Standing.KNOWN)


@dataclass(frozen=True)
class Sources:
    """What a report is made of.

    Attributes:
        root: the checkout.
        folder: the run folder.
        state: what became of the run.
        plan: what was run.
        results: of its items.
        used: what was really used.
        rules: of the failure classes.
        past: its history; None without one.
        sections: further lines of Markdown.
        notes: what is worth knowing beside what the items say.
        reasons: what makes the run red beside its items.
    """

    root: Path
    folder: RunFolder
    state: State
    plan: Plan
    results: Sequence[ItemResult]
    used: Provenance
    rules: tuple[Rule, ...]
    past: PastRuns | None = None
    sections: Sequence[str] = ()
    notes: Sequence[str] = ()
    reasons: Sequence[str] = ()


def build(sources: Sources) -> Report:
    """The report; what of the run's files cannot be read becomes a note."""
    past, plan = sources.past, sources.plan
    expected = past.expected() if past else {}
    marks = past.marks() if past else ()
    items, failures, flaky, unrun = [], [], [], []
    notes: list[str] = []
    kinds: Counter[Kind] = Counter()
    for result in sources.results:
        planned = plan.item(result.item_id)
        folder = sources.folder.item_path(result.item_id)
        found = _found(sources, planned, folder, result)
        if found.problem and result.verdict.kind in RED:
            notes.append(f"{result.item_id}: its results could not be read: {found.problem}")
        kinds.update(found.kinds)
        failures += [replace(each, required=result.required) for each in found.failures]
        flaky += found.flaky
        unrun += _not_run(result, found)
        foreseen = expected.get(planned.id, 0.0)
        items.append(describe(sources.folder, plan, result, found.kinds, foreseen))
    failures.sort(key=lambda each: _ORDER.index(each.standing))
    counts = _counts(sources, failures, flaky, unrun, kinds)
    used = sources.used
    idle = list(dict.fromkeys(each.why for each in unrun)) if counts.passed == 0 else []
    whole = [each.expected for each in items]
    return Report(
        run=sources.folder.run_id,
        state=str(sources.state),
        verdict=verdict_line(
            sources.state, counts, sources.reasons, [] if failures or flaky else idle
        ),
        counts=counts,
        head=Head(used.commit, used.tree, used.dirty or bool(used.changed), used.changed),
        started=used.started,
        seconds=round(sum(each.seconds for each in items), 3),
        runner=plan.runner,
        flavour=plan.flavour,
        machine=_machine(used),
        invocation=plan.invocation,
        expected=None if None in whole else round(sum(filter(None, whole)), 3),
        reasons=tuple(sources.reasons),
        failures=past.dated(failures) if past else tuple(failures),
        not_run=tuple(unrun),
        flaky=past.dated(flaky) if past else tuple(flaky),
        items=tuple(items),
        workers=tuple(
            Worker(w.name, w.key, w.flavour, w.interpreter, w.how, w.seconds, w.notes)
            for w in used.workers
        ),
        images=dict(plan.images),
        green=past.green(sources.root, sources.folder.path.parent, used) if past else None,
        marks=marks,
        sections=tuple(sources.sections),
        notes=(*_notes(used), *sources.notes, *notes),
    )


def _found(sources: Sources, planned: Planned, folder: ItemFolder, result: ItemResult) -> Found:
    """What the item's tests did; with a fault of its own where they do not explain its verdict."""
    verdict = result.verdict
    if planned.kind == "leg" or planned.settled or planned.shard is None:
        found = Found()
        found.kinds[verdict.kind] += planned.kind == "leg"
    else:
        found = read_item(folder.junit, planned.id, result.reproduction, sources.rules)
    if verdict.kind in RED and not found.failures:
        found.failures.append(_whole(sources, planned, folder, result))
    elif found.failures:
        found.failures = [_named(each, planned, folder, sources) for each in found.failures]
    return found


def _named(failure: Failure, planned: Planned, folder: ItemFolder, sources: Sources) -> Failure:
    """A case that stands for the item itself is no test: its log tells more."""
    if failure.name != planned.id:
        return failure
    result = next(each for each in sources.results if each.item_id == planned.id)
    return _whole(sources, planned, folder, result)


def _whole(sources: Sources, planned: Planned, folder: ItemFolder, result: ItemResult) -> Failure:
    said = evidence.of_item(folder, result.verdict)
    classified = classify(said, sources.rules)
    of_contract = classified.failure_class is Class.CONTRACT
    script = planned.command[1] if planned.kind == "leg" and len(planned.command) > 1 else ""
    return Failure(
        name=planned.id,
        item=planned.id,
        kind=str(result.verdict.kind),
        standing=standing(result.verdict.kind, result.notes),
        required=result.required,
        cause=said.cause,
        text=classified.line,
        failure_class=classified.failure_class,
        rule=classified.rule,
        group=classified.group,
        reproduction=result.reproduction,
        file=planned.contract if of_contract else script,
        notes=result.notes,
    )


def _not_run(result: ItemResult, found: Found) -> list[NotRun]:
    if found.unrun:
        return [
            NotRun(
                item=result.item_id,
                kind=str(kind),
                why=why,
                count=len(names),
                names=tuple(names[:_NAMES]),
                reproduction=result.reproduction,
                required=kind is not Kind.SKIPPED,
            )
            for (kind, why), names in found.unrun.items()
        ]
    verdict = result.verdict
    if verdict.kind not in UNRUN:
        return []
    why = " ".join(verdict.reason.split())
    names = (result.item_id,)
    return [
        NotRun(
            result.item_id, str(verdict.kind), why, 1, names, result.reproduction, result.required
        )
    ]


def _counts(
    sources: Sources,
    failures: Sequence[Failure],
    flaky: Sequence[Failure],
    unrun: Sequence[NotRun],
    kinds: Counter[Kind],
) -> Counts:
    stands = Counter(each.standing for each in failures)
    legs = sum(each.kind == "leg" for each in sources.plan.items)
    return Counts(
        new=stands[Standing.NEW],
        known=stands[Standing.KNOWN],
        also_red=stands[Standing.ALSO_RED],
        not_run=sum(each.count for each in unrun if each.required),
        skipped=sum(each.count for each in unrun if not each.required),
        flaky=len(flaky),
        passed=kinds[Kind.PASSED],
        tests=sum(len(item.shard.nodeids) for item in sources.plan.items if item.shard),
        legs=legs,
    )


def _machine(used: Provenance) -> str:
    machine = used.machine
    memory = f"{round(machine.memory_mb / 1024)} GiB"
    return ", ".join((f"{machine.cpus} x {machine.cpu}", memory, *machine.accelerators))


def _notes(used: Provenance) -> tuple[str, ...]:
    dirty = ("The checkout was dirty: its commit does not tell what ran.",)
    edited = f"The checkout was changed while the run went on: {', '.join(used.changed)}."
    merged = f"Merged of the runs {', '.join(used.parts)}; the machine is that of the merge."
    return (
        *((merged,) if used.parts else ()),
        *(dirty if used.dirty else ()),
        *((edited,) if used.changed else ()),
        *(f"worker {each.name}: {note}" for each in used.workers for note in each.notes),
    )
