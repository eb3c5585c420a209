"""Images on their way: archives, registries, caches, and what is swept away."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.images import archive, registry, share
from exacthead.images.cache import Cache
from exacthead.images.collect import collect
from exacthead.images.head import ensure_head
from exacthead.images.snapshot import snapshot
from exacthead.images.verify import Verifier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.images.engine import Engine
    from exacthead.images.environment import Environment
    from exacthead.images.oci import ImageFile
    from unit.exacthead.conftest import Repository

SOURCE = "https://example.test/small"


@pytest.fixture(scope="module")
def exported(
    project: Repository,
    environment: Environment,
    cache: Cache,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, archive.Exported]:
    target = tmp_path_factory.mktemp("exported") / "image.tar"
    with snapshot(project.root) as made_from:
        return target, archive.export(made_from, environment, SOURCE, target, cache.work)


def forget(engine: Engine, image: str) -> None:
    """Take an image away from the engine, all its names included."""
    while (facts := engine.image(image)) is not None:
        for name in facts.tags or (image,):
            assert engine.remove_image(name), f"another image or a container uses {name}"


def test_an_export_is_the_same_file_each_time_and_comes_back_as_the_same_image(  # noqa: PLR0917
    exported: tuple[Path, archive.Exported],
    engine: Engine,
    image: ImageFile,
    project: Repository,
    environment: Environment,
    cache: Cache,
    harness: Harness,
    tmp_path: Path,
) -> None:
    target, said = exported
    with snapshot(project.root) as made_from:
        archive.export(made_from, environment, SOURCE, tmp_path / "2.tar", cache.work)
        assert target.read_bytes() == (tmp_path / "2.tar").read_bytes()
        assert said.image == image.id
        forget(engine, image.id)

        assert archive.take_in(target, engine, cache) == image.id
        assert Verifier(harness, engine, cache).verify(image.id, made_from).id == image.id


def test_skopeo_reads_an_export_as_an_oci_archive(
    exported: tuple[Path, archive.Exported], image: ImageFile
) -> None:
    program = shutil.which("skopeo")
    assert program is not None, "apt-get install skopeo"
    target, said = exported

    def inspect(*options: str) -> dict[str, object]:
        done = subprocess.run(
            [program, "inspect", *options, f"oci-archive:{target}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found: dict[str, object] = json.loads(done.stdout)
        return found

    assert inspect()["Digest"] == said.digest
    assert inspect()["Layers"] == [layer.diff_id for layer in image.layers]
    assert inspect("--config")["rootfs"] == {
        "type": "layers", "diff_ids": [layer.diff_id for layer in image.layers],
    }  # fmt: skip


@pytest.fixture
def registry_address(tmp_path: Path) -> Iterator[str]:
    """A registry on loopback, from Debian's package."""
    program = shutil.which("docker-registry")
    assert program is not None, "apt-get install docker-registry"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (tmp_path / "registry.yml").write_text(json.dumps(settings), encoding="utf-8")
    with (tmp_path / "registry.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", str(tmp_path / "registry.yml")], stdout=log, stderr=log
        )
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def test_what_was_pushed_comes_back_by_its_digest_as_the_same_image(  # noqa: PLR0917
    registry_address: str,
    engine: Engine,
    image: ImageFile,
    project: Repository,
    harness: Harness,
    cache: Cache,
) -> None:
    reference = registry.push(engine, image.id, f"{registry_address}/team/small")
    assert "@sha256:" in reference
    facts = engine.image(image.id)
    assert facts is not None
    assert not [tag for tag in facts.tags if registry_address in tag] or len(facts.tags) == 1
    forget(engine, image.id)

    assert registry.pull(engine, reference) == image.id
    with snapshot(project.root) as made_from:
        assert Verifier(harness, engine, cache).verify(reference, made_from).id == image.id

    engine.tag(image.id, f"exacthead/head:{made_from.commit[:12]}")
    wrong = reference[:-64] + "0" * 64
    with pytest.raises(HarnessError, match=f"pull {wrong}"):
        registry.pull(engine, wrong)
    with pytest.raises(HarnessError, match="a name that can move"):
        registry.pull(engine, f"{registry_address}/team/small:latest")
    with pytest.raises(HarnessError, match="name the repository alone"):
        registry.push(engine, image.id, f"{registry_address}/team/small:latest")


def test_a_registry_that_is_not_there_is_an_error(engine: Engine, image: ImageFile) -> None:
    assert engine.image(image.id) is not None
    with pytest.raises(HarnessError, match=r"push 127.0.0.1:9/x"):
        registry.push(engine, image.id, "127.0.0.1:9/x")
    assert engine.image(image.id) is not None


def test_a_saved_cache_is_ready_on_another_machine_and_each_layer_is_checked(
    cache: Cache, environment: Environment, tmp_path: Path
) -> None:
    folder = tmp_path / "saved"
    assert {layer.diff_id for layer in environment.layers} <= set(share.save(cache, folder))
    before = {path: path.stat().st_mtime_ns for path in (folder / "layers").iterdir()}
    share.save(cache, folder)
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "layers").iterdir()}

    other = Cache(tmp_path / "other")
    other.create()
    taken = share.load(other, folder)
    found = other.read("environment", environment.key)

    assert f"environment {environment.key}" in taken
    assert found is not None
    assert [each.diff_id for each in found[0]] == [each.diff_id for each in environment.layers]

    last = folder / "layers" / f"{environment.layers[-1].diff_id[7:]}.tar"
    with last.open("r+b") as file:
        file.seek(100)
        file.write(b"#")
    third = Cache(tmp_path / "third")
    third.create()
    with pytest.raises(HarnessError, match="its content has sha256:"):
        share.load(third, folder)
    assert third.read("environment", environment.key) is None


def test_what_the_last_runs_used_stays_and_the_rest_goes(  # noqa: PLR0917
    engine: Engine,
    image: ImageFile,
    clone: Repository,
    environment: Environment,
    cache: Cache,
    tmp_path: Path,
) -> None:
    made = []
    for number in (1, 2, 3):
        clone.commit({"small/numbers.py": f"x = {number}\n"})
        with snapshot(clone.root) as made_from:
            made.append(ensure_head(engine, cache, made_from, environment, SOURCE).id)
    engine.tag(made[2], "somebody/small:kept")
    runs = tmp_path / "runs"
    (runs / "1").mkdir(parents=True)
    used = {"images": {"small": made[0], "other": image.id}}
    (runs / "1" / "provenance.json").write_text(json.dumps(used), encoding="utf-8")
    loose = cache.layer_path("sha256:" + "a" * 64)
    loose.write_bytes(b"of no record")
    young = cache.layer_path("sha256:" + "b" * 64)
    young.write_bytes(b"of a build that goes on")
    os.utime(loose, (1, 1))
    killed, going = cache.work / "killed", cache.work / "going"
    for folder in (killed, going):
        folder.mkdir()
        (folder / "layer.tar").write_bytes(b"half")
    os.utime(killed, (1, 1))

    swept = collect(engine, cache, runs, 0)

    assert made[1] in swept.images
    assert not {made[0], made[2], image.id} & set(swept.images)
    assert engine.image(made[1]) is None
    assert engine.image(made[0]) is not None
    assert engine.image("somebody/small:kept") == engine.image(made[2]) is not None
    assert engine.image(image.id) is not None
    assert swept.layers == ("sha256:" + "a" * 64,)
    assert not loose.exists()
    assert young.exists()
    assert cache.read("environment", environment.key) is not None
    assert not killed.exists()
    assert (going / "layer.tar").exists()
    shutil.rmtree(going)
    young.unlink()
    forget(engine, made[0])
    forget(engine, made[2])
