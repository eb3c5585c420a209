"""The cache of layers: ready is what has a record and all its files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.images import share
from exacthead.images.cache import Cache
from exacthead.images.layer import write_files

if TYPE_CHECKING:
    from pathlib import Path

KEY = "0123456789abcdef" * 4


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    found = Cache(tmp_path)
    found.create()
    return found


def test_what_was_recorded_is_read_back(cache: Cache) -> None:
    layer = cache.keep(write_files(cache.work / "x", {"a": b"1"}, "test"))
    assert cache.read("base", KEY) is None
    cache.write("base", KEY, [layer], {"packages": ["a=1"]})

    assert cache.read("base", KEY) == ([layer], {"packages": ["a=1"]})
    assert layer.path == cache.layer_path(layer.diff_id)
    assert cache.records() == {("base", KEY): {layer.diff_id}}
    cache.forget("base", KEY)
    assert cache.read("base", KEY) is None


@pytest.mark.parametrize("damage", ["gone", "short"])
def test_a_layer_that_is_gone_or_short_makes_it_not_ready(cache: Cache, damage: str) -> None:
    layer = cache.keep(write_files(cache.work / "x", {"a": b"1"}, "test"))
    cache.write("base", KEY, [layer], {})
    path = cache.layer_path(layer.diff_id)
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])

    assert cache.read("base", KEY) is None


def test_keys_with_one_beginning_are_told_apart(cache: Cache) -> None:
    other = KEY[:32] + "f" * 32
    cache.write("base", KEY, [], {})

    assert cache.read("base", other) is None


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(HarnessError, match="EXACTHEAD_CACHE"):
        Cache(tmp_path / "file").create()


def test_a_look_is_no_use_and_needs_no_right_to_write(cache: Cache) -> None:
    cache.write("base", KEY, [], {})
    (record,) = (cache.root / "records").glob("*.json")
    os.utime(record, (1, 1))

    assert cache.look("base", KEY) == ([], {})
    assert cache.age("base", KEY) == 1
    assert cache.read("base", KEY) == ([], {})
    assert cache.age("base", KEY) > 1


def test_a_saved_layer_takes_the_place_of_one_that_is_broken_here(
    cache: Cache, tmp_path: Path
) -> None:
    layer = cache.keep(write_files(cache.work / "x", {"a": b"1"}, "test"))
    cache.write("base", KEY, [layer], {})
    share.save(cache, tmp_path / "saved")
    whole = cache.layer_path(layer.diff_id).read_bytes()
    cache.layer_path(layer.diff_id).write_bytes(whole[:100])
    assert cache.read("base", KEY) is None

    assert share.load(cache, tmp_path / "saved") == [f"base {KEY}"]

    assert cache.read("base", KEY) == ([layer], {})
    assert cache.layer_path(layer.diff_id).read_bytes() == whole
    assert list(cache.work.iterdir()) == []
