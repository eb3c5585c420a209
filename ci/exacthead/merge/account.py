"""Account: what became of each item of a plan, from all attempts at it in whatever order."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from exacthead.runs.gates import Gates
from exacthead.runs.result import ItemResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from exacthead.merge.parts import Attempt, Part
    from exacthead.plan import Item, Plan

LOST = "lost"
_NEVER_RAN = frozenset({Kind.NOT_RUN, Kind.INTERRUPTED})
# What an item may have otherwise in another plan: it is still the same thing that was run.
_FREE = frozenset({"notes", "required", "needs", "settled", "timeout_s"})
_SHOWN = 3


@dataclass(frozen=True)
class Account:
    """One planned item.

    Attributes:
        item: as the plan has it.
        attempts: at it, in their order; none when it is lost, or was never to run.
        result: the last word.
    """

    item: Item
    attempts: tuple[Attempt, ...]
    result: ItemResult

    @property
    def last(self) -> Attempt | None:
        """The attempt whose result counts."""
        return _last(self.attempts)


def account(plan: Plan, parts: Iterable[Part]) -> tuple[list[Account], list[str]]:
    """Account for every item of a plan.

    The last attempt that ran decides. An item without any is what the plan says of it where that
    is settled, else ``not_run``: for its gate, or because it was lost.

    Args:
        plan: what was expected.
        parts: what there is, in any order.

    Returns:
        The items in the plan's order, and sentences on what was left out and why.
    """
    attempts: dict[str, dict[str, Attempt]] = {item.id: {} for item in plan.items}
    lost: dict[str, set[str]] = {}
    left_out: set[str] = set()
    planned = {item.id: item for item in plan.items}
    for part in parts:
        for item_id, why in part.lost.items():
            lost.setdefault(item_id, set()).add(why)
        foreign = _foreign(plan, part)
        for attempt in part.attempts:
            wrong = foreign or _unlike(planned.get(attempt.item.id), attempt.item)
            if wrong:
                said = f"run {attempt.run} has {attempt.item.id}, {wrong}"
                left_out.add(said)
                lost.setdefault(attempt.item.id, set()).add(said)
            else:
                attempts[attempt.item.id].setdefault(attempt.run, attempt)
    gates = Gates.of(plan.items)
    verdicts: dict[str, Verdict] = {}
    accounts = []
    for item in plan.items:
        tried = tuple(sorted(attempts[item.id].values(), key=lambda each: each.order))
        closed = gates.closed(item.id, verdicts)
        result = _result(item, tried, closed, sorted(lost.get(item.id, ())))
        verdicts[item.id] = result.verdict
        accounts.append(Account(item, tried, result))
    return accounts, sorted(left_out)


def _result(item: Item, tried: tuple[Attempt, ...], closed: str, lost: list[str]) -> ItemResult:
    last = _last(tried)
    if last is not None:
        earlier = tuple(
            f"attempt {number} of {len(tried)}, in run {each.run}: {_words(each.result.verdict)}"
            for number, each in enumerate(tried, 1)
            if each is not last
        )
        update = {"required": item.required, "notes": (*last.result.notes, *earlier)}
        return last.result.model_copy(update=update)
    if item.settled is not None:
        verdict = item.settled
    elif closed:
        verdict = Verdict(Kind.NOT_RUN, closed)
    else:
        why = "; ".join(lost[:_SHOWN]) or "no run folder has it"
        verdict = Verdict(Kind.NOT_RUN, f"{LOST}: {why}")
    return ItemResult(
        item_id=item.id,
        verdict=verdict,
        required=item.required,
        workers=tuple(sorted(set(item.workers.values()))),
        notes=item.notes,
    )


def _last(tried: tuple[Attempt, ...]) -> Attempt | None:
    """The last attempt that ran; where none did, the last one."""
    ran = tuple(each for each in tried if each.result.verdict.kind not in _NEVER_RAN)
    return (ran or tried)[-1] if tried else None


def _words(verdict: Verdict) -> str:
    return f"{verdict.kind}: {' '.join(verdict.reason.split())}" if verdict.reason else "passed"


def _foreign(plan: Plan, part: Part) -> str:
    """Why nothing of a run can be about this plan; empty when it can."""
    head = part.plan.head
    if (head.commit, head.content) != (plan.head.commit, plan.head.content):
        return f"but at head {head}, and this is {plan.head}"
    if part.plan.flavour != plan.flavour:
        return f"but on {part.plan.flavour}, and this is for {plan.flavour}"
    return ""


def _unlike(planned: Item | None, ran: Item) -> str:
    """Why an item is not the one that was planned; empty when it is."""
    if planned is None:
        return "which the plan has not"
    if planned.shard is not None and ran.shard is not None:
        expected, there = set(planned.shard.nodeids), set(ran.shard.nodeids)
        if expected != there:
            missing, more = sorted(expected - there), sorted(there - expected)
            return f"but other tests: {_some('without', missing)}{_some('and with', more)}".strip()
    now = _facts(ran)
    differing = [name for name, value in _facts(planned).items() if value != now[name]]
    return f"but with another {', '.join(differing)}" if differing else ""


def _facts(item: Item) -> Mapping[str, object]:
    facts = {name: value for name, value in asdict(item).items() if name not in _FREE}
    # The tests of a shard are compared one by one, where the plan knows them; its number is in the
    # id. How they are placed may differ by machine.
    del facts["shard"]
    return facts


def _some(word: str, nodeids: list[str]) -> str:
    if not nodeids:
        return ""
    more = f" and {len(nodeids) - _SHOWN} more" if len(nodeids) > _SHOWN else ""
    return f"{word} {', '.join(nodeids[:_SHOWN])}{more} "
