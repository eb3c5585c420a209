"""Images as documents and archives: decided by layers, labels and date, and by nothing else."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.images.archive import export, read_archive
from exacthead.images.environment import Environment
from exacthead.images.layer import Layer, write_files
from exacthead.images.oci import ImageFile, timestamp, write_archive
from exacthead.images.snapshot import snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from unit.exacthead.conftest import Repository


@pytest.fixture
def image(tmp_path: Path) -> ImageFile:
    layers = (
        write_files(tmp_path / "1.tar", {"etc/x": b"1", "bin/run": b"#!/bin/sh\n"}, "base"),
        write_files(tmp_path / "2.tar", {"workspace/a.py": b"a = 1\n"}, "head"),
    )
    return ImageFile(layers, {"b": "2", "a": "1"}, created=1_700_000_000, folder="/workspace")


def archive(image: ImageFile, **options: object) -> bytes:
    target = io.BytesIO()
    write_archive(image, target, **options)  # type: ignore[arg-type]
    return target.getvalue()


def test_an_id_is_the_digest_of_the_configuration_and_that_says_it_all(image: ImageFile) -> None:
    config = json.loads(image.config.text)

    assert image.id == f"sha256:{hashlib.sha256(image.config.text).hexdigest()}"
    assert config["rootfs"]["diff_ids"] == [layer.diff_id for layer in image.layers]
    assert config["created"] == "2023-11-14T22:13:20Z" == timestamp(1_700_000_000)
    assert config["config"]["Labels"] == {"a": "1", "b": "2"}
    assert config["config"]["WorkingDir"] == "/workspace"


def test_the_order_of_labels_and_how_a_layer_was_made_change_nothing(image: ImageFile) -> None:
    layers = tuple(replace(layer, made_by="elsewhere", path=None) for layer in image.layers)

    assert replace(image, labels={"a": "1", "b": "2"}, layers=layers).id == image.id


@pytest.mark.parametrize(
    "change",
    [{"labels": {"a": "1"}}, {"created": 1}, {"folder": "/"}, {"architecture": "arm64"}],
)
def test_whatever_differs_is_another_image(image: ImageFile, change: dict[str, object]) -> None:
    assert replace(image, **change).id != image.id  # type: ignore[arg-type]
    assert replace(image, layers=image.layers[::-1]).id != image.id


def test_an_archive_has_the_same_bytes_each_time_and_is_an_oci_layout(image: ImageFile) -> None:
    data = archive(image, name="exacthead/head:abc")
    assert data == archive(image, name="exacthead/head:abc")

    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    blobs = {name: text for name, text in files.items() if name.startswith("blobs/sha256/")}
    for name, text in blobs.items():
        assert name.rpartition("/")[2] == hashlib.sha256(text).hexdigest()
    (described,) = json.loads(files["index.json"])["manifests"]
    assert described["digest"] == image.manifest.digest
    assert described["annotations"]["org.opencontainers.image.ref.name"] == "abc"
    manifest = json.loads(blobs[f"blobs/sha256/{described['digest'][7:]}"])
    assert manifest["config"]["digest"] == image.id
    assert [each["size"] for each in manifest["layers"]] == [each.size for each in image.layers]
    (old,) = json.loads(files["manifest.json"])
    assert old["RepoTags"] == ["exacthead/head:abc"]
    assert set(old["Layers"]) | {old["Config"]} < set(blobs)


def test_layers_that_an_engine_has_are_left_out(image: ImageFile) -> None:
    below, head = image.layers
    with tarfile.open(fileobj=io.BytesIO(archive(image, without={below.diff_id}))) as tar:
        names = set(tar.getnames())

    assert f"blobs/sha256/{head.diff_id[7:]}" in names
    assert f"blobs/sha256/{below.diff_id[7:]}" not in names


def test_a_layer_without_a_file_is_an_error(image: ImageFile) -> None:
    gone = replace(image, layers=(replace(image.layers[0], path=None), image.layers[1]))

    with pytest.raises(HarnessError, match=r"not in the cache[\s\S]*--rebuild"):
        archive(gone)


def test_an_archive_is_read_back_as_the_same_image(image: ImageFile, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(archive(image))
    (tmp_path / "out").mkdir()

    found = read_archive(tmp_path / "image.tar", tmp_path / "out")

    assert found.id == image.id
    assert found.manifest.digest == image.manifest.digest
    for layer, original in zip(found.layers, image.layers, strict=True):
        assert layer.path is not None
        assert original.path is not None
        assert layer.path.read_bytes() == original.path.read_bytes()


@pytest.mark.parametrize("where", ["layer", "config", "end"])
def test_an_archive_that_was_changed_or_broke_off_is_refused(
    image: ImageFile, tmp_path: Path, where: str
) -> None:
    data = archive(image)
    match where:
        case "layer":
            data = data.replace(b"a = 1\n", b"a = 2\n")
        case "config":
            data = data.replace(b'"WorkingDir":"/workspace"', b'"WorkingDir":"/elsewhere"')
        case "end":
            data = data[: len(data) // 2]
    (tmp_path / "image.tar").write_bytes(data)
    (tmp_path / "out").mkdir()

    with pytest.raises(HarnessError, match="archive"):
        read_archive(tmp_path / "image.tar", tmp_path / "out")


def test_a_configuration_that_its_layers_do_not_make_is_refused(
    image: ImageFile, tmp_path: Path
) -> None:
    config = json.loads(image.config.text)
    config["config"]["Env"].append("LD_PRELOAD=/workspace/evil.so")
    text = json.dumps(config).encode()
    digest = hashlib.sha256(text).hexdigest()
    manifest = json.loads(image.manifest.text)
    manifest["config"] |= {"digest": f"sha256:{digest}", "size": len(text)}
    whole = json.dumps(manifest).encode()
    blobs = {f"blobs/sha256/{digest}": text}
    blobs[f"blobs/sha256/{hashlib.sha256(whole).hexdigest()}"] = whole
    index = {"manifests": [{"digest": f"sha256:{hashlib.sha256(whole).hexdigest()}"}]}
    for layer in image.layers:
        assert layer.path is not None
        blobs[f"blobs/sha256/{layer.diff_id[7:]}"] = layer.path.read_bytes()
    write_files(tmp_path / "i.tar", {**blobs, "index.json": json.dumps(index).encode()}, "")
    (tmp_path / "out").mkdir()

    with pytest.raises(HarnessError, match=f"with image {image.id}[\\s\\S]*{digest}"):
        read_archive(tmp_path / "i.tar", tmp_path / "out")


def test_a_layer_is_known_by_its_bytes(tmp_path: Path) -> None:
    one = write_files(tmp_path / "1", {"b": b"2", "a/c": b"1"}, "x")
    two = write_files(tmp_path / "2", {"a/c": b"1", "b": b"2"}, "x")

    assert one == Layer(two.diff_id, two.size, tmp_path / "1", "x")
    assert one.diff_id == f"sha256:{hashlib.sha256((tmp_path / '1').read_bytes()).hexdigest()}"


def test_what_may_be_in_no_image_is_in_no_archive(repository: Repository, tmp_path: Path) -> None:
    (repository.root / "out").symlink_to("/etc/passwd")
    repository.commit({})
    environment, target = Environment("k" * 64, (), {}, {}), tmp_path / "image.tar"

    with (
        snapshot(repository.root) as made_from,
        pytest.raises(HarnessError, match="out: a link to /etc/passwd"),
    ):
        export(made_from, environment, "", target, tmp_path)

    assert list(tmp_path.glob("image.tar*")) == []
