"""Narrowing: options that leave less of a selection, in words, and which of them empties it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from exacthead.selection import Asked

_SHOWN = 8


@dataclass(frozen=True)
class Narrowing:
    """One option that narrows a selection, and what would be asked for without it."""

    words: str
    without: Asked


def narrowings(asked: Asked) -> tuple[Narrowing, ...]:
    """The narrowings of a call, in the order in which options are documented."""
    named = (
        ("--level", asked.levels, replace(asked, levels=())),
        ("--job", asked.jobs, replace(asked, jobs=())),
        ("--suite", asked.suites, replace(asked, suites=())),
        ("--leg", asked.legs, replace(asked, legs=())),
    )
    found = [
        Narrowing(_repeated(option, values), without) for option, values, without in named if values
    ]
    if asked.sharded:
        found.append(Narrowing("--shard", replace(asked, sharded=False)))
    if rev := asked.changed_since:
        found.append(Narrowing(f"--changed-since {rev}", replace(asked, changed_since="")))
    if run := asked.only_failed_of:
        found.append(Narrowing(f"--only-failed-of {run}", replace(asked, only_failed_of="")))
    return tuple(found)


def nothing_selected(
    asked: Asked,
    left_out: Mapping[str, str],
    unnamed: str,
    choose: Callable[[Asked], Collection[str]],
) -> HarnessError:
    """The error that nothing is left.

    Args:
        asked: what was asked for.
        left_out: id of each suite and leg -> what left it out.
        unnamed: the reason that what was not named was left out for.
        choose: the ids that another call would choose.
    """
    # What was named says most: it is what somebody expected to run.
    telling = {name: why for name, why in left_out.items() if why != unnamed} or left_out
    lines = _some([f"{name}: {why}" for name, why in telling.items()])
    options = narrowings(asked)
    if len(options) > 1:
        for option in options:
            if rest := sorted(choose(option.without)):
                lines.append(
                    f"{option.words} empties it: without there is {', '.join(_some(rest))}"
                )
    reasons = "".join(f"\n    {line}" for line in lines)
    words = " ".join(option.words for option in options)
    return HarnessError(
        f"a selection by {words}" if words else "a selection",
        f"nothing is selected{reasons or ': harness.toml declares none'}",
        "name at least one job or suite that all the options leave",
    )


def _repeated(option: str, values: Sequence[str]) -> str:
    return " ".join(f"{option} {value}" for value in values)


def _some(lines: Sequence[str]) -> list[str]:
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return [*lines[:_SHOWN], *more]
