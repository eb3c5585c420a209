"""Running a plan: a run folder, workers, every item in isolation, one summary for all readers."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead import junit
from exacthead.blocks import watching
from exacthead.changes import Changes, read_changes
from exacthead.conclude import conclude, counts
from exacthead.ended import Ended
from exacthead.equip import ready
from exacthead.errors import HarnessError
from exacthead.evidence import evidence
from exacthead.git import git
from exacthead.head import read_head
from exacthead.pace import Pace
from exacthead.patch import keep_changes, read_kept
from exacthead.request import give_order, make_request
from exacthead.resume import left_lines, reproduce_line
from exacthead.runs.execute import Execution, exit_code, not_run
from exacthead.runs.files import write_text
from exacthead.runs.folder import RunFolder, State
from exacthead.runs.gates import Gates
from exacthead.runs.interrupt import Interrupts
from exacthead.runs.render import markdown, plain, show
from exacthead.runs.summary import summarize
from exacthead.shards.nodeid import file_of
from exacthead.triage.check import gone_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from exacthead.config import Harness
    from exacthead.images.place import InImage
    from exacthead.judgement import Judgement
    from exacthead.junit import Totals
    from exacthead.measured import Measured
    from exacthead.plan import Item, Plan
    from exacthead.runs.folder import ItemFolder
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
        pace: how many items run at once.
        kept: the results of items that have run already in the same folder, by their ids.
        changed: how the checkout was changed while these ran.
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
    pace: Pace = field(default_factory=Pace)
    kept: Mapping[str, ItemResult] = field(default_factory=dict)
    changed: tuple[str, ...] = ()

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
            capacity = self.pace.capacity(len(requests))
            with watching(self.console, len(requests), at_once=self.pace.at_once) as watch:
                execution = Execution(
                    folder,
                    interrupts,
                    conclude=self._conclude,
                    capacity=capacity,
                    watch=watch,
                    gates=Gates.of(self.plan.items),
                    fail_fast=self.pace.fail_fast,
                    kept=tuple(self.kept.values()),
                )
                state, results = execution.run(requests)
            if changed := (*self.changed, *self._changed(folder)):
                unlike = tuple(dict.fromkeys(changed))
                folder.write_provenance(provenance.model_copy(update={"changed": unlike}))
            return self.report(folder, state, results)

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
        results = list(self.kept.values())
        for request in self._requests(folder, {}):
            result = self._conclude(request, not_run(request, reason))
            request.folder.write_result(result)
            results.append(result)
        folder.write_state(state, {each.item_id: str(each.verdict.kind) for each in results})
        return self.report(folder, state, results)

    def _requests(self, folder: RunFolder, workers: Mapping[str, Built]) -> list[ItemRequest]:
        pythons = {name: worker.python for name, worker in workers.items()}
        requests = []
        for item in self.plan.items:
            if item.id in self.kept:
                continue
            place = self.inside.get(item.id)
            inside = replace(place, run=folder.path.name) if place else None
            into = folder.item(item.id)
            request = make_request(self.harness, item, self.specs, pythons, into, inside)
            if log := self.logs.get(item.id):
                write_text(request.folder.log, log)
            requests.append(give_order(self.harness, item, request, pythons, self.specs))
        return requests

    def _conclude(self, request: ItemRequest, outcome: ItemOutcome) -> ItemResult:
        item = self.plan.item(request.item_id)
        ended = Ended(item, request, outcome, self._properties(item))
        result = conclude(ended, self.judgement)
        return result.model_copy(
            update={
                "required": item.required,
                "reproduction": self.reproduction(request.folder, request.item_id),
                "workers": tuple(sorted(set(item.workers.values()))),
                "notes": (*self.remarks, *item.notes, *result.notes),
            }
        )

    def _properties(self, item: Item) -> dict[str, str]:
        """What every JUnit file says of how its results came about."""
        keys = {f"worker:{role}": self.plan.keys[name] for role, name in item.workers.items()}
        return {"head": str(self.plan.head), "seed": str(item.seed), **keys}

    def reproduction(self, folder: ItemFolder, item_id: str) -> str:
        """What runs an item again: one line for a shell in the checkout that holds the runs."""
        run = folder.path.parent.parent
        return reproduce_line(self.runs.parent, run, item=item_id)

    def report(
        self,
        folder: RunFolder,
        state: State,
        results: Sequence[ItemResult],
        more: Sequence[str] = (),
    ) -> int:
        """The same text for the folder, the terminal and the CI system; the closing line last.

        Args:
            folder: the run's; all its items are there.
            state: what became of it so far; without its JUnit or its coverage it is no pass.
            results: of its items.
            more: lines of Markdown that its report begins its sections with.

        Returns:
            The exit code.
        """
        place = {item.id: number for number, item in enumerate(self.plan.items)}
        results = sorted(results, key=lambda each: place[each.item_id])
        measured = self._measure(folder)
        # A file that is missing shows as an error in the merged one.
        files = [folder.item_path(result.item_id).junit for result in results]
        totals = junit.merge(files, folder.path / "junit.xml")
        red = bool(totals.broken) or (measured is not None and not measured.green)
        if red and state is State.PASSED:
            state = State.FAILED
            folder.write_state(state, {each.item_id: str(each.verdict.kind) for each in results})
        sections = (
            *more,
            *_lost(totals),
            *left_lines(self.plan, results, folder, self.runs.parent),
            *self.judgement.lines(*self._planned()),
            *(measured.lines() if measured else ()),
        )
        summary = summarize(state, results, folder.read_provenance(), folder.path, sections)
        text = markdown(summary)
        write_text(folder.summary, text)
        for doubt in totals.doubts:
            self.say(f"junit.xml: {doubt}")
        show(summary, self.console)
        self._append_step_summary(text)
        self.console.out(counts(totals))
        return exit_code(state)

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

    def _append_step_summary(self, text: str) -> None:
        path = os.environ.get("GITHUB_STEP_SUMMARY")
        if not path:
            return
        try:
            with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError as error:
            # The verdict stands; that CI does not show it is said where it can be.
            self.say(f"the step summary {path} cannot be written to: {error.strerror}")


def _lost(totals: Totals) -> list[str]:
    """The section of results that were written and are there no more; none when all are."""
    if not totals.broken:
        return []
    lost = (f"- {plain(label)} was written, and cannot be read any more" for label in totals.broken)
    return ["## Lost results", "", *lost, ""]
