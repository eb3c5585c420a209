"""Reporting a run that has ended: coverage, merged results, history, and all that is said of it."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from exacthead import junit
from exacthead.conclude import counts
from exacthead.errors import HarnessError
from exacthead.history.database import open_history, sync
from exacthead.report.build import Sources, build
from exacthead.report.data import without_secrets
from exacthead.report.past import PastRuns
from exacthead.report.publish import Publisher
from exacthead.resume import left_lines
from exacthead.runs.execute import exit_code
from exacthead.runs.folder import State
from exacthead.shards.nodeid import file_of
from exacthead.triage.check import gone_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exacthead.junit import Totals
    from exacthead.measured import Measured
    from exacthead.runs.folder import RunFolder
    from exacthead.runs.result import ItemResult
    from exacthead.session import Session


def report_run(
    session: Session,
    folder: RunFolder,
    state: State,
    results: Sequence[ItemResult],
    more: Sequence[str] = (),
) -> int:
    """Everything that is said of a run, the closing line last.

    Args:
        session: what was run.
        folder: its run folder; all its items are there.
        state: what became of it as far as its items go.
        results: of them, in any order.
        more: lines of Markdown: further sections, each with its heading.

    Returns:
        The exit code.

    Raises:
        HarnessError: the run folder cannot be written to.
    """
    place = {item.id: number for number, item in enumerate(session.plan.items)}
    results = sorted(results, key=lambda each: place[each.item_id])
    measured = _measure(session, folder)
    # A file that is missing shows as an error in the merged one.
    files = [folder.item_path(result.item_id).junit for result in results]
    totals = junit.merge(files, folder.path / "junit.xml")
    reasons = (*_lost(totals), *(measured.reasons if measured else ()))
    if reasons and state is State.PASSED:
        state = State.FAILED
        folder.write_state(state, {each.item_id: str(each.verdict.kind) for each in results})
    for doubt in totals.doubts:
        session.say(f"junit.xml: {doubt}")
    with ExitStack() as held:
        past, problem = _history(session, folder, held)
        report = build(
            Sources(
                root=session.harness.root,
                folder=folder,
                state=state,
                plan=session.plan,
                results=results,
                used=folder.read_provenance(),
                rules=session.judgement.rules,
                past=past,
                sections=(
                    *session.judgement.lines(*_planned(session)),
                    *more,
                    *left_lines(session.plan, results, folder, session.runs.parent),
                    *(measured.lines() if measured else ()),
                ),
                notes=(*problem, *_unmasked(session, folder)),
                reasons=reasons,
            )
        )
        metrics = past.metrics() if past else ()
    clean = without_secrets(report, session.masker)
    # With its templates; a refusal, or a worker's build, need not wait for them.
    from exacthead.report.pages import Pages

    pages = Pages(folder, clean, session.harness.root, metrics, session.masker.text)
    Publisher(folder, session.console, session.say, session.notify, pages).publish(clean)
    session.console.out(counts(totals))
    return exit_code(state)


def _measure(session: Session, folder: RunFolder) -> Measured | None:
    if not (session.gate or any(item.measured for item in session.plan.items)):
        return None
    # Coverage is slow to import, and a job can do without.
    from exacthead.measured import measure

    base = session.base if session.gate else ""
    return measure(session.harness, session.plan, folder, base)


def _history(
    session: Session, folder: RunFolder, held: ExitStack
) -> tuple[PastRuns | None, tuple[str, ...]]:
    """The history with this run in it, or why there is none; a run can do without."""
    try:
        connection = held.enter_context(closing(open_history(session.runs)))
        sync(connection, session.judgement.history, session.harness.root)
    except HarnessError as error:
        return None, (f"no history: {error}",)
    parts = folder.read_provenance().parts
    return PastRuns.read(connection, folder.run_id, session.plan.runner, parts), ()


def _planned(session: Session) -> tuple[list[str], list[str]]:
    """All planned tests, and the files of which every collected test was planned."""
    shards = [item.shard for item in session.plan.items if item.shard]
    nodeids = [nodeid for shard in shards for nodeid in shard.nodeids]
    parts = Counter((shard.suite, shard.of) for shard in shards)
    whole = [
        shard for shard in shards if shard.complete and parts[shard.suite, shard.of] == shard.of
    ]
    files = {file_of(nodeid) for shard in whole for nodeid in shard.nodeids}
    paths = {path for shard in whole for path in shard.paths}
    gone = gone_files(session.judgement.known.entries, session.harness.root, paths)
    return nodeids, sorted(files | gone)


def _unmasked(session: Session, folder: RunFolder) -> tuple[str, ...]:
    """What is known to hold a secret still."""
    masker = session.masker
    short = tuple(f"the value of {name} is too short to be masked" for name in masker.unfit)
    patch = folder.path / "changes.diff"
    if not patch.exists() or not masker.holds_value(patch.read_text(errors="replace")):
        return short
    return (*short, "changes.diff holds a secret, as the checkout does")


def _lost(totals: Totals) -> tuple[str, ...]:
    """Results that were written and are there no more, a reason each."""
    return tuple(f"{label} was written, and cannot be read any more" for label in totals.broken)
