"""Stores of staged calls: what the suite cannot ask of a sink that is not ours."""

from __future__ import annotations

import json
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from nemo_gym.token_id_capture.staging import StagedCallBaseSnapshot

from posttrain.capture.conformance.records import base, record
from posttrain.capture.errors import (
    CaptureSetupError,
    CorruptRecordError,
    EvictedRecordError,
    MissingRecordError,
    StagingError,
)
from posttrain.capture.settings import CaptureSettings
from posttrain.capture.staging import open_store, rows
from posttrain.capture.staging.files import FileStore
from posttrain.capture.staging.plane import PlaneStore
from posttrain.capture.staging.sqlite import SqliteStore
from posttrain.dataplane import EvictedError, MemoryPlane, MissingKeyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from posttrain.capture.staging import Store


@pytest.fixture(params=["files", "sqlite", "plane"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store
    if request.param == "files":
        made = FileStore(tmp_path / "staged")
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "staged.sqlite")
    else:
        made = PlaneStore(MemoryPlane(), owned=True)
    try:
        yield made
    finally:
        made.close()


def test_what_is_fetched_is_the_record_and_its_digest_holds(store: Store) -> None:
    call = record("rollout", "call", logprobs=[-0.1, -1.5, -(2.0**-149)])
    result = store.stage(call)
    assert (result.ok, result.staging_key, result.error) == (True, "rollout/call", None)
    (found,) = store.fetch(["rollout/call"])
    StagedCallBaseSnapshot.model_validate(found.model_dump())
    single = np.float32(-0.1).item()
    assert found.generation_log_probs_delta == [0.0, 0.0, 0.0, single, -1.5, -(2.0**-149)]
    assert base(found) | {"generation_log_probs_delta": 0} == base(call) | {
        "generation_log_probs_delta": 0
    }


def test_another_record_under_a_key_is_refused_with_both_digests(store: Store) -> None:
    first, second = record("r", "c"), record("r", "c", generated=(9,))
    assert store.stage(first).ok
    refused = store.stage(second)
    assert not refused.ok
    assert refused.error == (
        f"r/c is staged with digest {first.digest}, and not again with {second.digest}"
    )
    assert store.fetch(["r/c"])[0].digest == first.digest


def test_the_same_record_with_other_attachments_is_refused(store: Store) -> None:
    call = record("r", "c")
    assert store.stage(call, attachments={"pixels": np.ones(3, np.float32)}).ok
    assert store.stage(call, attachments={"pixels": np.ones(3, np.float32)}).ok
    for others in (None, {}, {"pixels": np.zeros(3, np.float32)}):
        refused = store.stage(call, attachments=others)
        assert not refused.ok
        assert "r/c is staged with attachments " in str(refused.error)
    assert store.attachments("r/c")["pixels"].tolist() == [1.0, 1.0, 1.0]


def test_attachments_that_cannot_be_kept_are_refused_by_name_and_nothing_is_staged(
    store: Store,
) -> None:
    call = record("r", "c")
    for value, kind in (
        (object(), "object"),
        ([1.0], "list"),
        (np.array(["text"]), "<U4"),
        (np.array([None]), "object"),
    ):
        refused = store.stage(call, attachments={"fine": b"1", "media": value})
        assert not refused.ok
        assert f"attachment media is {kind}: give a numeric numpy array or bytes" in str(
            refused.error
        )
    with pytest.raises(MissingRecordError):
        store.fetch(["r/c"])


def test_attachments_come_back_with_dtype_shape_and_bytes(store: Store) -> None:
    given: dict[str, Any] = {
        "image": np.arange(6, dtype=np.uint8).reshape(1, 2, 3)[:, ::-1],
        "column-major": np.asfortranarray(np.arange(4.0).reshape(2, 2)),
        "nothing": np.zeros((0, 4), np.float32),
        "raw": b"\x00bytes/",
        "empty": b"",
    }
    assert store.stage(record("r", "c"), attachments=given).ok
    found = store.attachments("r/c")
    assert found.keys() == given.keys()
    for name, value in given.items():
        if isinstance(value, bytes):
            assert found[name] == value
        else:
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
            assert found[name].tolist() == value.tolist()


def test_no_attachments_and_no_extras_are_nothing(store: Store) -> None:
    assert store.stage(record("r", "c")).ok
    assert store.attachments("r/c") == {}
    assert store.extras(["r/c"]) == [None]


def test_extras_come_in_the_order_of_the_keys(store: Store) -> None:
    given = [{"n": number, "weight_versions": [[0, 1], [5, 2]]} for number in range(4)]
    keys = [
        str(store.stage(record("r", f"c{number}", extras=extras)).staging_key)
        for number, extras in enumerate(given)
    ]
    assert store.extras([keys[2], keys[0], keys[2]]) == [given[2], given[0], given[2]]


def test_every_missing_key_is_named(store: Store) -> None:
    assert store.stage(record("r", "there")).ok
    with pytest.raises(MissingRecordError) as caught:
        store.fetch(["r/one", "r/there", "r/two", "r/one"])
    assert caught.value.found == "not staged, or retired: r/one, r/two"


def test_a_retired_call_is_missing_and_the_others_stay(store: Store) -> None:
    for name in ("a", "b"):
        assert store.stage(record("r", name)).ok
    store.retire(["r/a", "r/never"])
    store.retire(["r/a"])
    store.retire([])
    with pytest.raises(MissingRecordError, match="r/a"):
        store.fetch(["r/b", "r/a"])
    assert store.fetch(["r/b"])[0].model_call_id == "b"


def test_sizes_count_every_field(store: Store) -> None:
    small, large = record("r", "s"), record("r", "l", prompt=[1] * 1000, extras={"x": "y" * 500})
    for call in (small, large):
        assert store.stage(call).ok
    one, two = store.sizes(["r/s", "r/l"])
    # 6 and 1003 tokens of 8 + 4 + 4 bytes; a record says twice how many, in 1 and 4 digits.
    assert two - one == (1003 - 6) * 16 + len('{"x":""}') + 500 + 2 * 3


def test_a_token_id_beyond_64_bits_with_a_sign_is_refused(store: Store) -> None:
    refused = store.stage(record("r", "c", generated=(2**63,)))
    assert not refused.ok
    assert "OverflowError" in str(refused.error)


def test_only_gyms_records_are_staged(store: Store) -> None:
    with pytest.raises(TypeError, match="stage takes a StagedCallRecord, not dict"):
        store.stage({})  # type: ignore[arg-type]


def test_what_cannot_be_written_is_a_refusal(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "staged")
    (tmp_path / "staged").rmdir()
    refused = store.stage(record("r", "c"))
    assert not refused.ok
    assert "r/c: FileNotFoundError" in str(refused.error)


def test_no_part_of_a_file_is_left(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    call = record("r", "c")
    for each in (call, call, record("r", "c", generated=(1,))):
        store.stage(each)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_row_under_another_calls_key_is_corrupt() -> None:
    row = rows.encode(record("r", "c"), b"")
    with pytest.raises(CorruptRecordError, match="the staged call r/d"):
        rows.decode("r/d", row)
    with pytest.raises(CorruptRecordError, match="columns of"):
        rows.decode("r/c", {**row, "logprobs": np.zeros(2, np.float32)})
    foreign = json.dumps({"digest": "1"}).encode()
    with pytest.raises(CorruptRecordError, match="a staged call with the fields"):
        rows.decode("r/c", {**row, "record": foreign})
    with pytest.raises(CorruptRecordError, match="with bytes as its record"):
        rows.decode("r/c", {**row, "record": "text"})


def test_a_plane_that_was_evicted_says_so(tmp_path: Path) -> None:
    del tmp_path
    plane = MemoryPlane()
    store = PlaneStore(plane)
    assert store.stage(record("r", "c")).ok
    with pytest.raises(MissingRecordError) as caught:
        store.fetch(["r/never"])
    assert type(caught.value) is MissingRecordError
    assert isinstance(caught.value.__cause__, MissingKeyError)
    store.retire(["r/c"])
    with pytest.raises(EvictedRecordError) as evicted:
        store.fetch(["r/c"])
    assert isinstance(evicted.value.__cause__, EvictedError)
    again = store.stage(record("r", "c"))
    assert not again.ok
    assert "EvictedError" in str(again.error)
    store.close()
    assert plane.check("capture", ["r/c"]) == {"r/c": frozenset()}


def test_a_database_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, and long enough not to look like one")
    with pytest.raises(CaptureSetupError, match="DatabaseError"):
        SqliteStore(tmp_path / "text")
    with pytest.raises(CaptureSetupError, match="unable to open"):
        SqliteStore(tmp_path / "missing" / "file")


def test_a_closed_database_is_opened_again_by_who_needs_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "staged")
    assert store.stage(record("r", "c")).ok
    store.close()
    store.close()
    assert store.fetch(["r/c"])[0].model_call_id == "c"
    store.close()


def test_a_file_that_was_damaged_is_corrupt_for_who_reads_or_stages_it(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    assert store.stage(record("r", "c")).ok
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:4], whole[:-1], b"\xff" * len(whole)):
        file.write_bytes(damaged)
        for read in (store.fetch, store.extras, store.sizes):
            with pytest.raises(CorruptRecordError, match="the staged call r/c") as caught:
                read(["r/c"])
            assert str(file) in caught.value.found
        refused = store.stage(record("r", "c"))
        assert not refused.ok
        assert "CorruptRecordError" in str(refused.error)
    file.write_bytes(whole)
    assert store.fetch(["r/c"])[0].model_call_id == "c"


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("token_ids", b"123", "token_ids of 3 bytes"),
        ("record", b"{", "record of 1 bytes"),
        ("record", b"[]", "record: list instead of an object"),
        ("record", b"\xff\xfe\x00", "record of 3 bytes"),
        ("extras", b"{", "extras of 1 bytes"),
        ("attachments", b"{", "attachments: "),
    ],
)
def test_a_field_that_was_damaged_is_corrupt(
    tmp_path: Path, field: str, value: bytes, found: str
) -> None:
    store = SqliteStore(tmp_path / "staged")
    assert store.stage(record("r", "c")).ok
    with sqlite3.connect(tmp_path / "staged") as other:
        other.execute(f"UPDATE staged SET {field} = ?", (value,))  # noqa: S608 - from the test
    other.close()
    reads = {"extras": store.extras, "attachments": lambda keys: store.attachments(keys[0])}
    with pytest.raises(CorruptRecordError, match="the staged call r/c") as caught:
        reads.get(field, store.fetch)(["r/c"])
    assert caught.value.found.startswith(found)
    store.close()


def test_a_database_that_was_damaged_is_named(tmp_path: Path) -> None:
    database = tmp_path / "staged"
    store = SqliteStore(database)
    assert store.stage(record("r", "c")).ok
    store.close()
    database.write_bytes(b"something else, and long enough for a header of a database" * 100)
    for asked, call in (
        ("fetch 1 staged calls", lambda: store.fetch(["r/c"])),
        ("retire 1 staged calls", lambda: store.retire(["r/c"])),
    ):
        with pytest.raises(StagingError, match="DatabaseError") as caught:
            call()
        assert caught.value.asked == f"{asked} in {database}"
    refused = store.stage(record("r", "c"))
    assert not refused.ok
    assert "StagingError: stage r/c in" in str(refused.error)


def test_a_database_has_as_many_connections_as_are_used_at_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "staged")

    def stage(number: int) -> None:
        assert store.stage(record("r", f"c{number}")).ok

    for number in range(40):
        thread = threading.Thread(target=stage, args=(number,))
        thread.start()
        thread.join()
    assert len(store.fetch([f"r/c{number}" for number in range(40)])) == 40
    assert len(store._idle) == 1
    with store._connection(), store._connection():
        store.close()
    assert store._idle == []


def test_a_database_flushes_every_commit(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "staged")
    with store._connection() as connection:
        # 2 is FULL: in WAL mode every transaction is synced.
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()
    with sqlite3.connect(tmp_path / "staged") as other:
        assert other.execute("SELECT count(*) FROM staged").fetchone() == (0,)
    other.close()


def test_settings_name_one_place(tmp_path: Path) -> None:
    with pytest.raises(CaptureSetupError, match="none"):
        CaptureSettings()
    with pytest.raises(CaptureSetupError, match="folder and database"):
        CaptureSettings(folder="a", database="b")
    for changes in ({"deadline_s": 0.0}, {"deadline_s": float("nan")}, {"threads": 0}):
        with pytest.raises(CaptureSetupError, match="a positive deadline"):
            CaptureSettings(folder="a", **changes)  # type: ignore[arg-type]
    for settings, kind in (
        (CaptureSettings(folder=str(tmp_path / "f")), FileStore),
        (CaptureSettings(database=str(tmp_path / "d")), SqliteStore),
    ):
        store = open_store(settings)
        assert type(store) is kind
        store.close()
