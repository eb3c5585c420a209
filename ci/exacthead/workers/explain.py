"""Explain: why two specs have different keys, in words a person can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.workers.lock import entries, pins

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from exacthead.workers.spec import Spec


def explain(a: Spec, b: Spec) -> list[str]:
    """Every difference in content between ``a`` and ``b``, one sentence each.

    Empty exactly when their keys are equal.
    """
    if a.key == b.key:
        return []
    one, other = (a.name, b.name) if a.name != b.name else ("the first", "the second")
    found = [*_locks(a.lock, b.lock, one, other)]
    for what in ("implementation", "version", "abi", "platform"):
        left, right = getattr(a.interpreter, what), getattr(b.interpreter, what)
        found += _values(f"interpreter's {what}", left, right, one, other)
    found += _values("provided by the user", str(a.provided), str(b.provided), one, other)
    found += _values("flavour", a.flavour, b.flavour, one, other)
    found += _values("link mode", a.link_mode, b.link_mode, one, other)
    found += _tables("variable", dict(a.environment), dict(b.environment), one, other)
    found += _tables(
        "content of local package", dict(a.local_packages), dict(b.local_packages), one, other
    )
    found += _sequences("patch", a.patches, b.patches, one, other)
    found += _sequences("source", a.sources, b.sources, one, other)
    found += _sequences("probe", a.probes, b.probes, one, other)
    return found


def _locks(a: str, b: str, one: str, other: str) -> Iterator[str]:
    lines = entries(a), entries(b)
    versions = pins(a), pins(b)
    alike = True
    for name in sorted(lines[0].keys() | lines[1].keys()):
        left, right = (version.get(name, "") for version in versions)
        if name not in lines[1]:
            yield f"{name} {left} only in {one}"
        elif name not in lines[0]:
            yield f"{name} {right} only in {other}"
        elif left != right:
            yield f"{name} {left} in {one}, {right} in {other}"
        elif lines[0][name] != lines[1][name]:
            yield f"{name} {left} in both, but with other files or markers (their hashes differ)"
        else:
            continue
        alike = False
    if a != b and alike:
        yield "the same requirements, written differently (order, spaces or comments)"


def _values(what: str, left: str, right: str, one: str, other: str) -> Iterator[str]:
    if left != right:
        yield f"{what}: {left} in {one}, {right} in {other}"


def _tables(
    what: str, left: Mapping[str, str], right: Mapping[str, str], one: str, other: str
) -> Iterator[str]:
    for name in sorted(left.keys() | right.keys()):
        if name not in right:
            yield f"{what} {name} = {left[name]} only in {one}"
        elif name not in left:
            yield f"{what} {name} = {right[name]} only in {other}"
        else:
            yield from _values(f"{what} {name}", left[name], right[name], one, other)


def _sequences(
    what: str, left: tuple[str, ...], right: tuple[str, ...], one: str, other: str
) -> Iterator[str]:
    yield from (f"{what} {item} only in {one}" for item in left if item not in right)
    yield from (f"{what} {item} only in {other}" for item in right if item not in left)
    if left != right and set(left) == set(right):
        yield f"the same {what} entries in another order or number"
