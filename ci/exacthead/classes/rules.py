"""The rule file: an ordered list of what a line must say for a failure to be of a class."""

from __future__ import annotations

import importlib
import re
import tomllib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from exacthead.errors import HarnessError
from exacthead.report.model import Class  # noqa: TC001 - pydantic reads the annotation
from exacthead.tables import Table
from exacthead.verdict import Kind  # noqa: TC001 - pydantic reads the annotation

if TYPE_CHECKING:
    from collections.abc import Iterable

OURS = Path(__file__).with_name("rules.toml")
# Of a repository; its rules come before ours.
THEIRS = Path("ci/failure_classes.toml")

Source = Literal["cause", "text", "log"]
SOURCES: tuple[Source, ...] = ("cause", "text", "log")

# The parser of `re` has no public name; what it gives has been the same since Python 3.11.
_parser = importlib.import_module("re._parser")


class Rule(Table):
    """One ``[[rule]]``; it applies where all that it asks for holds.

    Attributes:
        id: its name, once in a file.
        failure_class: what a failure is, by the key ``class``.
        has: texts of which a line must hold at least one; they are looked for before the pattern.
        pattern: a regular expression that is searched in each such line. Its repetitions are
            possessive (``++``, ``*+``, ``{1,9}+``), so that it never goes back: the time it takes
            is bounded, whatever a log holds.
        sources: where it looks: the one-line cause, the long form of it, the item's log.
        kinds: the verdicts that it is for; every one when empty. Without ``has`` it asks no more.
        leg: whether it is only for legs whose contract is not satisfied.
        group: what failures of one cause share, with the pattern's captures as ``{name}``.
    """

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    failure_class: Class = Field(alias="class")
    has: tuple[str, ...] = ()
    pattern: str = ""
    sources: tuple[Source, ...] = SOURCES
    kinds: tuple[Kind, ...] = ()
    contract: bool = False
    group: str = ""

    @field_validator("pattern")
    @classmethod
    def _never_goes_back(cls, pattern: str) -> str:
        try:
            parsed = _parser.parse(pattern)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from error
        if found := _backtracking(parsed):
            raise ValueError(f"{found}: write it possessive, with a + behind it")
        return pattern

    @model_validator(mode="after")
    def _asks_for_something(self) -> Rule:
        if not (self.has or self.kinds or self.contract):
            raise ValueError("neither has, kinds nor contract: it would apply to everything")
        if self.pattern and not self.has:
            raise ValueError("a pattern without has: every line would be searched for it")
        unknown = set(re.findall(r"\{(\w+)\}", self.group)) - set(self.expression.groupindex)
        if unknown:
            raise ValueError(f"group names {', '.join(sorted(unknown))}, which nothing captures")
        return self

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.pattern)


class Rules(Table):
    """A rule file."""

    rule: tuple[Rule, ...] = ()

    @model_validator(mode="after")
    def _distinct(self) -> Rules:
        names = [rule.id for rule in self.rule]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"more than one rule is called {', '.join(twice)}")
        return self


def load_rules(root: Path | None = None) -> tuple[Rule, ...]:
    """The rules in their order: those of the checkout at ``root``, if it has any, before ours.

    Raises:
        HarnessError: a rule file is not valid.
    """
    theirs = root / THEIRS if root else None
    files = [theirs] if theirs is not None and theirs.exists() else []
    return tuple(rule for path in (*files, OURS) for rule in _read(path).rule)


def _read(path: Path) -> Rules:
    try:
        return Rules.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        said = _problems(error) if isinstance(error, ValidationError) else str(error)
        raise HarnessError(f"the failure classes {path}", said, "mend these rules") from error


def _problems(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())


def _backtracking(parsed: Iterable[Any]) -> str:
    """The first repetition that could be tried in several ways; empty when there is none."""
    for operation, argument in parsed:
        name = str(operation)
        if name in {"MAX_REPEAT", "MIN_REPEAT"}:
            least, most, body = argument
            # `x?` and `x{3}` have at most two ways, whatever follows.
            if least != most and (least, most) != (0, 1):
                return f"a repetition of {least} to {most}"
            if most > 1 and _varies(body):
                return f"a repetition of {least} to {most} of what can have several lengths"
            if found := _backtracking(body):
                return found
        for part in _parts(name, argument):
            if found := _backtracking(part):
                return found
    return ""


def _varies(body: Any) -> bool:
    least, most = body.getwidth()
    return bool(least != most)


def _parts(name: str, argument: Any) -> list[Any]:
    if name == "BRANCH":
        return list(argument[1])
    if name == "SUBPATTERN":
        return [argument[-1]]
    if name in {"ASSERT", "ASSERT_NOT"}:
        return [argument[1]]
    if name == "POSSESSIVE_REPEAT":
        return [argument[2]]
    if name == "ATOMIC_GROUP":
        return [argument]
    return []
