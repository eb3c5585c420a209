"""Running a plan: a run folder, workers, every item in isolation, one summary for all readers."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from exacthead import junit
from exacthead.changes import Changes, read_changes
from exacthead.conclude import conclude, counts
from exacthead.ended import Ended
from exacthead.equip import ready
from exacthead.errors import HarnessError
from exacthead.evidence import evidence
from exacthead.git import git
from exacthead.head import read_head
from exacthead.history.database import open_history, sync
from exacthead.patch import keep_changes, read_kept
from exacthead.prefix import Prefixed
from exacthead.report.build import Sources, build
from exacthead.report.past import PastRuns
from exacthead.report.publish import Publisher
from exacthead.request import give_order, make_request
from exacthead.runs.execute import Execution, exit_code, not_run
from exacthead.runs.files import write_text
from exacthead.runs.folder import RunFolder, State
from exacthead.runs.interrupt import Interrupts
from exacthead.shards.nodeid import file_of
from exacthead.triage.check import gone_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from exacthead.config import Harness
    from exacthead.images.place import InImage
    from exacthead.judgement import Judgement
    from exacthead.junit import Totals
    from exacthead.measured import Measured
    from exacthead.plan import Item, Plan
    from exacthead.runs.item import ItemOutcome, ItemRequest
    from exacthead.runs.result import ItemResult
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Built, Store

RED = 1


@dataclass(frozen=True)
class Session:
    """One call of a command that runs items.

    Attributes:
        harness: the declarations of the checkout that is run.
        plan: what is run.
        specs: the specs of its workers, by name.
        store: where its workers are or will be.
        console: where progress and summary go.
        runs: the folder of all runs.
        judgement: what is known of faults, read before anything was collected or run.
        remarks: what every item's report must say (a difference from the run that it repeats).
        held: the workers that the caller has made ready and holds; None to make them ready here.
        logs: item id -> what planning wrote of an item that is settled.
        base: the revision that the change is compared with; empty for none.
        gate: whether the change's coverage must reach its limit; needs ``base``.
        inside: the image of each item, by its id; empty outside of images.
        notify: the address that the verdict is posted to; empty for none.
    """

    harness: Harness
    plan: Plan
    specs: Mapping[str, Spec]
    store: Store
    console: Console
    runs: Path
    judgement: Judgement
    remarks: tuple[str, ...] = ()
    held: Mapping[str, Built] | None = None
    logs: Mapping[str, str] = field(default_factory=dict)
    base: str = ""
    gate: bool = False
    inside: Mapping[str, InImage] = field(default_factory=dict)
    notify: str = ""
    _prefixed: Prefixed = field(default_factory=lambda: Prefixed(sys.stdout), init=False)

    def run(self) -> int:
        """Build, run and report; returns the process's exit code."""
        return self.run_in(self.new_folder())

    def new_folder(self) -> RunFolder:
        """A run folder for the plan."""
        return RunFolder.create(self.runs, self.plan.as_data(), str(self.plan.head))

    def run_in(self, folder: RunFolder) -> int:
        """The same as :meth:`run`, in a folder that :meth:`new_folder` made."""
        try:
            return self._run(folder)
        except HarnessError as error:
            # Something has begun, so this is red and no refusal; most often the disk is full.
            self.say(str(error))
            return RED

    def say(self, line: str) -> None:
        """One line of progress."""
        self.console.out(f"exacthead: {line}")

    def _run(self, folder: RunFolder) -> int:
        with ExitStack() as held:
            try:
                self.say(f"run folder {folder.path}")
                if self.plan.head.dirty:
                    keep_changes(self.harness.root, folder.path)
                workers = self.held
                if workers is None:
                    workers = held.enter_context(
                        ready(self.harness, dict(self.specs), self.store, self.say)
                    )
                interrupts = held.enter_context(Interrupts())
            except KeyboardInterrupt:
                reason = "interrupted while its workers were made ready"
                with Interrupts():  # the wish often comes twice, and this is its answer
                    return self._none_ran(folder, State.INTERRUPTED, reason)
            except HarnessError as error:
                self.say(str(error))
                return self._none_ran(folder, State.FAILED, str(error))
            images = {place.name: place.image for place in self.inside.values()}
            provenance = evidence(self.harness, self.plan, self.specs, workers, images)
            folder.write_provenance(provenance)
            requests = self._requests(folder, workers)
            execution = Execution(
                folder, interrupts, conclude=self._conclude, echo=self._prefixed.write
            )
            state, results = execution.run(requests)
            if changed := self._changed(folder):
                folder.write_provenance(provenance.model_copy(update={"changed": changed}))
            return self._report(folder, state, results)

    def _changed(self, folder: RunFolder) -> tuple[str, ...]:
        """How the checkout is not what it was when the plan was made; then no head tells what ran.

        Raises:
            HarnessError: it is no checkout any more.
        """
        root, then = self.harness.root, self.plan.head
        if git(root, "rev-parse", "HEAD") != then.commit:
            return (f"its head is {read_head(root)} now",)
        kept = read_kept(folder.path) if then.dirty else None
        before = kept.changes if kept else Changes(then.tree)
        after = read_changes(root)
        if before.content == after.content != then.content:
            return ("it was edited after it was planned",)
        return tuple(after.unlike(before))

    def _none_ran(self, folder: RunFolder, state: State, reason: str) -> int:
        """Every item gets its verdict and files also when there was no worker to run it in."""
        folder.write_provenance(evidence(self.harness, self.plan, self.specs, {}))
        results = []
        for request in self._requests(folder, {}):
            result = self._conclude(request, not_run(request, reason))
            request.folder.write_result(result)
            results.append(result)
        folder.write_state(state, {each.item_id: str(each.verdict.kind) for each in results})
        return self._report(folder, state, results)

    def _requests(self, folder: RunFolder, workers: Mapping[str, Built]) -> list[ItemRequest]:
        pythons = {name: worker.python for name, worker in workers.items()}
        requests = []
        for item in self.plan.items:
            place = self.inside.get(item.id)
            inside = replace(place, run=folder.path.name) if place else None
            into = folder.item(item.id)
            request = make_request(self.harness, item, self.specs, pythons, into, inside)
            if log := self.logs.get(item.id):
                write_text(request.folder.log, log)
            requests.append(give_order(self.harness, item, request, pythons, self.specs))
        return requests

    def _conclude(self, request: ItemRequest, outcome: ItemOutcome) -> ItemResult:
        self._prefixed.finish(request.item_id)
        item = self.plan.item(request.item_id)
        ended = Ended(item, request, outcome, self._properties(item))
        result = conclude(ended, self.judgement)
        return result.model_copy(
            update={
                "required": item.required,
                "reproduction": self._reproduction(request),
                "workers": tuple(sorted(set(item.workers.values()))),
                "notes": (*self.remarks, *item.notes, *result.notes),
            }
        )

    def _properties(self, item: Item) -> dict[str, str]:
        """What every JUnit file says of how its results came about."""
        keys = {f"worker:{role}": self.plan.keys[name] for role, name in item.workers.items()}
        return {"head": str(self.plan.head), "seed": str(item.seed), **keys}

    def _reproduction(self, request: ItemRequest) -> str:
        """One line for a shell in the checkout that holds the runs."""
        run = request.folder.path.parent.parent
        home = self.runs.parent
        shown = run.relative_to(home) if run.is_relative_to(home) else run
        # Where the harness is installed and not part of the repository, there is no noxw.
        noxw = (home / "noxw").exists()
        command = "./noxw -s reproduce --" if noxw else "python -m exacthead reproduce"
        return f"{command} {shlex.quote(f'{shown}/{request.item_id}')}"

    def _report(self, folder: RunFolder, state: State, results: Sequence[ItemResult]) -> int:
        """Everything that is said of the run, the closing line last; returns the exit code."""
        measured = self._measure(folder)
        # A file that is missing shows as an error in the merged one.
        files = [folder.item_path(result.item_id).junit for result in results]
        totals = junit.merge(files, folder.path / "junit.xml")
        reasons = (*_lost(totals), *(measured.reasons if measured else ()))
        if reasons and state is State.PASSED:
            state = State.FAILED
            folder.write_state(state, {each.item_id: str(each.verdict.kind) for each in results})
        for doubt in totals.doubts:
            self.say(f"junit.xml: {doubt}")
        past, problem = self._history(folder)
        report = build(
            Sources(
                root=self.harness.root,
                folder=folder,
                state=state,
                plan=self.plan,
                results=results,
                used=folder.read_provenance(),
                rules=self.judgement.rules,
                past=past,
                sections=(
                    *self.judgement.lines(*self._planned()),
                    *(measured.lines() if measured else ()),
                ),
                notes=problem,
                reasons=reasons,
            )
        )
        metrics = past.metrics() if past else ()
        root = self.harness.root
        Publisher(folder, self.console, self.say, self.notify, root, metrics).publish(report)
        self.console.out(counts(totals))
        return exit_code(state)

    def _history(self, folder: RunFolder) -> tuple[PastRuns | None, tuple[str, ...]]:
        """The history with this run in it, or why there is none; a run can do without."""
        try:
            connection = open_history(self.runs)
            sync(connection, self.judgement.history, self.harness.root)
        except HarnessError as error:
            return None, (f"no history: {error}",)
        return PastRuns.read(connection, folder.run_id, self.plan.runner), ()

    def _measure(self, folder: RunFolder) -> Measured | None:
        if not (self.gate or any(item.measured for item in self.plan.items)):
            return None
        # Coverage is slow to import, and a job can do without.
        from exacthead.measured import measure

        return measure(self.harness, self.plan, folder, self.base if self.gate else "")

    def _planned(self) -> tuple[list[str], list[str]]:
        """All planned tests, and the files of which every collected test was planned."""
        shards = [item.shard for item in self.plan.items if item.shard]
        nodeids = [nodeid for shard in shards for nodeid in shard.nodeids]
        parts = Counter((shard.suite, shard.of) for shard in shards)
        whole = [
            shard for shard in shards if shard.complete and parts[shard.suite, shard.of] == shard.of
        ]
        files = {file_of(nodeid) for shard in whole for nodeid in shard.nodeids}
        paths = {path for shard in whole for path in shard.paths}
        gone = gone_files(self.judgement.known.entries, self.harness.root, paths)
        return nodeids, sorted(files | gone)


def _lost(totals: Totals) -> tuple[str, ...]:
    """Results that were written and are there no more, a reason each."""
    return tuple(f"{label} was written, and cannot be read any more" for label in totals.broken)
