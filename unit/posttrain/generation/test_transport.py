"""Published weights are whole or not there, and read as what they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.checksum import state_checksum
from posttrain.errors import RefitError
from posttrain.generation.extension import Readback, differences, uncovered
from posttrain.refit.transport import (
    SHARED_MEMORY,
    TensorInfo,
    opened,
    publish,
    read_manifest,
    run_folder,
    withdraw,
)

STATE = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(4, dtype=torch.bfloat16)}


def test_what_is_published_is_what_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "run" / "weights.safetensors"
    assert publish(STATE, path) == ["a", "b"]
    with opened(path) as weights:
        manifest = weights.manifest()
        state = {info.name: weights.tensor(info.name) for info in manifest}
    assert {(info.name, info.dtype, info.shape) for info in manifest} == {
        ("a", "bfloat16", (4,)),
        ("b", "float32", (2, 3)),
    }
    assert state_checksum(state.items()) == state_checksum(STATE.items())


def test_opened_weights_are_mapped_and_outlive_their_file(tmp_path: Path) -> None:
    path = tmp_path / "run" / "weights.safetensors"
    publish(STATE, path)
    with opened(path) as weights:
        mapped = Path(f"/proc/{os.getpid()}/maps").read_text()
        assert str(path) in mapped
        withdraw(path)
        assert weights.tensor("b").equal(STATE["b"])
    assert not path.parent.exists()


def test_publishing_again_replaces_the_file_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    publish(STATE, path)
    with opened(path) as weights:
        publish({"b": STATE["b"] + 1}, path)
        assert weights.tensor("b").equal(STATE["b"])
    assert [info.name for info in read_manifest(path)] == ["b"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_transposed_tensor_is_published_in_its_own_order(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    publish({"b": STATE["b"].t()}, path)
    with opened(path) as weights:
        assert weights.tensor("b").equal(STATE["b"].t())


def test_nothing_to_publish_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefitError, match="no tensors"):
        publish({}, tmp_path / "weights.safetensors")


def test_one_tensor_under_two_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefitError, match="share memory"):
        publish({"a": STATE["a"], "tied": STATE["a"]}, tmp_path / "weights.safetensors")


def test_a_state_that_does_not_fit_is_refused_before_it_is_written(tmp_path: Path) -> None:
    huge = {"w": torch.empty(1).expand(1 << 50)}
    with pytest.raises(RefitError, match="bytes free"):
        publish(huge, tmp_path / "weights.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "weights.safetensors"
    blocked.mkdir()
    (blocked / "file").touch()
    with pytest.raises(RefitError, match="weights"):
        publish(STATE, blocked)
    assert list(tmp_path.iterdir()) == [blocked]


def test_withdrawing_leaves_what_others_put_there(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    publish(STATE, folder / "one")
    publish(STATE, folder / "two")
    withdraw(folder / "one")
    withdraw(folder / "one")
    assert list(folder.iterdir()) == [folder / "two"]


@pytest.mark.parametrize("data", [b"", b"\x00" * 8, b"\xff" * 64, b"\x02" + b"\0" * 7 + b"[]x"])
def test_a_file_that_is_no_safetensors_file_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(data)
    with pytest.raises(RefitError), opened(path) as weights:
        weights.manifest()


def test_a_run_folder_stays_in_shared_memory() -> None:
    assert run_folder("run-7").parent == SHARED_MEMORY
    for token in ("", "..", "a/b", "/etc", "-x", "a" * 200):
        with pytest.raises(RefitError, match="run token"):
            run_folder(token)


WANTED = {"a": (2, 3), "b": (4,)}
names = st.sampled_from(["a", "b", "c"])
infos = st.builds(
    TensorInfo, names, st.sampled_from(["float32", "bfloat16"]), st.sampled_from([(2, 3), (4,)])
)


@given(st.lists(infos, max_size=4))
def test_a_manifest_passes_exactly_when_it_is_the_model(manifest: list[TensorInfo]) -> None:
    right = sorted((info.name, info.dtype, info.shape) for info in manifest) == [
        ("a", "float32", (2, 3)),
        ("b", "float32", (4,)),
    ]
    assert (not differences(WANTED, manifest, "float32")) == right


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.data())
def test_ranks_cover_a_tensor_exactly_when_every_index_is_in_a_part(
    cuts: list[int], data: st.DataObject
) -> None:
    spans = [(start, data.draw(st.integers(start, 12))) for start in cuts]
    readbacks = [
        Readback(rank, (("w", 0, start, stop, 12),), "") for rank, (start, stop) in enumerate(spans)
    ]
    held = {index for start, stop in spans for index in range(start, stop)}
    assert (uncovered(readbacks) == []) == (held == set(range(12)))
