from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.errors import ModelError
from posttrain.model.load import load_model, load_tokenizer
from posttrain.model.revision import content_revision, resolve_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT = "f" * 40
REPOSITORY = "exacthead/tiny-llama"


@pytest.fixture
def copy(tiny_llama: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_llama, tmp_path / "copy"))


@pytest.fixture
def hub_cache(tiny_llama: Path, tmp_path: Path) -> Path:
    """Lay a hub cache out as Hugging Face's libraries do, with `main` at another commit."""
    model = tmp_path / "hub" / "models--exacthead--tiny-llama"
    (model / "blobs").mkdir(parents=True)
    for commit in (COMMIT, OTHER_COMMIT):
        snapshot = model / "snapshots" / commit
        snapshot.mkdir(parents=True)
        for file in tiny_llama.iterdir():
            content = file.read_bytes()
            if commit == OTHER_COMMIT and file.name == "generation_config.json":
                content = b"{}"
            large = file.suffix == ".safetensors"
            name = (
                hashlib.sha256(content).hexdigest()
                if large
                else hashlib.sha1(
                    b"blob %d\0" % len(content) + content, usedforsecurity=False
                ).hexdigest()
            )
            (model / "blobs" / name).write_bytes(content)
            (snapshot / file.name).symlink_to(Path("../../blobs") / name)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(OTHER_COMMIT, encoding="utf-8")
    return tmp_path / "hub"


def test_a_folder_with_the_pinned_content_is_found(copy: Path) -> None:
    assert resolve_model(str(copy), content_revision(copy)) == copy


def test_a_relative_path_becomes_absolute(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copy.parent)
    assert resolve_model("copy", content_revision(copy)) == copy


def test_the_revision_is_of_names_and_bytes_only(copy: Path) -> None:
    pinned = content_revision(copy)
    (copy / ".DS_Store").write_bytes(b"x")
    (copy / ".cache").mkdir()
    (copy / ".cache" / "config.json").write_bytes(b"x")
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "a.pyc").write_bytes(b"x")
    os.utime(copy / "config.json", (0, 0))
    (copy / "config.json").chmod(0o600)
    moved = copy.rename(copy.with_name("moved"))
    assert content_revision(moved) == pinned


def flip_a_byte(folder: Path) -> None:
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)


def rename_a_file(folder: Path) -> None:
    (folder / "generation_config.json").rename(folder / "generation.json")


def add_a_file(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "new.json").write_bytes(b"")


def remove_a_file(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()


@pytest.mark.parametrize("change", [flip_a_byte, rename_a_file, add_a_file, remove_a_file])
def test_other_content_is_refused_with_both_digests(copy: Path, change: object) -> None:
    assert callable(change)
    pinned = content_revision(copy)
    change(copy)
    with pytest.raises(ModelError) as caught:
        resolve_model(str(copy), pinned)
    assert pinned in caught.value.asked
    assert content_revision(copy) in caught.value.found
    assert content_revision(copy) != pinned


names = st.text(st.sampled_from("abc-_é"), min_size=1, max_size=4)


@settings(max_examples=40)
@given(st.dictionaries(names, st.binary(max_size=8), min_size=1), st.data())
def test_two_folders_share_a_revision_only_if_they_share_their_content(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, bytes], data: st.DataObject
) -> None:
    other = data.draw(st.just(content) | st.dictionaries(names, st.binary(max_size=8), min_size=1))
    revisions = []
    for files in (content, dict(reversed(other.items()))):
        folder = tmp_path_factory.mktemp("content")
        for name, data_bytes in files.items():
            (folder / name).write_bytes(data_bytes)
        revisions.append(content_revision(folder))
    assert (revisions[0] == revisions[1]) == (content == other)


@pytest.mark.parametrize(
    "revision",
    [
        "main",
        "refs/main",
        "v1.0",
        "abc123",
        "",
        COMMIT[:39],
        COMMIT.upper(),
        COMMIT + "0",
        COMMIT + "\n",
        "sha256:abc",
    ],
)
def test_a_revision_that_does_not_pin_content_is_refused(hub_cache: Path, revision: str) -> None:
    with pytest.raises(ModelError, match="does not pin content"):
        resolve_model(REPOSITORY, revision, hub_cache)


def test_a_refused_revision_of_a_folder_comes_with_the_right_one(copy: Path) -> None:
    for revision in ("main", COMMIT):
        with pytest.raises(ModelError) as caught:
            resolve_model(str(copy), revision)
        assert content_revision(copy) in caught.value.todo


@pytest.mark.parametrize(
    ("ref", "found"),
    [("no/such/folder", "no such folder"), (__file__, "a file")],
    ids=["no folder", "a file"],  # an id must not hold where the checkout lies
)
def test_a_missing_folder_is_named(ref: str, found: str) -> None:
    with pytest.raises(ModelError, match=found) as caught:
        resolve_model(ref, "sha256:" + "0" * 64)
    assert ref in str(caught.value)


def test_an_empty_folder_and_a_linked_one_are_refused(tmp_path: Path, tiny_llama: Path) -> None:
    with pytest.raises(ModelError, match="an empty folder"):
        content_revision(tmp_path)
    (tmp_path / "sub").symlink_to(tiny_llama)
    with pytest.raises(ModelError, match="a link to a folder"):
        content_revision(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_an_incomplete_folder_is_refused_even_if_it_is_the_pinned_one(
    copy: Path, name: str
) -> None:
    (copy / name).unlink()
    with pytest.raises(ModelError, match=f"no {name} in"):
        resolve_model(str(copy), content_revision(copy))


def test_a_missing_shard_of_the_weights_is_named(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "model-00001-of-00002.safetensors")
    files = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    index = copy / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}), encoding="utf-8")
    with pytest.raises(ModelError, match=r"no model-00002-of-00002\.safetensors in"):
        resolve_model(str(copy), content_revision(copy))


def test_a_commit_is_found_whatever_main_points_to(hub_cache: Path) -> None:
    model = hub_cache / "models--exacthead--tiny-llama"
    assert resolve_model(REPOSITORY, COMMIT, hub_cache) == model / "snapshots" / COMMIT
    (model / "refs" / "main").write_text("0" * 40, encoding="utf-8")
    assert resolve_model(REPOSITORY, COMMIT, hub_cache) == model / "snapshots" / COMMIT


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"])
def test_the_hub_cache_is_where_the_environment_says(
    hub_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "huggingface").symlink_to(tmp_path)
    value = {"HF_HUB_CACHE": hub_cache}.get(variable, tmp_path)
    monkeypatch.setenv(variable, str(value))
    assert resolve_model(REPOSITORY, COMMIT).name == COMMIT


def test_a_missing_commit_names_the_folder_and_what_is_there(hub_cache: Path) -> None:
    missing = "a" * 40
    with pytest.raises(ModelError) as caught:
        resolve_model(REPOSITORY, missing, hub_cache)
    snapshots = hub_cache / "models--exacthead--tiny-llama" / "snapshots"
    assert str(snapshots / missing) in caught.value.found
    assert COMMIT in caught.value.found
    assert missing in caught.value.todo


@pytest.mark.parametrize("ref", ["../escape", "a/b/c", "/absent", "", "a b", "a--b/c", "é/x"])
def test_what_is_no_repository_id_is_not_looked_up(hub_cache: Path, ref: str) -> None:
    with pytest.raises(ModelError, match="neither a folder nor a repository id"):
        resolve_model(ref, COMMIT, hub_cache)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_blob_is_refused(hub_cache: Path, name: str) -> None:
    blob = hub_cache / "models--exacthead--tiny-llama" / "snapshots" / COMMIT / name
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    with pytest.raises(ModelError, match="the hub cache is damaged"):
        resolve_model(REPOSITORY, COMMIT, hub_cache)


def test_a_blob_that_is_gone_is_refused(hub_cache: Path) -> None:
    snapshot = hub_cache / "models--exacthead--tiny-llama" / "snapshots" / COMMIT
    (snapshot / "model.safetensors").resolve().unlink()
    with pytest.raises(ModelError, match="No such file"):
        resolve_model(REPOSITORY, COMMIT, hub_cache)


def test_model_and_tokenizer_load_from_a_snapshot_offline(hub_cache: Path) -> None:
    folder = resolve_model(REPOSITORY, COMMIT, hub_cache)
    assert load_model(folder).config.num_hidden_layers == 2
    assert load_tokenizer(folder).eos_token_id == 257


def test_a_checkpoint_that_is_not_the_architectures_is_refused(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config["num_hidden_layers"] = 3
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match=r"missing_keys: model.layers.2"):
        load_model(copy)
