"""What every data plane keeps to: the same tests for the one in memory and TransferQueue."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.dataplane import (
    CapacityError,
    DataPlane,
    DuplicateKeyError,
    EvictedError,
    MissingFieldError,
    MissingKeyError,
    PartitionConflictError,
    PlaneError,
    UnknownFieldError,
    UnknownPartitionError,
    ValueTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from posttrain.dataplane import Row

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
# By bit patterns: every not-a-number, both zeros, denormals.
FLOAT32 = st.lists(st.integers(0, (1 << 32) - 1), max_size=40).map(
    lambda bits: np.array(bits, np.uint32).view(np.float32)
)
VALUES = {
    "tokens": st.lists(INT64, max_size=40).map(lambda numbers: np.array(numbers, np.int64)),
    "logprobs": FLOAT32,
    "number": INT64,
    "share": st.floats(),
    "text": st.text(st.characters(), max_size=20),
    "blob": st.binary(max_size=40),
}
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
ROWS = st.dictionaries(IDS, st.fixed_dictionaries({}, optional=VALUES).filter(bool), max_size=8)


def row(number: int) -> dict[str, Any]:
    return {
        "tokens": np.arange(number, dtype=np.int64),
        "logprobs": -np.arange(number, dtype=np.float32) / 3,
        "number": number,
    }


def bits(value: Any) -> tuple[str, bytes]:
    """A value's type and exact content; equal for equal bits, also where they are no number."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}", value.tobytes()
    if isinstance(value, float):
        return "float", np.float64(value).tobytes()
    return type(value).__name__, repr(value).encode()


def exact(rows: list[dict[str, Any]]) -> list[dict[str, tuple[str, bytes]]]:
    return [{field: bits(value) for field, value in each.items()} for each in rows]


# What comes back.


@given(rows=ROWS, data=st.data())
def test_every_value_comes_back_to_the_bit_in_the_order_of_the_ids(
    plane: DataPlane, fresh: Callable[..., str], rows: dict[str, Row], data: st.DataObject
) -> None:
    partition = fresh()
    plane.put(partition, rows)
    assert plane.check(partition, list(rows)) == {key: frozenset(rows[key]) for key in rows}
    order = data.draw(st.lists(st.sampled_from(sorted(rows)), max_size=12)) if rows else []
    shared = frozenset.intersection(*[frozenset(rows[key]) for key in order]) if order else set()
    fields = data.draw(st.permutations(sorted(shared)))
    wanted = [{field: rows[key][field] for field in fields} for key in order]
    assert exact(plane.get(partition, order, fields)) == exact(wanted)


def test_rows_of_many_lengths_and_one_large_one_come_back_together(
    plane: DataPlane, partition: str
) -> None:
    rows = {f"r{number}": row(number * 37 % 1000) for number in range(200)}
    rows["large"] = row(3_000_000)  # 36 MB
    plane.put(partition, rows)
    order = sorted(rows, reverse=True)
    fields = ["logprobs", "tokens", "number"]
    wanted = [{field: rows[key][field] for field in fields} for key in order]
    assert exact(plane.get(partition, order, fields)) == exact(wanted)


def test_a_stored_value_is_nobodys_array(plane: DataPlane, partition: str) -> None:
    put = np.arange(3, dtype=np.int64)
    plane.put(partition, {"a": {"tokens": put}})
    put[0] = 9
    got = plane.get(partition, ["a"], ["tokens"])[0]["tokens"]
    assert isinstance(got, np.ndarray)
    got[1] = 9
    again = plane.get(partition, ["a"], ["tokens"])[0]["tokens"]
    assert isinstance(again, np.ndarray)
    assert again.tolist() == [0, 1, 2]


def test_arrays_that_are_read_only_or_strided_are_stored_as_what_they_show(
    plane: DataPlane, partition: str
) -> None:
    frozen = np.arange(4, dtype=np.float32)
    frozen.flags.writeable = False
    plane.put(partition, {"a": {"tokens": np.arange(9, dtype=np.int64)[::-3], "logprobs": frozen}})
    got = plane.get(partition, ["a"], ["tokens", "logprobs"])
    assert exact(got) == exact([{"tokens": np.array([8, 5, 2]), "logprobs": frozen}])


def test_no_ids_no_fields_no_rows_and_no_count_have_a_defined_result(
    plane: DataPlane, partition: str
) -> None:
    plane.put(partition, {})
    assert plane.get(partition, [], ["tokens"]) == []
    assert plane.check(partition, []) == {}
    assert plane.claim(partition, "trainer", 0, ["tokens"]) == []
    plane.clear(partition, [])
    plane.clear(partition)
    plane.put(partition, {"a": row(2)})
    assert plane.get(partition, ["a", "a"], []) == [{}, {}]
    assert plane.claim(partition, "trainer", 5, []) == ["a"]
    with pytest.raises(MissingKeyError):
        plane.get(partition, ["b"], [])


# What is refused, each by its own name.


def test_a_partition_that_was_never_registered_is_named(plane: DataPlane) -> None:
    calls: list[Callable[[], object]] = [
        lambda: plane.put("nobody's", {}),
        lambda: plane.put("nobody's", {"a": row(1)}),
        lambda: plane.get("nobody's", [], []),
        lambda: plane.claim("nobody's", "trainer", 0, []),
        lambda: plane.check("nobody's", []),
        lambda: plane.clear("nobody's"),
    ]
    for call in calls:
        with pytest.raises(UnknownPartitionError, match="nobody's"):
            call()


def test_a_missing_key_a_missing_field_and_an_unknown_field_are_told_apart(
    plane: DataPlane, partition: str
) -> None:
    plane.put(partition, {"a": row(2)})
    with pytest.raises(MissingKeyError, match="get row 'b'"):
        plane.get(partition, ["a", "b"], ["tokens"])
    with pytest.raises(MissingFieldError, match=r"get 'blob' of row 'a'.*\n.*'logprobs'"):
        plane.get(partition, ["a"], ["tokens", "blob"])
    with pytest.raises(UnknownFieldError, match="'color'"):
        plane.get(partition, ["a"], ["color"])
    with pytest.raises(UnknownFieldError, match="'color'"):
        plane.claim(partition, "trainer", 1, ["color"])
    with pytest.raises(UnknownFieldError, match="'color'"):
        plane.put(partition, {"c": {"color": 1}})
    assert plane.check(partition, ["a", "b"]) == {"a": frozenset(row(2)), "b": frozenset()}


def test_an_id_is_put_once_also_with_the_same_content_and_nothing_else_of_that_put_is_kept(
    plane: DataPlane, partition: str
) -> None:
    plane.put(partition, {"a": row(2)})
    with pytest.raises(DuplicateKeyError, match="'a'"):
        plane.put(partition, {"a": row(2)})
    with pytest.raises(DuplicateKeyError, match="'a'"):
        plane.put(partition, {"new": row(1), "a": row(3), "other": row(4)})
    assert plane.check(partition, ["new", "other"]) == dict.fromkeys(["new", "other"], frozenset())
    assert exact(plane.get(partition, ["a"], ["number"])) == exact([{"number": 2}])


def test_an_evicted_id_is_known_as_such_and_never_used_again(
    plane: DataPlane, partition: str
) -> None:
    plane.put(partition, {"a": row(1), "b": row(2), "c": row(3)})
    plane.clear(partition, ["b"])
    plane.clear(partition, ["b"])
    with pytest.raises(EvictedError, match="'b'"):
        plane.get(partition, ["a", "b"], ["tokens"])
    with pytest.raises(EvictedError, match="'b'"):
        plane.put(partition, {"b": row(2), "d": row(4)})
    assert plane.check(partition, ["b", "d"]) == {"b": frozenset(), "d": frozenset()}
    with pytest.raises(MissingKeyError, match="clear row 'd'"):
        plane.clear(partition, ["a", "d"])
    assert len(plane.get(partition, ["a", "c"], ["tokens"])) == 2
    plane.clear(partition)
    for key in ("a", "c"):
        with pytest.raises(EvictedError):
            plane.get(partition, [key], [])
    plane.put(partition, {"d": row(4)})
    assert exact(plane.get(partition, ["d"], ["number"])) == exact([{"number": 4}])


def test_an_id_that_may_still_come_can_be_evicted_before_it_does(
    plane: DataPlane, fresh: Callable[..., str]
) -> None:
    partition = fresh(capacity=2)
    plane.put(partition, {"a": row(1)})
    plane.clear(partition, ["a", "late"], unknown=True)
    plane.clear(partition, ["late"])
    with pytest.raises(EvictedError, match="'late'"):
        plane.put(partition, {"late": row(2), "b": row(3)})
    with pytest.raises(EvictedError, match="get row 'late'"):
        plane.get(partition, ["late"], [])
    assert plane.check(partition, ["a", "late", "b"]) == dict.fromkeys("ab", frozenset()) | {
        "late": frozenset()
    }
    plane.put(partition, {"b": row(3), "c": row(4)})
    plane.clear(partition, unknown=True)
    plane.put(partition, {"d": row(5)})


def test_a_partition_takes_no_more_rows_than_its_capacity(
    plane: DataPlane, fresh: Callable[..., str]
) -> None:
    partition = fresh(capacity=3)
    plane.put(partition, {"a": row(1), "b": row(2)})
    with pytest.raises(CapacityError, match=r"2 rows\n  found: it holds 2 of at most 3"):
        plane.put(partition, {"c": row(1), "d": row(2)})
    plane.put(partition, {"c": row(1)})
    with pytest.raises(CapacityError, match="3 of at most 3"):
        plane.put(partition, {"d": row(2)})
    plane.clear(partition, ["a"])
    plane.put(partition, {"d": row(2)})
    assert plane.claim(partition, "trainer", 9, []) == ["b", "c", "d"]


def test_a_partition_is_registered_again_only_as_it_is(
    plane: DataPlane, fresh: Callable[..., str]
) -> None:
    partition = fresh(["x", "y"], capacity=4)
    plane.put(partition, {"a": {"x": 1}})
    plane.register(partition, ("y", "x"))
    plane.register(partition, ["x", "y"], capacity=4)
    assert plane.check(partition, ["a"]) == {"a": frozenset({"x"})}
    with pytest.raises(PartitionConflictError, match="it has the fields 'x', 'y' and capacity 4"):
        plane.register(partition, ["x"])
    with pytest.raises(PartitionConflictError, match="capacity 5"):
        plane.register(partition, ["x", "y"], capacity=5)
    for wrong in ([], ["_x"], ["x", "x"], [""], ["a\n"]):
        with pytest.raises(PartitionConflictError):
            plane.register(f"{partition}-wrong", wrong)
    for capacity in (0, -1, True, 1.5):
        with pytest.raises(PartitionConflictError, match="capacity"):
            plane.register(f"{partition}-wrong", ["x"], capacity)  # type: ignore[arg-type]
    with pytest.raises(PartitionConflictError):
        plane.register("", ["x"])


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "NoneType"),
        (True, "bool"),
        ([1, 2], "list"),
        (np.float32(1), "float32"),
        (1 << 63, "an int of 64 bits"),
        (np.zeros((2, 2), np.float32), "an array of float32 with 2 dimensions"),
        (np.zeros((), np.int64), "an array of int64 with 0 dimensions"),
        (np.zeros(2), "an array of float64"),
        (np.zeros(2, ">i8"), "an array of >i8"),
        (np.zeros(2, np.int32), "an array of int32"),
        (bytearray(b"x"), "bytearray"),
    ],
)
def test_a_value_that_a_plane_does_not_take_is_refused(
    plane: DataPlane, partition: str, value: Any, found: str
) -> None:
    with pytest.raises(ValueTypeError, match=f"field 'blob' of row 'b'.*\n.*{found}"):
        plane.put(partition, {"a": row(1), "b": {"blob": value}})
    assert plane.check(partition, ["a"]) == {"a": frozenset()}


def test_a_field_holds_one_kind_of_value(plane: DataPlane, partition: str) -> None:
    plane.put(partition, {"a": {"number": 1}})
    with pytest.raises(ValueTypeError, match="a value of kind float; this field's are of kind int"):
        plane.put(partition, {"b": {"number": 1.0}})
    with pytest.raises(ValueTypeError, match="kind bytes"):
        plane.put(partition, {"b": {"text": "x"}, "c": {"text": b"x"}})
    plane.put(partition, {"b": {"text": b"x"}})  # a refused put decides nothing
    plane.clear(partition)
    with pytest.raises(ValueTypeError, match="kind str; this field's are of kind bytes"):
        plane.put(partition, {"c": {"text": "x"}})


class Number(StrEnum):
    """Equal to a name, and of a class that the plane's processes do not know."""

    NUMBER = "number"


@pytest.mark.parametrize("name", [Number.NUMBER, 3, b"number", ["number"]])
def test_a_name_that_is_no_plain_str_is_refused_and_nobody_else_notices(
    plane: DataPlane, partition: str, name: Any
) -> None:
    plane.put(partition, {"a": {"number": 1}})
    calls: list[Callable[[], object]] = [
        lambda: plane.register(f"{partition}-wrong", [name]),
        lambda: plane.get(partition, ["a"], [name]),
        lambda: plane.get(partition, [name], ["number"]),
        lambda: plane.claim(partition, "trainer", 1, [name]),
        lambda: plane.check(partition, [name]),
        lambda: plane.clear(partition, [name]),
    ]
    if name.__hash__ is not None:
        calls += [lambda: plane.put(partition, {"b": {name: 1}})]
    for call in calls:
        with pytest.raises(ValueTypeError, match="str"):
            call()
    assert plane.get(partition, ["a"], ["number"]) == [{"number": 1}]


def test_arguments_that_are_no_ids_rows_or_counts_are_refused(
    plane: DataPlane, partition: str
) -> None:
    wrong: list[Callable[[], object]] = [
        lambda: plane.put(partition, {"": row(1)}),
        lambda: plane.put(partition, {1: row(1)}),  # type: ignore[dict-item]
        lambda: plane.put(partition, {"a": {}}),
        lambda: plane.get(partition, "ab", []),
        lambda: plane.get(partition, [], "ab"),
        lambda: plane.check(partition, "ab"),
        lambda: plane.register(f"{partition}-wrong", "ab"),
        lambda: plane.clear(partition, "ab"),
        lambda: plane.claim(partition, "trainer", -1, []),
        lambda: plane.claim(partition, "trainer", count=True, fields=[]),
        lambda: plane.claim(partition, "trainer", 1, "ab"),
    ]
    for call in wrong:
        with pytest.raises(ValueTypeError):
            call()


def test_an_error_says_what_to_do_and_survives_a_pickle(plane: DataPlane, partition: str) -> None:
    with pytest.raises(PlaneError) as caught:
        plane.get(partition, ["gone"], [])
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert type(again) is MissingKeyError
    assert str(again) == str(caught.value)
    assert "\n  to do: check the id, or wait until its row is put" in str(again)


# Claims.


def test_claims_are_oldest_first_and_wait_for_the_fields(plane: DataPlane, partition: str) -> None:
    plane.put(partition, {"z": row(1), "b": {"number": 1}})
    plane.put(partition, {"a": row(2)})
    assert plane.claim(partition, "trainer", 1, ["tokens"]) == ["z"]
    assert plane.claim(partition, "trainer", 9, ["tokens", "number"]) == ["a"]
    assert plane.claim(partition, "trainer", 9, ["tokens"]) == []
    assert plane.claim(partition, "trainer", 9, ["number"]) == ["b"]
    assert plane.claim(partition, "critic", 2, ["number"]) == ["z", "b"]
    plane.put(partition, {"c": row(3), "d": row(4)})
    plane.clear(partition, ["c", "a"])
    assert plane.claim(partition, "trainer", 9, []) == ["d"]
    assert plane.claim(partition, "critic", 9, []) == ["d"]
    assert plane.claim(partition, "late", 9, []) == ["z", "b", "d"]


@given(data=st.data())
def test_claims_never_repeat_and_together_are_every_row(
    plane: DataPlane, fresh: Callable[..., str], data: st.DataObject
) -> None:
    partition = fresh(["x", "y"])
    order: list[str] = []
    claimed: list[str] = []
    for _ in range(data.draw(st.integers(1, 6))):
        size = data.draw(st.integers(0, 4))
        rows: dict[str, Row] = {
            f"r{len(order) + each}": {"x": 1} if data.draw(st.booleans()) else {"x": 1, "y": 2}
            for each in range(size)
        }
        plane.put(partition, rows)
        order += rows
        count = data.draw(st.integers(0, 5))
        fields = data.draw(st.sampled_from([["x"], ["x", "y"], []]))
        got = plane.claim(partition, "trainer", count, fields)
        assert len(got) <= count
        assert got == sorted(got, key=order.index)
        claimed += got
    claimed += plane.claim(partition, "trainer", len(order) + 1, [])
    assert sorted(claimed) == sorted(order)


@given(existing=st.sets(st.integers(0, 9)), new=st.sets(st.integers(0, 9), min_size=1))
def test_a_put_stores_all_rows_or_none(
    plane: DataPlane, fresh: Callable[..., str], existing: set[int], new: set[int]
) -> None:
    partition = fresh(capacity=12)
    plane.put(partition, {f"r{number}": row(number) for number in existing})
    rows = {f"r{number}": row(number + 1) for number in new}
    allowed = not existing & new and len(existing) + len(new) <= 12
    if allowed:
        plane.put(partition, rows)
    else:
        with pytest.raises(PlaneError) as caught:
            plane.put(partition, rows)
        assert isinstance(caught.value, DuplicateKeyError | CapacityError)
    every = [f"r{number}" for number in range(10)]
    there = {key for key, fields in plane.check(partition, every).items() if fields}
    assert there == {f"r{number}" for number in (existing | new if allowed else existing)}
    for number in existing:
        assert plane.get(partition, [f"r{number}"], ["number"]) == [{"number": number}]


# Threads.


def test_of_threads_that_put_one_id_exactly_one_wins_whole(
    plane: DataPlane, partition: str
) -> None:
    def put(writer: int) -> int | None:
        try:
            rows = {
                f"r{each}": {"number": writer, "tokens": np.full(50, writer)} for each in range(3)
            }
            plane.put(partition, rows | {f"own{writer}": row(writer)})
        except DuplicateKeyError:
            return None
        return writer

    with ThreadPoolExecutor(8) as pool:
        won = [writer for writer in pool.map(put, range(8)) if writer is not None]
    assert len(won) == 1
    rows = plane.get(partition, ["r0", "r1", "r2"], ["number", "tokens"])
    assert [each["number"] for each in rows] == won * 3
    assert all(np.asarray(each["tokens"]).tolist() == won * 50 for each in rows)
    own = plane.check(partition, [f"own{writer}" for writer in range(8)])
    assert [key for key, fields in own.items() if fields] == [f"own{won[0]}"]


def test_threads_that_put_claim_get_and_clear_lose_and_repeat_nothing(
    plane: DataPlane, partition: str
) -> None:
    writers, each = 4, 25

    def write(writer: int) -> None:
        for number in range(each):
            plane.put(partition, {f"{writer}-{number}": row(number)})

    def read(_: int) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []
        while any(not one.done() for one in writing) or plane.check(partition, ids) != gone:
            ids_now = plane.claim(partition, "trainer", 7, ["tokens"])
            rows = plane.get(partition, ids_now, ["tokens", "number"])
            seen += [
                (key, len(np.asarray(got["tokens"])))
                for key, got in zip(ids_now, rows, strict=True)
            ]
            plane.clear(partition, ids_now)
        return seen

    ids = [f"{writer}-{number}" for writer in range(writers) for number in range(each)]
    gone = dict.fromkeys(ids, frozenset())
    with ThreadPoolExecutor(writers + 2) as pool:
        writing = [pool.submit(write, writer) for writer in range(writers)]
        reading = [pool.submit(read, reader) for reader in range(2)]
        seen = [each for one in reading for each in one.result(120)]
        for one in writing:
            one.result()
    assert sorted(seen) == sorted((key, int(key.split("-")[1])) for key in ids)
