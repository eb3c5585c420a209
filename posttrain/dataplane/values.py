"""Values of a row: which kinds a plane takes, and their form as plain bytes.

A field has one kind in a partition, so the kind is kept once and not with each value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posttrain.dataplane.errors import ValueTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posttrain.dataplane.plane import Row, Value

Kind = Literal["int64[]", "float32[]", "int", "float", "str", "bytes"]
WIRE: Mapping[Kind, np.dtype[np.generic]] = {  # of numbers
    "int64[]": np.dtype(np.int64),
    "float32[]": np.dtype(np.float32),
    "int": np.dtype(np.int64),
    "float": np.dtype(np.float64),
}
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
# Lone surrogates are legal in a Python string and come back as they were.
TEXT = {"encoding": "utf-8", "errors": "surrogatepass"}


def kind_of(value: Any) -> Kind:
    """Name a value's kind.

    Raises:
        ValueTypeError: a plane takes no such value.
    """
    # Exact types: a boolean is an int, and a numpy scalar a float, that would come back as another.
    if type(value) is np.ndarray:
        if value.ndim == 1 and value.dtype == np.int64:
            return "int64[]"
        if value.ndim == 1 and value.dtype == np.float32:
            return "float32[]"
        raise _refused(f"an array of {value.dtype} with {value.ndim} dimensions")
    if type(value) is int:
        if LOWEST <= value <= HIGHEST:
            return "int"
        raise _refused(f"an int of {value.bit_length()} bits")
    if type(value) is float:
        return "float"
    if type(value) is str:
        return "str"
    if type(value) is bytes:
        return "bytes"
    raise _refused(f"a value of type {type(value).__name__}")


def kinds_of(partition: str, rows: Mapping[str, Row]) -> dict[str, dict[str, Kind]]:
    """Name the kinds of all values, row by row.

    Raises:
        ValueTypeError: names the row, the field, and what a plane takes.
    """
    kinds: dict[str, dict[str, Kind]] = {}
    for key, row in rows.items():
        if type(key) is not str or not key:
            raise ValueTypeError(
                f"put into partition {partition!r}", f"the id {key!r}", "an id is a non-empty str"
            )
        if not row:
            raise ValueTypeError(
                f"put row {key!r} into partition {partition!r}",
                "a row without fields",
                "give at least one field",
            )
        kinds[key] = {}
        for field, value in row.items():
            if type(field) is not str:
                raise ValueTypeError(
                    f"put row {key!r} into partition {partition!r}",
                    f"the field {field!r}",
                    "a field's name is a str",
                )
            try:
                kinds[key][field] = kind_of(value)
            except ValueTypeError as error:
                asked = f"put field {field!r} of row {key!r} into partition {partition!r}"
                raise ValueTypeError(asked, error.found, error.todo) from None
    return kinds


def copied(value: Value) -> Value:
    """Return a value that shares no memory with the given one."""
    return value.copy() if isinstance(value, np.ndarray) else value


def to_wire(value: Value, kind: Kind) -> bytes:
    """Return a value as the bytes of its kind, numbers in the machine's own order."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode(**TEXT)
    data: bytes = np.asarray(value, dtype=WIRE[kind]).tobytes()
    return data


def from_wire(data: bytes, kind: Kind) -> Value:
    """Return the value that `to_wire` was given, in memory of its own."""
    match kind:
        case "str":
            return data.decode(**TEXT)
        case "bytes":
            return bytes(data)
        case "int":
            return int(np.frombuffer(data, WIRE[kind])[0])
        case "float":
            return float(np.frombuffer(data, WIRE[kind])[0])
        case _:
            return np.frombuffer(data, WIRE[kind]).copy()


def _refused(found: str) -> ValueTypeError:
    return ValueTypeError(
        "put a value",
        found,
        "give a one-dimensional int64 or float32 array, a 64-bit int, a float, a str or bytes",
    )


def names_of(what: str, names: Sequence[str]) -> list[str]:
    """Return names as a list.

    Raises:
        ValueTypeError: it is one name, not a sequence of them, or one of them is no plain str: the
            plane's processes may not know a class of the caller's.
    """
    if isinstance(names, str):
        raise ValueTypeError(f"use {names!r} as {what}", "one str", "give a list of them")
    listed = list(names)
    for name in listed:
        if type(name) is not str:
            raise ValueTypeError(f"use {listed!r} as {what}", f"{name!r}", "give each as a str")
    return listed
