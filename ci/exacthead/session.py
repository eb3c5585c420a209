"""Running a plan: a run folder, workers, every item in isolation, one summary for all readers."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from exacthead.blocks import watching
from exacthead.changes import Changes, read_changes
from exacthead.conclude import conclude
from exacthead.ended import Ended
from exacthead.equip import ready
from exacthead.errors import HarnessError
from exacthead.evidence import evidence
from exacthead.git import git
from exacthead.head import read_head
from exacthead.mask import Masker, masked
from exacthead.masked_watch import MaskedWatch
from exacthead.pace import Pace
from exacthead.patch import keep_changes, read_kept
from exacthead.reporting import report_run
from exacthead.request import give_order, make_request
from exacthead.resume import reproduce_line
from exacthead.runs.execute import Execution, not_run
from exacthead.runs.files import write_text
from exacthead.runs.folder import RunFolder, State
from exacthead.runs.gates import Gates
from exacthead.runs.interrupt import Interrupts
from exacthead.units.places import ShardFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import BaseModel
    from rich.console import Console

    from exacthead.config import Harness
    from exacthead.images.place import InImage
    from exacthead.judgement import Judgement
    from exacthead.plan import Item, Plan
    from exacthead.runs.folder import ItemFolder
    from exacthead.runs.item import ItemOutcome, ItemRequest
    from exacthead.runs.result import ItemResult
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Built, Store

RED = 1

Model = TypeVar("Model", bound="BaseModel")


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
    pace: Pace = field(default_factory=Pace)
    kept: Mapping[str, ItemResult] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    notify: str = ""

    def run(self) -> int:
        """Build, run and report; returns the process's exit code."""
        return self.run_in(self.new_folder())

    def new_folder(self) -> RunFolder:
        """A run folder for the plan.

        Raises:
            HarnessError: the plan holds a secret, or the folder cannot be made.
        """
        data = self.plan.as_data()
        # How it was asked for is no part of what is replayed.
        data["invocation"] = self.masker.text(self.plan.invocation)
        if self.masker.holds_value(json.dumps(data)):
            raise HarnessError(
                "a plan without secrets",
                "it holds the value of one that [secrets] names",
                "take it out of harness.toml and of test names; a plan is replayed as it is",
            )
        return RunFolder.create(self.runs, data, str(self.plan.head))

    @cached_property
    def masker(self) -> Masker:
        """What is a secret in this run."""
        return Masker.of(self.harness.masked, os.environ, [self.notify])

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
        self.console.out(f"exacthead: {self.masker.text(line)}")

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
            images = self.inside.values()
            provenance = self.clean(evidence(self.harness, self.plan, self.specs, workers, images))
            folder.write_provenance(provenance)
            requests = self._requests(folder, workers)
            capacity = self.pace.capacity(len(requests))
            with watching(self.console, len(requests), at_once=self.pace.at_once) as watch:
                execution = Execution(
                    folder,
                    interrupts,
                    conclude=self._conclude,
                    clean=self.clean,
                    capacity=capacity,
                    watch=MaskedWatch(watch, self.masker),
                    gates=Gates.of(self.plan.items),
                    fail_fast=self.pace.fail_fast,
                    kept=tuple(self.kept.values()),
                )
                state, results = execution.run(requests)
            if changed := (*self.changed, *self._changed(folder)):
                unlike = tuple(dict.fromkeys(changed))
                folder.write_provenance(provenance.model_copy(update={"changed": unlike}))
            return report_run(self, folder, state, results)

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
        folder.write_provenance(self.clean(evidence(self.harness, self.plan, self.specs, {})))
        results = list(self.kept.values())
        for request in self._requests(folder, {}):
            result = self.clean(self._conclude(request, not_run(request, reason)))
            request.folder.write_result(result)
            results.append(result)
        folder.write_state(state, {each.item_id: str(each.verdict.kind) for each in results})
        return report_run(self, folder, state, results)

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
        # Before anything is read of what it wrote: what is made of that holds no secret either.
        # Only streams are read as they are: a test is found in them by its exact name.
        streams = ShardFiles(request.folder.path).folder
        problems = self.masker.folder(request.folder.path, without=streams)
        item = self.plan.item(request.item_id)
        ended = Ended(item, request, outcome, self._properties(item), self.masker.text)
        result = conclude(ended, self.judgement)
        problems += self.masker.folder(streams)
        # What the process's end said, and names of tests, come into these by other ways.
        for path in (request.folder.junit, request.folder.contract):
            problems += self.masker.tried(path)
        return result.model_copy(
            update={
                "required": item.required,
                "reproduction": self.reproduction(request.folder, request.item_id),
                "workers": tuple(sorted(set(item.workers.values()))),
                "notes": (*self.remarks, *item.notes, *result.notes, *dict.fromkeys(problems)),
            }
        )

    def clean(self, model: Model) -> Model:
        """What is written of a run, without secrets."""
        text = model.model_dump_json()
        if self.masker.text(text) == text:
            return model
        # Text by text: what a form takes out of JSON as a whole may leave no JSON.
        return type(model).model_validate_json(json.dumps(masked(json.loads(text), self.masker)))

    def _properties(self, item: Item) -> dict[str, str]:
        """What every JUnit file says of how its results came about."""
        keys = {f"worker:{role}": self.plan.keys[name] for role, name in item.workers.items()}
        return {"head": str(self.plan.head), "seed": str(item.seed), **keys}

    def reproduction(self, folder: ItemFolder, item_id: str) -> str:
        """What runs an item again: one line for a shell in the checkout that holds the runs."""
        run = folder.path.parent.parent
        return reproduce_line(self.runs.parent, run, item=item_id)
