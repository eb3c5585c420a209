"""Selection: which suites and legs a call is about, and why; every session chooses here.

It knows nothing of images, nor of what a machine has: these decide where something runs, never
what.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from exacthead.earlier import Earlier, failed_of
from exacthead.errors import HarnessError, nearest
from exacthead.git import merge_base
from exacthead.impact.changes import changes_since
from exacthead.impact.other import is_prose
from exacthead.narrowing import nothing_selected
from exacthead.suites import in_suite
from exacthead.tables import Level

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from exacthead.config import Harness
    from exacthead.units.shard import Shard

LEVELS: tuple[str, ...] = get_args(Level)
SUITES, LEGS = "suite", "leg"
UNNAMED = "it is not named"

Kind = Literal["suite", "leg"]


@dataclass(frozen=True)
class Asked:
    """What a call asks for; what is empty restricts nothing, and all that is there must hold.

    Attributes:
        levels: ``L0`` to ``L3``.
        jobs: names; with ``suites`` or ``legs`` too, nothing is chosen that is not named.
        suites: names.
        legs: names of legs, of the named jobs or of all.
        kinds: what a session is about.
        sharded: whether one shard is asked for, which only suites have.
        changed_since: a revision: only what a change since then can reach.
        only_failed_of: the folder or id of an earlier run: only its items that were not green.
    """

    levels: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    legs: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ("suite", "leg")
    sharded: bool = False
    changed_since: str = ""
    only_failed_of: str = ""

    @property
    def named(self) -> bool:
        """Whether something is asked for by its name."""
        return bool(self.jobs or self.suites or self.legs)


@dataclass(frozen=True)
class Chosen:
    """One suite or leg that is to run.

    Attributes:
        kind: which of the two.
        name: the suite's or the job's.
        leg: the leg's; empty for a suite.
        level: how much of the stack it needs.
        why: why it was chosen, for people.
        again: of a suite, the shards of an earlier run that it repeats; empty for all its tests.
    """

    kind: Kind
    name: str
    leg: str = ""
    level: str = "L0"
    why: str = ""
    again: tuple[Shard, ...] = ()

    @property
    def id(self) -> str:
        """What it is called: ``unit.SUITE`` or ``JOB.LEG``."""
        return f"{self.name}.{self.leg}" if self.leg else f"unit.{self.name}"


@dataclass(frozen=True)
class Selection:
    """What is to run, in the order of harness.toml, suites first; never empty.

    Attributes:
        chosen: suites and legs.
        left_out: id of what is not -> why not.
        notes: what every report must say of the choice.
    """

    chosen: tuple[Chosen, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def suites(self) -> tuple[str, ...]:
        """The names of the suites."""
        return tuple(each.name for each in self.chosen if each.kind == SUITES)

    @property
    def legs(self) -> dict[str, tuple[str, ...]]:
        """The legs of each job that has any."""
        found: dict[str, tuple[str, ...]] = {}
        for each in self.chosen:
            if each.kind == LEGS:
                found[each.name] = (*found.get(each.name, ()), each.leg)
        return found

    @property
    def again(self) -> dict[str, tuple[Shard, ...]]:
        """The shards of an earlier run that suites repeat, by suite."""
        return {each.name: each.again for each in self.chosen if each.again}


def select(harness: Harness, asked: Asked) -> Selection:
    """Choose among all suites and legs that harness.toml declares.

    Raises:
        HarnessError: an unknown name, each with the nearest; an earlier run that cannot be read; or
            nothing is left, with what each filter left out.
    """
    _check_names(harness, asked)
    earlier = failed_of(harness.root, asked.only_failed_of) if asked.only_failed_of else None
    spared = _spares_legs(harness, asked.changed_since) if asked.changed_since else ""

    def choose(this: Asked) -> tuple[tuple[Chosen, ...], dict[str, str]]:
        red = earlier if this.only_failed_of else None
        return _choose(harness, this, red, spared if this.changed_since else "")

    chosen, left_out = choose(asked)
    if not chosen:
        raise nothing_selected(
            asked, left_out, UNNAMED, lambda this: [each.id for each in choose(this)[0]]
        )
    notes = _gone(earlier, left_out | {each.id: "" for each in chosen}) if earlier else ()
    return Selection(chosen, left_out, notes)


def _choose(
    harness: Harness, asked: Asked, earlier: Earlier | None, spared: str
) -> tuple[tuple[Chosen, ...], dict[str, str]]:
    """What is chosen, and the id of what is not -> why; ``spared`` is why no leg need run."""
    chosen, left_out = [], {}
    for each in _declared(harness, asked):
        why, why_not = _judge(harness, asked, each, earlier)
        if each.kind == LEGS and spared and not why_not:
            why_not = spared
        if why_not:
            left_out[each.id] = why_not
        else:
            again = earlier.shards.get(each.name, ()) if earlier and each.kind == SUITES else ()
            chosen.append(Chosen(each.kind, each.name, each.leg, each.level, why, again))
    return tuple(chosen), left_out


def _declared(harness: Harness, asked: Asked) -> list[Chosen]:
    """All that there is; suites that are named come first, in that order."""
    order = dict.fromkeys((*asked.suites, *harness.suites))
    suites = [Chosen("suite", name, level=harness.suites[name].level) for name in order]
    legs = [
        Chosen("leg", name, leg, job.level)
        for name, job in harness.jobs.items()
        for leg in job.legs
    ]
    return [*suites, *legs]


def _judge(
    harness: Harness, asked: Asked, each: Chosen, earlier: Earlier | None
) -> tuple[str, str]:
    """Why it is chosen, and why it is not; the second is empty when it is."""
    named = _is_named(asked, each)
    declared = harness.suites[each.name] if each.kind == SUITES else harness.jobs[each.name]
    red = earlier.items.get(each.id, "") if earlier else ""
    hindrances = {
        f"this session runs no {each.kind}s": each.kind not in asked.kinds,
        UNNAMED: asked.named and not named,
        f"its level is {each.level}": asked.levels and each.level not in asked.levels,
        "a leg has no shards": asked.sharded and each.kind == LEGS,
        f"it is not red in {earlier.run if earlier else ''}": earlier and not red,
        "it runs on request only": declared.on_request and not named and not red,
    }
    why_not = next((words for words, holds in hindrances.items() if holds), "")
    level = f"level {each.level}" if asked.levels else "by default"
    return red or ("named" if named else level), why_not


def _is_named(asked: Asked, each: Chosen) -> bool:
    if each.kind == SUITES:
        return each.name in asked.suites
    if asked.legs:
        return each.leg in asked.legs and (not asked.jobs or each.name in asked.jobs)
    return each.name in asked.jobs


def _check_names(harness: Harness, asked: Asked) -> None:
    legs = {
        leg
        for name, job in harness.jobs.items()
        if not asked.jobs or name in asked.jobs
        for leg in job.legs
    }
    kinds: tuple[tuple[str, Iterable[str], Iterable[str]], ...] = (
        ("level", asked.levels, LEVELS),
        ("job", asked.jobs, harness.jobs),
        ("suite", asked.suites, harness.suites),
        # Of an unknown job nobody knows the legs.
        ("leg", asked.legs if all(job in harness.jobs for job in asked.jobs) else (), legs),
    )
    problems = [
        f"{what} {name!r}: no such {what}; {nearest(name, known)}"
        for what, names, known in kinds
        for name in names
        if name not in known
    ]
    if problems:
        listed = (
            problems[0] if len(problems) == 1 else "".join(f"\n    {each}" for each in problems)
        )
        raise HarnessError("a selection of what harness.toml declares", listed, "mend these names")


def _gone(earlier: Earlier, declared: Iterable[str]) -> tuple[str, ...]:
    """What was red then and is declared no more: nobody may take it for mended."""
    known = set(declared)
    return tuple(
        f"{item} was red in {earlier.run}, and harness.toml declares it no more"
        for item in earlier.items
        if item not in known
    )


def _spares_legs(harness: Harness, rev: str) -> str:
    """Why no leg need run after what changed; empty when one may be reached.

    A leg starts processes that import and read what no static look tells, so it is spared only by
    changes that cannot be about it: prose, and the tests of suites.
    """
    changes = changes_since(harness.root, merge_base(harness.root, rev))
    harmless = all(is_prose(path) or in_suite(harness, path) for path in changes.files)
    if changes.untold or not harmless:
        return ""
    return (
        f"nothing but prose and tests changed since {rev}"
        if changes.files
        else (f"nothing changed since {rev}")
    )
