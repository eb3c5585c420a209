"""Environments: the same layers wherever they are built, and built only when needed."""

from __future__ import annotations

import json
import shutil
import ssl
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.images import buildkit
from exacthead.images.cache import Cache
from exacthead.images.environment import Making
from exacthead.images.head import ensure_head
from exacthead.images.snapshot import snapshot
from exacthead.workers.explain import explain
from exacthead.workers.resolve import resolve
from unit.exacthead.conftest import Repository

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.config import Harness
    from exacthead.images.engine import Engine
    from exacthead.images.environment import Environment
    from exacthead.images.oci import ImageFile


@pytest.mark.usefixtures("another_shell")
def test_two_builds_elsewhere_later_and_without_any_cache_are_one_image(  # noqa: PLR0917
    engine: Engine,
    image: ImageFile,
    environment: Environment,
    cache: Cache,
    project: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = tmp_path / "another folder"
    Repository(tmp_path).git("clone", "--quiet", str(project.root), str(root))
    # A certificate bundle of this builder's own, which must leave no trace.
    mark = b"# a mark that no other file has: 3f1c9b\n"
    bundle = tmp_path / "certificates.pem"
    known = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    bundle.write_bytes(mark + Path(known).read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("EXACTHEAD_CACHE", str(tmp_path / "cache"))
    other = Cache(tmp_path / "cache" / "images")
    other.create()
    shutil.copytree(environment_cache(environment) / "uv", tmp_path / "cache" / "uv")

    # That a base is the same everywhere is a test of its own, and takes half a minute.
    share_base(cache, other)
    making = Making(load(root), other, engine, print, fresh=True)
    built = making.ensure("small")
    with snapshot(root) as made_from:
        again = ensure_head(engine, other, made_from, built, "https://example.test/small")

    assert built.built
    assert built.key == environment.key
    assert [each.diff_id for each in built.layers] == [each.diff_id for each in environment.layers]
    assert again.id == image.id
    for layer in built.layers:
        assert layer.path is not None
        assert mark.strip() not in layer.path.read_bytes()


def share_base(cache: Cache, other: Cache) -> None:
    """Give another cache the bases of this one."""
    for kind, key in cache.records():
        ready = cache.read(kind, key)
        if kind != "base" or ready is None:
            continue
        for layer in ready[0]:
            shutil.copyfile(cache.layer_path(layer.diff_id), other.layer_path(layer.diff_id))
        other.write(kind, key, *ready)


def environment_cache(environment: Environment) -> Path:
    """The cache folder that an environment's layers lie in."""
    path = environment.layers[0].path
    assert path is not None
    return path.parents[2]


def test_a_second_call_builds_nothing(
    engine: Engine, harness: Harness, cache: Cache, environment: Environment
) -> None:
    said: list[str] = []

    found = Making(harness, cache, engine, said.append).ensure("small")

    assert not found.built
    assert found.key == environment.key
    assert said == []


def test_a_worker_in_an_image_is_that_of_outside_on_another_interpreter(
    harness: Harness, environment: Environment
) -> None:
    inside, outside = environment.specs["plain"], resolve(harness, "plain", "cpu")

    assert inside.lock == outside.lock
    for line in explain(outside, inside):
        assert line.startswith(("interpreter's", "link mode"))
    assert environment.worker("plain").startswith("/opt/exacthead/workers/")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('probes = ["pytest"]', 'probes = ["coverage"]'),
        ('packages = ["python', 'packages = ["bzip2", "python'),
        (
            'workers = ["plain"]\n\n[runners',
            'workers = ["plain"]\npackages = ["xz-utils"]\n\n[runners',
        ),
    ],
)
def test_whatever_decides_an_environment_is_in_its_key(
    clone: Repository, before: str, after: str
) -> None:
    from exacthead.images.base import key_of
    from exacthead.images.environment import environment_key, image_spec
    from exacthead.workers.interpreter import find

    def key() -> str:
        harness = load(clone.root)
        image = harness.image("small")
        interpreter, _ = find(harness.worker("plain").python, None, below_floor_allowed=True)
        spec = image_spec(harness, "plain", "cpu", {harness.worker("plain").python: interpreter})
        decided = json.dumps([key_of(harness.base(image.base)), image.packages])
        return environment_key(decided, {"plain": spec}, "1")

    first = key()
    text = (clone.root / "ci/harness.toml").read_text(encoding="utf-8")
    assert before in text
    clone.write({"ci/harness.toml": text.replace(before, after)})

    assert key() != first
    clone.write({"ci/harness.toml": text, "small/numbers.py": "x = 1\n"})
    assert key() == first


def test_nothing_of_the_build_is_in_its_layers(environment: Environment) -> None:
    for layer in environment.layers[1:]:
        assert layer.path is not None
        with tarfile.open(layer.path) as archive:
            names = archive.getnames()
        assert names == sorted(names)
        allowed = ("opt", "etc", "usr", "var", "run", "tmp", "root", "dev", "proc", "sys")
        assert {name.partition("/")[0] for name in names} <= set(allowed)
        below = {name for name in names if name.startswith("opt/exacthead/")}
        assert {name.split("/")[2] for name in below} <= {"workers", "records", "manifests",
            "locks", "logs", "stamps", "uses"}  # fmt: skip


@pytest.fixture
def dockerfile(clone: Repository) -> Callable[[str], tuple[Harness, Path]]:
    """A function that changes the Dockerfile of the small repository."""

    def change(text: str) -> tuple[Harness, Path]:
        clone.write({"containers/workers.Dockerfile": text})
        return load(clone.root), clone.root / "containers" / "workers.Dockerfile"

    return change


def test_an_error_behind_a_line_of_success_fails_the_build(
    engine: Engine, cache: Cache, dockerfile: Callable[[str], tuple[Harness, Path]]
) -> None:
    text = "ARG BASE\nFROM ${BASE} AS system\n"
    text += "RUN echo 'Successfully built 0123456789ab' && echo 'naming to done' && exit 7\n"
    harness, _ = dockerfile(text)

    with pytest.raises(HarnessError, match=r"stage system[\s\S]*exit code[\s\S]*exit code: 7"):
        Making(harness, cache, engine, print).ensure("small")
    assert all(cache.read(kind, key) for kind, key in cache.records())


def test_a_dockerfile_that_does_not_begin_with_the_base_is_refused(
    engine: Engine, cache: Cache, dockerfile: Callable[[str], tuple[Harness, Path]]
) -> None:
    harness, _ = dockerfile("FROM scratch AS system\nCOPY . /\nLABEL a=b\n")

    with pytest.raises(HarnessError, match="must begin with"):
        Making(harness, cache, engine, print).ensure("small")


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("# escape=`\n#  Syntax = docker/dockerfile:1", 2),
        ("\ufeff# syntax=docker/dockerfile:1", 1),
        ("#!/usr/bin/env docker\n//syntax=docker/dockerfile:1", 2),
        ('\n{"a": 1, "syntax": "docker/dockerfile:1"}', 2),
    ],
)
def test_a_line_that_would_fetch_a_reader_is_refused(
    dockerfile: Callable[[str], tuple[Harness, Path]], line: str, number: int
) -> None:
    _, path = dockerfile(f"{line}\nFROM scratch\n")

    with pytest.raises(HarnessError, match=rf"line {number} is .*docker/dockerfile:1"):
        buildkit.check_dockerfile(path)


def test_a_program_without_buildkit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "docker"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "Docker version 28.2.2, build 0" || exit 1\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setattr(buildkit, "_SYSTEM", ())

    with pytest.raises(HarnessError, match=rf"{program}: Docker version 28.2.2.*without buildx"):
        buildkit.find_client(str(tmp_path))
    with pytest.raises(HarnessError, match="no docker program on PATH"):
        buildkit.find_client(str(tmp_path / "nothing"))


def test_a_worker_that_cannot_be_built_leaves_no_environment(
    clone: Repository, engine: Engine, cache: Cache
) -> None:
    text = (clone.root / "ci/harness.toml").read_text(encoding="utf-8")
    clone.write(
        {"ci/harness.toml": text.replace('probes = ["pytest"]', 'probes = ["no_such_module"]')}
    )
    before = cache.records().keys()

    with pytest.raises(HarnessError, match="no_such_module"):
        Making(load(clone.root), cache, engine, print).ensure("small")
    assert cache.records().keys() == before
