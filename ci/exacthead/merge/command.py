"""The commands that join runs: merge run folders of one plan, and retry what was not green."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.earlier import find_run, not_green
from exacthead.equip import open_store
from exacthead.errors import HarnessError
from exacthead.head import read_head
from exacthead.judgement import judgement
from exacthead.merge.account import account
from exacthead.merge.fold import fold, keep_changes_of, provenance_of
from exacthead.merge.parts import find_parts
from exacthead.opening import invocation
from exacthead.plan import read_plan
from exacthead.reporting import report_run
from exacthead.reproduce.past import Past
from exacthead.reproduce.repeat import again
from exacthead.runs.execute import state_of
from exacthead.runs.render import plain
from exacthead.session import Session

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from exacthead.config import Harness
    from exacthead.merge.account import Account
    from exacthead.merge.parts import Part
    from exacthead.plan import Item, Plan
    from exacthead.runs.folder import RunFolder


def merge(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Merge run folders of one plan into one run."""
    plan = read_plan(Path(arguments.plan))
    folders = [Path(folder) for folder in arguments.folders]
    if arguments.onto:
        # Of another head it says nothing of this one.
        earlier = read_plan(Path(arguments.onto) / "plan.json")
        if (earlier.head.commit, earlier.head.content) == (plan.head.commit, plan.head.content):
            plan, folders = earlier, [Path(arguments.onto), *folders]
        else:
            console.out(f"exacthead: {arguments.onto} is of head {earlier.head}: not merged onto")
    runs = harness.root / "runs"
    return merge_runs(harness, plan, folders, runs, console, notify=arguments.notify)


def merge_runs(  # noqa: PLR0913 - what a merged run is made of
    harness: Harness,
    plan: Plan,
    folders: Iterable[Path],
    runs: Path,
    console: Console,
    *,
    notify: str = "",
) -> int:
    """Merge the runs at or below some folders into a new one, and report it as a run is reported.

    Args:
        harness: the declarations of a checkout at the plan's head.
        plan: what was expected.
        folders: run folders, or folders of these, in any order.
        runs: where the new one is made.
        console: where the summary goes.
        notify: the address that the verdict is posted to; empty for none.

    Returns:
        The exit code: 0 when every required item of the plan is there and green.

    Raises:
        HarnessError: the checkout is not the plan's head, or the new folder cannot be written.
    """
    head = read_head(harness.root)
    if (head.commit, head.content) != (plan.head.commit, plan.head.content):
        raise HarnessError(
            f"merge runs of head {plan.head}",
            f"the checkout is at {head}",
            f"check out {plan.head.commit}: coverage is told from its sources",
        )
    parts, problems = find_parts(folders)
    known = judgement(harness.root, runs, plan.runner, plan.head)
    accounts, left_out = account(plan, parts)
    told = replace(plan, items=tuple(_with_tests(each) for each in accounts))
    store = open_store(harness.root)
    session = Session(harness, told, {}, store, console, runs, known, notify=notify)
    folder = session.new_folder()
    session.say(f"run folder {folder.path}, of {len(parts)} merged")
    accounts = [_shown_again(session, folder, each) for each in accounts]
    fold(folder, accounts)
    keep_changes_of(parts, folder)
    folder.write_provenance(session.clean(provenance_of(plan, parts)))
    results = [each.result for each in accounts]
    state = state_of(results)
    folder.write_state(state, {each.item_id: str(each.verdict.kind) for each in results})
    sections = [*_attempts(accounts), *_left_out([*problems, *left_out, *_keys(plan, parts)])]
    return report_run(session, folder, state, results, sections)


def _with_tests(each: Account) -> Item:
    """The item with its tests, also where the plan was made before anybody knew them."""
    last = each.last
    if each.item.shard or last is None or each.item.kind != "suite":
        return each.item
    return replace(each.item, shard=last.item.shard, settled=last.item.settled)


def _shown_again(session: Session, folder: RunFolder, each: Account) -> Account:
    """The account with the line that runs the item again from the merged run, without secrets."""
    line = session.reproduction(folder.item_path(each.item.id), each.item.id)
    result = each.result.model_copy(update={"reproduction": line})
    return replace(each, result=session.clean(result))


def _attempts(accounts: Iterable[Account]) -> list[str]:
    """The section of items that were run more than once; none when there is no such item."""
    lines = []
    for each in accounts:
        if len(each.attempts) > 1:
            said = "; ".join(
                f"run {plain(attempt.run)} {plain(str(attempt.result.verdict))}"
                for attempt in each.attempts
            )
            lines.append(f"- {plain(each.item.id)}: {said}")
    return ["## Attempts", "", *lines, ""] if lines else []


def _left_out(sentences: Sequence[str]) -> list[str]:
    if not sentences:
        return []
    return ["## Not as planned", "", *(f"- {plain(each)}" for each in sentences), ""]


def _keys(plan: Plan, parts: Iterable[Part]) -> list[str]:
    """Workers that had other keys where they ran: another interpreter, another installer."""
    return sorted(
        {
            f"worker {name} had key {key[:12]}, and {plan.keys[name][:12]} was planned"
            for part in parts
            for name, key in part.plan.keys.items()
            if name in plan.keys and key != plan.keys[name]
        }
    )


def retry(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run what was not green in an earlier run once more, and merge both runs."""
    earlier = find_run(harness.root, arguments.run_folder)
    folder, plan = earlier.path, read_plan(earlier.path / "plan.json")
    asked, red = f"retry {arguments.run_folder}", not_green(earlier, plan)
    if not red:
        raise HarnessError(asked, "every item in it is green", "there is nothing to do")
    items = tuple(item for item in plan.items if item.id in red and item.settled is None)
    if not items:
        settled = ", ".join(f"{item.id}: {item.settled}" for item in plan.items if item.id in red)
        todo = "mend what it says, and plan again: run -- --only-failed-of RUN"
        raise HarnessError(asked, f"its plan has settled what is red: {settled}", todo)
    past = Past(folder, replace(plan, items=items))
    with again(harness, past, console, invocation()) as session:
        new = session.new_folder()
        session.run_in(new)
        runs, notify = harness.root / "runs", arguments.notify
        both = [folder, new.path]
        return merge_runs(session.harness, plan, both, runs, console, notify=notify)
