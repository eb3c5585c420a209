"""Running a plan: workers, then every item in isolation, then one summary for all readers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from exacthead import junit
from exacthead.conclude import conclude
from exacthead.equip import ready
from exacthead.runs.execute import Execution, exit_code
from exacthead.runs.files import write_text
from exacthead.runs.folder import RunFolder
from exacthead.runs.interrupt import Interrupts
from exacthead.runs.item import ItemRequest
from exacthead.runs.provenance import WorkerUse, gather
from exacthead.runs.render import markdown, show
from exacthead.runs.summary import summarize
from exacthead.workers.lock import lock_path

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.plan import Item, Plan
    from exacthead.runs.item import ItemOutcome
    from exacthead.runs.result import ItemResult
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Built


@dataclass(frozen=True)
class Session:
    """One call of a command that runs items.

    Attributes:
        harness: the declarations of the checkout that is run.
        plan: what is run.
        specs: the specs of its workers, by name.
        console: where progress and summary go.
        runs: the folder of all runs, when it is not the checkout's own.
    """

    harness: Harness
    plan: Plan
    specs: dict[str, Spec]
    console: Console
    runs: Path | None = None

    def run(self) -> int:
        """Build, run and report; returns the process's exit code."""
        with ready(self.harness, self.specs, self.say) as workers:
            runs = self.runs or self.harness.root / "runs"
            folder = RunFolder.create(runs, self.plan.as_data(), str(self.plan.head))
            folder.write_provenance(self._provenance(workers))
            self.say(f"run folder {folder.path}")
            requests = [self._request(item, workers, folder) for item in self.plan.items]
            with Interrupts() as interrupts:
                execution = Execution(
                    folder, interrupts, conclude=self._conclude, echo=self._echo
                )
                state, results = execution.run(requests)
            summary = summarize(state, results, folder.read_provenance(), folder.path)
            write_text(folder.summary, markdown(summary))
            self._merge_junit(folder, requests)
            show(summary, self.console)
            return exit_code(state)

    def say(self, line: str) -> None:
        """One line of progress."""
        self.console.print(f"exacthead: {line}", markup=False, highlight=False, soft_wrap=True)

    def _echo(self, item_id: str, text: str) -> None:
        for line in text.splitlines():
            sys.stdout.write(f"{item_id} | {line}\n")
        sys.stdout.flush()

    def _request(self, item: Item, workers: dict[str, Built], folder: RunFolder) -> ItemRequest:
        """The item with its placeholders filled and its workers' interpreters named."""
        into = folder.item(item.id)
        pythons = {role: str(workers[name].python) for role, name in item.workers.items()}
        filled = {f"{{python:{role}}}": python for role, python in pythons.items()}
        filled["{folder}"] = str(into.path)
        command = []
        for word in item.command:
            for placeholder, value in filled.items():
                word = word.replace(placeholder, value)  # noqa: PLW2901
            command.append(word)
        root = self.harness.root
        declared = {
            name: value for spec in self._specs_of(item) for name, value in spec.environment
        }
        return ItemRequest(
            item_id=item.id,
            command=tuple(command),
            cwd=root,
            folder=into,
            timeout_s=item.timeout_s,
            environment={
                **declared,
                **item.environment,
                "EXACTHEAD_SEED": str(item.seed),
                "PYTHONHASHSEED": str(item.seed),
                "EXACTHEAD_ITEM_DIR": str(into.path),
                **{
                    f"EXACTHEAD_PYTHON_{role.upper().replace('-', '_')}": python
                    for role, python in pythons.items()
                },
            },
            pythonpath=tuple((root / path).resolve() for path in self.harness.project.pythonpath),
        )

    def _specs_of(self, item: Item) -> list[Spec]:
        return [self.specs[name] for name in sorted(set(item.workers.values()))]

    def _conclude(self, request: ItemRequest, outcome: ItemOutcome) -> ItemResult:
        item = self.plan.item(request.item_id)
        run = request.folder.path.parent.parent
        result = conclude(self.harness.root, item, request, outcome, self._properties(item))
        line = f"./noxw -s reproduce -- {_relative(run, self.harness.root)}/{item.id}"
        return result.model_copy(
            update={"reproduction": line, "workers": tuple(sorted(set(item.workers.values())))}
        )

    def _properties(self, item: Item) -> dict[str, str]:
        """What every JUnit file says of how its results came about."""
        keys = {f"worker:{role}": self.plan.keys[name] for role, name in item.workers.items()}
        return {"head": str(self.plan.head), "seed": str(item.seed), **keys}

    def _provenance(self, workers: dict[str, Built]) -> object:
        harness = self.harness
        uses = [
            WorkerUse(
                name=name,
                key=worker.key,
                flavour=self.plan.flavour,
                interpreter=f"{self.specs[name].interpreter.implementation}"
                f" {self.specs[name].interpreter.version}",
                how="provided"
                if self.specs[name].provided
                else "reused"
                if worker.reused
                else "built",
                seconds=round(worker.timings["total"], 3),
                notes=self.specs[name].notes,
                packages=tuple(self.specs[name].lock.split()) if self.specs[name].provided else (),
            )
            for name, worker in workers.items()
        ]
        locks = {
            name: lock_path(harness.root, name, self.plan.flavour)
            for name, spec in self.specs.items()
            if not spec.provided
        }
        return gather(self.plan.head, workers=uses, locks=locks, fixtures={})

    def _merge_junit(self, folder: RunFolder, requests: list[ItemRequest]) -> None:
        files = [request.folder.junit for request in requests if request.folder.junit.exists()]
        junit.merge(files, folder.path / "junit.xml")


def _relative(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path
