"""Layers out of ``docker save``, as old and new engines write it."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.images.saved import saved_layers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def saved(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def manifest(*layers: str) -> bytes:
    return json.dumps([{"Config": "c.json", "Layers": layers}]).encode()


@pytest.mark.parametrize("size", [700, 1 << 20])
def test_layers_come_in_the_order_of_the_manifest(tmp_path: Path, size: int) -> None:
    one, two = b"1" * 3000, b"2" * 10
    data = saved({"b/layer.tar": two, "a/layer.tar": one,
                  "manifest.json": manifest("a/layer.tar", "b/layer.tar")})  # fmt: skip

    assert [path.read_bytes() for path in saved_layers(pieces(data, size), tmp_path)] == [one, two]


def test_new_engines_name_layers_by_digest(tmp_path: Path) -> None:
    data = saved({"blobs/sha256/1": b"1", "blobs/sha256/2": b"2",
                  "manifest.json": manifest("blobs/sha256/2")})  # fmt: skip

    assert [path.read_bytes() for path in saved_layers([data], tmp_path)] == [b"2"]


def test_a_layer_that_is_there_twice_may_be_a_link(tmp_path: Path) -> None:
    data = saved(
        {"a/layer.tar": b"1", "manifest.json": manifest("a/layer.tar", "b/layer.tar")},
        {"b/layer.tar": "../a/layer.tar"},
    )

    assert [path.read_bytes() for path in saved_layers([data], tmp_path)] == [b"1", b"1"]


@pytest.mark.parametrize(
    "data",
    [
        saved({"a/layer.tar": b"1" * 5000, "manifest.json": manifest("a/layer.tar")})[:3000],
        saved({"manifest.json": manifest("a/layer.tar")}),
        saved({"a/layer.tar": b"1"}),
        b"",
        b"no tar at all" * 100,
    ],
    ids=["cut", "without its layer", "without a manifest", "empty", "no tar"],
)
def test_a_stream_that_is_not_whole_is_an_error(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(HarnessError, match="layers of an image"):
        saved_layers([data], tmp_path)
