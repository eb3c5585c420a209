"""Resume: the items of a run that have no verdict, by the same plan, into the same run folder."""

from __future__ import annotations

import itertools
import shlex
from argparse import ArgumentParser
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.head import read_head
from exacthead.plan import read_plan
from exacthead.runs.folder import RunFolder, State
from exacthead.runs.gates import Gates
from exacthead.runs.render import code
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from exacthead.plan import Plan
    from exacthead.runs.result import ItemResult
    from exacthead.verdict import Verdict
    from exacthead.workers.spec import Spec

# Where what an interrupted item has left is kept, in the run folder.
SUPERSEDED = "interrupted"
_NONE = frozenset({Kind.INTERRUPTED, Kind.NOT_RUN})
_DIGITS = 12


def left(plan: Plan, results: Mapping[str, ItemResult]) -> set[str]:
    """The items that have no verdict yet: they never ran, or were ended before their end.

    Behind a gate whose verdict stands and is not green, `not_run` is the verdict: going on would
    come to the same.

    Args:
        plan: the run's.
        results: what there is, by item.
    """
    gates = Gates.of(plan.items)
    standing: dict[str, Verdict] = {}
    found = set()
    for item in plan.items:  # each behind its gates
        result = results.get(item.id)
        ended = result is not None and (
            item.settled is not None
            or result.verdict.kind not in _NONE
            or bool(gates.closed(item.id, standing))
        )
        if result is not None and ended:
            standing[item.id] = result.verdict
        else:
            found.add(item.id)
    return found


def reproduce_line(home: Path, run: Path, item: str = "") -> str:
    """The call that runs one item of a run again, or else goes on with the run.

    Args:
        home: the checkout that holds the runs; a shell in it is meant.
        run: the run folder.
        item: the id of an item.
    """
    shown = str(run.relative_to(home) if run.is_relative_to(home) else run)
    # Where the harness is installed and not part of the repository, there is no noxw.
    noxw = (home / "noxw").exists()
    command = "./noxw -s reproduce --" if noxw else "python -m exacthead reproduce"
    words = (f"{shown}/{item}",) if item else ("--resume", shown)
    return f"{command} {shlex.join(words)}"


def left_lines(
    plan: Plan, results: Iterable[ItemResult], folder: RunFolder, home: Path
) -> list[str]:
    """The section of a report of what has no verdict; none when all have one, or nothing can go on.

    Args:
        plan: the run's.
        results: of its items.
        folder: the run's.
        home: the checkout that holds the runs.
    """
    rest = left(plan, {each.item_id: each for each in results})
    if not rest or plan.images:
        return []
    line = code(reproduce_line(home, folder.path))
    return ["## Left to run", "", f"{len(rest)} without a verdict; go on with {line}", ""]


@dataclass(frozen=True)
class Unfinished:
    """A run that can go on.

    Attributes:
        folder: the run's.
        plan: its plan, word for word.
        kept: the results that stand, by item.
        base: the revision that it compares its change with; empty for none.
        gate: whether it judges the change's coverage.
        changed: how the checkout was changed while it ran.
    """

    folder: RunFolder
    plan: Plan
    kept: Mapping[str, ItemResult]
    base: str
    gate: bool
    changed: tuple[str, ...]

    def check_specs(self, specs: Mapping[str, Spec]) -> None:
        """Refuse workers that are not those of the plan.

        Raises:
            HarnessError: naming them, with both keys.
        """
        other = [
            f"worker {name} is {spec.key[:_DIGITS]}, planned {self.plan.keys[name][:_DIGITS]}"
            for name, spec in specs.items()
            if spec.key != self.plan.keys[name]
        ]
        if other:
            raise HarnessError(_asked(self.folder), "; ".join(other), "make a new run")

    def make_room(self) -> None:
        """Put aside what the items that run anew have left, so that none of it counts as theirs.

        Raises:
            HarnessError: the folder cannot be written to.
        """
        try:
            for item in self.plan.items:
                old = self.folder.item_path(item.id).path
                if item.id not in self.kept and item.settled is None and old.exists():
                    new = self.folder.path / SUPERSEDED / old.name
                    new.mkdir(parents=True, exist_ok=True)
                    free = (new / str(number) for number in itertools.count(1))
                    old.rename(next(path for path in free if not path.exists()))
        except OSError as error:
            todo = "make room or mend its permissions"
            raise HarnessError(_asked(self.folder), str(error), todo) from error


def unfinished(root: Path, path: Path) -> Unfinished:
    """Read a run that is to go on.

    Args:
        root: the checkout, which must be what the plan was made for.
        path: the run folder.

    Raises:
        HarnessError: it is no run, it still runs, it has all its verdicts, it was in images, or the
            checkout is another.
    """
    folder = RunFolder(path.absolute())
    plan = read_plan(folder.path / "plan.json")
    asked = _asked(folder)
    if folder.state() is State.RUNNING:
        raise HarnessError(asked, "it still runs", "wait for its end, or interrupt it")
    if plan.images:
        todo = "reproduce its items one by one: reproduce RUN/ITEM"
        raise HarnessError(asked, "it ran in images, which nothing holds any more", todo)
    now = read_head(root)
    if (now.commit, now.content) != (plan.head.commit, plan.head.content):
        found = f"the checkout is {now}, the run was of {plan.head}"
        same = now.commit == plan.head.commit
        found += ", with other content" if same else ""
        raise HarnessError(asked, found, "check out the same, or make a new run")
    results = {each.item_id: each for each in folder.results()}
    rest = left(plan, results)
    kept = {item.id: results[item.id] for item in plan.items if item.id not in rest}
    if len(kept) == len(plan.items):
        todo = "reproduce RUN/ITEM runs one of them again"
        raise HarnessError(asked, "every item has its verdict", todo)
    told = (folder.path / "provenance.json").exists()
    base, gate = _judged(plan.invocation)
    changed = folder.read_provenance().changed if told else ()
    return Unfinished(folder, plan, kept, base, gate, changed)


def _judged(invocation: str) -> tuple[str, bool]:
    """What the call that made the plan wanted of its judgement, which no plan holds."""
    parser = ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--base", default="")
    parser.add_argument("--gate", action="store_true")
    known, _ = parser.parse_known_args(shlex.split(invocation))
    return known.base, known.gate


def _asked(folder: RunFolder) -> str:
    return f"resume {folder.path}"
