"""Contract files: from TOML to a contract, with every problem named at once."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from exacthead.contracts.model import AnyCheck, Contract
from exacthead.errors import HarnessError, nearest

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.contracts.parts import Check

# What a contract may extend: a file beside it.
NEIGHBOUR = re.compile(r"[^/\\]+\.contract\.toml")
REMEDY = "mend these checks; docs/contracts.md lists every kind and key"


def kinds() -> dict[str, type[Check]]:
    """Each kind of check that a contract can name, with the table that describes it."""
    union = get_args(get_args(AnyCheck)[0])
    return {
        kind: table for table in union for kind in get_args(table.model_fields["kind"].annotation)
    }


def load(path: Path) -> Contract:
    """Read the contract ``path``; its name is the file's, without ``.contract.toml``.

    A contract that ``extends`` another file of its folder has that one's checks too, first.

    Raises:
        HarnessError: the file is missing, is not TOML, holds no check or has problems; all problems
            are named, each unknown key and kind with its nearest known one.
    """
    return parse(_extended(path, ()), path.name.removesuffix(".toml").removesuffix(".contract"))


def _extended(path: Path, extending: tuple[Path, ...]) -> dict[str, Any]:
    """The content of ``path`` with the checks of what it extends in front of its own."""
    if path in extending:
        line = " extends ".join(each.name for each in (*extending, path))
        raise HarnessError(f"read {path}", line, "end the circle")
    raw = _read(path)
    if "extends" not in raw:
        return raw
    other, own = raw.pop("extends"), raw.get("check")
    if not isinstance(other, str) or not NEIGHBOUR.fullmatch(other):
        todo = "name a file of the same folder, '<name>.contract.toml'"
        raise HarnessError(f"read {path}", f"'extends' is {other!r}", todo)
    if not isinstance(own, list) or not own:
        # Another name for the same checks would only hide which contract a leg has.
        todo = "add checks of its own, or give the leg the other contract"
        raise HarnessError(f"read {path}", f"it holds no [[check]] beside {other}'s", todo)
    base = _extended(path.with_name(other), (*extending, path))
    checks = base.get("check")
    if not isinstance(checks, list) or not checks:
        raise HarnessError(f"read {path}", f"{other}: it holds no [[check]]", REMEDY)
    return raw | base | {"check": [*checks, *own]}


def _read(path: Path) -> dict[str, Any]:
    try:
        # Editors of some systems put a byte order mark in front.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        todo = "name a contract file that exists in harness.toml"
        raise HarnessError(f"read {path}", "no such file", todo) from None
    except (OSError, ValueError, RecursionError) as error:
        raise HarnessError(f"read {path}", str(error), "mend the TOML there") from error


def parse(raw: dict[str, Any], name: str) -> Contract:
    """Turn the content of a contract file that extends no other into the contract ``name``.

    Raises:
        HarnessError: as :func:`load`.
    """
    asked = f"a valid contract {name!r}"
    unknown = sorted(set(raw) - {"check"})
    if unknown:
        found = ", ".join(f"{key}: unknown key; {nearest(key, ['check'])}" for key in unknown)
        raise HarnessError(asked, found, REMEDY)
    checks = raw.get("check", [])
    if not isinstance(checks, list) or not checks:
        raise HarnessError(asked, "it holds no [[check]]", "write down what the leg must satisfy")
    try:
        contract = Contract.model_validate({"name": name, "checks": tuple(checks)})
    except ValidationError as error:
        # What may be an int or a float fails once as each; the last wording holds for both.
        problems = dict(
            _problem(detail, checks) for detail in error.errors() if len(detail["loc"]) > 1
        )
        found = "".join(f"\n    {where}: {what}" for where, what in problems.items())
        raise HarnessError(asked, found, REMEDY) from error
    twice = [each for each, times in Counter(c.name for c in contract.checks).items() if times > 1]
    if twice:
        found = f"these names are used twice: {', '.join(map(repr, twice))}"
        raise HarnessError(asked, found, "give each check a name of its own")
    return contract


def metrics_named(contract: Contract) -> set[str]:
    """Every metric that ``contract`` reads, to compare with what a recipe can emit."""
    return {metric for check in contract.checks for metric in check.metrics}


def _problem(detail: Any, checks: list[Any]) -> tuple[str, str]:
    """Where the problem is, and what it is."""
    _, index, *where = detail["loc"]
    check = checks[index]
    name = check.get("name") if isinstance(check, dict) else None
    label = f"check {index + 1}" + (f" ({name!r})" if name else "")
    known = kinds()
    if detail["type"] == "union_tag_invalid":
        kind = detail["ctx"]["tag"]
        return label, f"unknown kind {kind!r}; {nearest(kind, known)}"
    if detail["type"] == "union_tag_not_found":
        return label, f"'kind' is missing; {nearest('', known)}"
    kind, *keys = map(str, where) if where else ("",)
    if keys[-1:] in (["int"], ["float"], ["str"]):
        keys.pop()
    place = ".".join([label, *keys])
    if detail["type"] == "extra_forbidden":
        return place, f"unknown key; {nearest(keys[-1], known[kind].model_fields)}"
    return place, detail["msg"].removeprefix("Value error, ")
