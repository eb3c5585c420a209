"""The rule file: an ordered list of what a line must say for a failure to be of a class."""

from __future__ import annotations

import re
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from exacthead.bounded import check_bounded
from exacthead.errors import HarnessError
from exacthead.report.model import Class  # noqa: TC001 - pydantic reads the annotation
from exacthead.tables import Table
from exacthead.verdict import Kind  # noqa: TC001 - pydantic reads the annotation

OURS = Path(__file__).with_name("rules.toml")
# Of a repository; its rules come before ours.
THEIRS = Path("ci/failure_classes.toml")

Source = Literal["cause", "text", "log"]
SOURCES: tuple[Source, ...] = ("cause", "text", "log")


class Rule(Table):
    """One ``[[rule]]``; it applies where all that it asks for holds.

    Attributes:
        id: its name, once in a file.
        failure_class: what the failure is; the key ``class``.
        has: texts of which a line must hold at least one; they are looked for before the pattern.
        pattern: a regular expression that is searched in each such line. Its repetitions are
            possessive (``++``, ``*+``, ``{1,9}+``), so that it never goes back: the time it takes
            is bounded, whatever a log holds.
        sources: where it looks: the one-line cause, the long form of it, the item's log.
        kinds: the verdicts that it is for; every one when empty. Without ``has`` it asks no more.
        contract: whether it is only for legs whose contract is what is not satisfied.
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
        return check_bounded(pattern)

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
