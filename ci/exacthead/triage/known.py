"""ci/known_failures.toml as data: which faults are known, who looks after them, and until when."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import date  # noqa: TC003 - pydantic reads the annotation
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from exacthead.errors import HarnessError, nearest
from exacthead.shards.nodeid import file_of, names_of, split, within

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FILE = PurePosixPath("ci/known_failures.toml")
_LINK = r"^https?://[^\s/]+/\S+$"
_SPOKEN = re.compile(r"\S")


class KnownFailure(BaseModel):
    """One ``[[known]]`` table: a fault that is known and does not block until it expires.

    Attributes:
        test: a test's node id, or the file or class whose tests are all meant; a function covers
            its parameters.
        leg: ``job.leg``. Exactly one of ``test`` and ``leg`` is given.
        reason: why it fails, in words.
        issue: the link to where it is being mended.
        owner: the team or role that looks after it.
        expires: the last day on which it holds.
        runner: the kind of runner it is limited to; None for every one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    test: str | None = None
    leg: str | None = None
    reason: str = Field(pattern=_SPOKEN)
    issue: str = Field(pattern=_LINK)
    owner: str = Field(pattern=_SPOKEN)
    expires: date
    runner: str | None = None

    @model_validator(mode="after")
    def _names_one_thing(self) -> KnownFailure:
        if (self.test is None) == (self.leg is None):
            raise ValueError("exactly one of test and leg")
        problem = _test_problem(self.test) if self.test is not None else _leg_problem(self.leg)
        if problem:
            raise ValueError(problem)
        return self

    @property
    def target(self) -> str:
        """What is named: the test or the leg."""
        return self.test or self.leg or ""

    @property
    def file(self) -> str:
        """The file of the named test, relative to the root; empty for a leg."""
        return file_of(self.test or "")

    @property
    def names(self) -> tuple[str, ...]:
        """The classes and the function that are named in the file, without parameters."""
        return names_of(self.test or "")

    def covers(self, nodeid: str) -> bool:
        """Whether the test ``nodeid`` is meant, on whatever runner and day."""
        mine = within(self.test or "")
        file, rest = split(nodeid)
        if not self.file or file != self.file:
            return False
        if not mine or "[" in mine:
            return not mine or rest == mine
        # What parameters hold may look like names.
        plain = rest.partition("[")[0]
        return plain == mine or plain.startswith(f"{mine}::")

    def on(self, runner: str) -> bool:
        """Whether it holds on runners of that kind."""
        return self.runner in {None, runner}

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return today > self.expires


@dataclass(frozen=True)
class Known:
    """All known failures; in the order of what they name, so that the file's order never shows."""

    entries: tuple[KnownFailure, ...] = ()

    def __post_init__(self) -> None:
        ordered = sorted(self.entries, key=lambda each: (each.target, each.runner or ""))
        object.__setattr__(self, "entries", tuple(ordered))

    def for_test(self, nodeid: str, runner: str) -> tuple[KnownFailure, ...]:
        """The entries that cover a test on a runner, the closest to it first, expired ones too."""
        in_file = self._by_file.get(file_of(nodeid), ())
        found = [each for each in in_file if each.on(runner) and each.covers(nodeid)]
        return tuple(sorted(found, key=lambda each: -len(each.target)))

    def for_leg(self, item_id: str, runner: str) -> tuple[KnownFailure, ...]:
        """The entry of a leg on a runner, expired or not; at most one."""
        return tuple(each for each in self.entries if each.leg == item_id and each.on(runner))

    @cached_property
    def _by_file(self) -> dict[str, list[KnownFailure]]:
        """The entries of tests; a suite has far more tests than files with a known failure."""
        found: dict[str, list[KnownFailure]] = {}
        for entry in self.entries:
            found.setdefault(entry.file, []).append(entry)
        return found


class _File(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    known: tuple[KnownFailure, ...] = ()


def load_known(root: Path) -> Known:
    """Read and check ``root/ci/known_failures.toml``; without the file nothing is known.

    Raises:
        HarnessError: naming every problem at once, with the nearest known key for each unknown one.
    """
    path = root / FILE
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Known()
    except (OSError, ValueError, RecursionError) as error:
        raise HarnessError(f"read {path}", str(error), "mend the TOML syntax there") from error
    try:
        entries = _File.model_validate(raw).known
    except ValidationError as error:
        problems = [_problem(detail, raw) for detail in error.errors()]
        raise _invalid(path, problems) from error
    if twice := _twice(entries):
        raise _invalid(path, twice)
    return Known(entries)


def _invalid(path: Path, problems: Iterable[str]) -> HarnessError:
    joined = "\n    ".join(problems)
    return HarnessError(f"a valid {path}", f"\n    {joined}", "mend these entries")


def _problem(detail: Any, raw: Any) -> str:
    """One problem in words; an entry is told by its number from 1 and by what it names."""
    where = list(detail["loc"])
    place = ".".join(str(part) for part in where)
    if len(where) > 1 and isinstance(where[1], int):
        place = f"known entry {where[1] + 1}"
        entry = raw["known"][where[1]]
        if isinstance(entry, dict) and (target := entry.get("test") or entry.get("leg")):
            place += f" ({target})"
        place += "".join(f", {part}" for part in where[2:])
    return f"{place}: {_said(detail, where)}"


def _said(detail: Any, where: list[str | int]) -> str:
    match detail["type"]:
        case "extra_forbidden":
            model = KnownFailure if len(where) > 1 else _File
            return f"unknown key; {nearest(str(where[-1]), model.model_fields)}"
        case "model_type" | "tuple_type":
            return "a [[known]] table is needed"
        case "date_type" | "date_from_datetime_inexact":
            return "a TOML date is needed, without quotes and time: 2030-12-31"
        case "string_pattern_mismatch" if where[-1] == "issue":
            return "a link is needed, such as https://tracker.example/issues/7"
        case "string_pattern_mismatch":
            return "a few words are needed"
        case _:
            return str(detail["msg"]).removeprefix("Value error, ")


def _twice(entries: tuple[KnownFailure, ...]) -> list[str]:
    """Entries that name the same thing for the same runner: no one could say which holds."""
    problems = []
    for number, entry in enumerate(entries, 1):
        for before, other in enumerate(entries[: number - 1], 1):
            same_runner = entry.runner == other.runner or None in {entry.runner, other.runner}
            if same_runner and (entry.test, entry.leg) == (other.test, other.leg):
                problems.append(
                    f"known entry {number} ({entry.target}): already known as entry {before}"
                )
    return problems


def _test_problem(test: str) -> str | None:
    path, rest = split(test)
    names, bracket, parameters = rest.partition("[")
    parts = path.split("/")
    if set(path + names) & set("*?"):
        return "a pattern; name each test, or the class or file that holds them"
    if "\\" in path or {"", ".", ".."} & set(parts):
        return "its file must be given from the root, as in unit/test_a.py::test_b"
    if len(path) < len(test) and not all(names.split("::")):
        return "an empty name between or after '::'"
    if bracket and not parameters.endswith("]"):
        return "its parameters do not end with ']'"
    return None


def _leg_problem(leg: str | None) -> str | None:
    job, dot, name = (leg or "").partition(".")
    return None if job and dot and name else "a leg is named as job.leg"
