"""Only the image of the head is run: a tag or a label may say what it likes."""

from __future__ import annotations

import io
import json
import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.images import head_layer
from exacthead.images.box import BoxSpec, Limits, run_plain
from exacthead.images.cache import Cache
from exacthead.images.head import ensure_head
from exacthead.images.load import load as load_image
from exacthead.images.oci import PYTHONS, REVISION, ImageFile
from exacthead.images.owner import this
from exacthead.images.snapshot import Snapshot, snapshot
from exacthead.images.verify import Verifier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.images.engine import Engine
    from exacthead.images.environment import Environment
    from unit.exacthead.conftest import Repository


@pytest.fixture
def verifier(harness: Harness, engine: Engine, cache: Cache, image: ImageFile) -> Verifier:
    assert image.id
    return Verifier(harness, engine, cache)


@pytest.fixture
def head(project: Repository) -> Iterator[Snapshot]:
    with snapshot(project.root) as made_from:
        yield made_from


def commit_over(engine: Engine, image: str, name: str) -> str:
    """What ``docker commit`` makes of a container of an image."""
    command = ["sh", "-c", "echo evil >>/workspace/small/numbers.py"]
    container = engine.create(image, Cmd=command, HostConfig={"NetworkMode": "none"})
    try:
        engine.start(container)
        assert engine.wait(container, 30).code == 0
        repository, _, tag = name.partition(":")
        engine._ask.commit(container, repository, tag)
    finally:
        engine._ask.remove_container(container)
    found = engine.image(name)
    assert found is not None
    return found.id


def test_the_image_of_the_head_is_by_id_by_tag_and_by_a_short_id(
    verifier: Verifier, head: Snapshot, image: ImageFile, environment: Environment
) -> None:
    for reference in (image.id, image.id[7:19], f"exacthead/head:{head.commit[:12]}"):
        found = verifier.verify(reference, head)
        assert found.id == image.id
        assert found.environment.key == environment.key
        assert found.environment.specs == dict(environment.specs)
        assert found.notes == ()


def test_the_engine_names_it_by_the_id_that_was_computed(
    engine: Engine, image: ImageFile, head: Snapshot
) -> None:
    facts = engine.image(image.id)

    assert facts is not None
    assert facts.id == image.id
    assert facts.layers[-1] == head_layer.diff_id(head)
    assert facts.labels[REVISION] == head.commit


WALK = """
import hashlib, json, os
found = {}
for folder, folders, files in os.walk(b"/workspace"):
    for name in [*files, *(each for each in folders if os.path.islink(os.path.join(folder, each)))]:
        path = os.path.join(folder, name)
        linked = os.path.islink(path)
        data = os.readlink(path) if linked else open(path, "rb").read()
        mode = "120000" if linked else "100755" if os.stat(path).st_mode & 0o100 else "100644"
        blob = hashlib.sha1(b"blob %d\\0" % len(data) + data).hexdigest()
        found[path.removeprefix(b"/workspace/").hex()] = [mode, blob]
print(json.dumps(found))
"""


def test_what_a_container_sees_is_the_commit_file_by_file(
    clone: Repository, engine: Engine, cache: Cache, environment: Environment
) -> None:
    """Names of all kinds, told by git alone on one side and by the kernel on the other."""
    long = "/".join(["n" * 120] * 3)
    names = ["a\nb", "ü", "u\u0308", " ", "-rf", "x:y", "Readme", "README", "'\"\\", long, "\t\x1b"]
    odd = os.fsencode(clone.root) + b"/\xff\xfe"
    clone.write({f"odd/{name}": f"in {name!r}\n" for name in names} | {"odd/empty": ""})
    with open(odd, "wb") as file:  # noqa: PTH123 - a name that is no text
        file.write(bytes(range(256)))
    clone.write({"odd/run": "#!/bin/sh\n"})
    (clone.root / "odd" / "run").chmod(0o755)
    (clone.root / "odd" / "link").symlink_to("../small")
    clone.commit({".gitattributes": "odd/* export-ignore\n"})
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "-z", "HEAD"], cwd=clone.root, capture_output=True, check=True
    ).stdout
    expected = {}
    for line in listed.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, _, blob = facts.decode().split()
        expected[path.hex()] = [mode, blob]

    with snapshot(clone.root) as made_from:
        made = ensure_head(engine, cache, made_from, environment, "")
    command = ("/usr/bin/python3.13", "-I", "-c", WALK)
    output, _ = run_plain(engine, BoxSpec(made.id, command, this(), Limits(1, 0.2, 40)))

    assert len(expected) > len(names)
    assert json.loads(output) == expected


def test_an_image_of_another_head_is_refused_with_both_digests(
    clone: Repository, verifier: Verifier, head: Snapshot, image: ImageFile
) -> None:
    clone.commit({"small/numbers.py": "def add(one, other):\n    return 0\n"})

    with snapshot(clone.root) as other, pytest.raises(HarnessError) as caught:
        verifier.verify(image.id, other)

    assert head_layer.diff_id(other) in caught.value.asked
    assert head_layer.diff_id(head) in caught.value.found
    assert "--reuse" in caught.value.todo


def test_a_forged_label_counts_for_nothing(
    engine: Engine,
    clone: Repository,
    verifier: Verifier,
    image: ImageFile,
    environment: Environment,
) -> None:
    commit = clone.commit({"small/numbers.py": "def add(one, other):\n    return 0\n"})
    forged = replace(image, labels={**image.labels, REVISION: commit})
    load_image(engine, with_files(forged, clone), "forged:latest", below=environment.file.id)

    with snapshot(clone.root) as other, pytest.raises(HarnessError, match="counts for nothing"):
        verifier.verify("forged:latest", other)


def with_files(image: ImageFile, repository: Repository) -> ImageFile:
    """The image with a head layer that has a file: that of its first commit."""
    first = repository.git("rev-list", "--max-parents=0", "HEAD")
    with snapshot(repository.root, revision=first) as made_from:
        head = head_layer.write(made_from, repository.root.parent / "head.tar")
    assert head.diff_id == image.layers[-1].diff_id
    return replace(image, layers=(*image.layers[:-1], head))


def test_a_container_that_was_committed_over_it_is_refused(
    engine: Engine, verifier: Verifier, head: Snapshot, image: ImageFile
) -> None:
    commit_over(engine, image.id, "over:latest")

    with pytest.raises(HarnessError, match="something was added to the image") as caught:
        verifier.verify("over:latest", head)
    assert head_layer.diff_id(head) in caught.value.asked


def test_a_tag_that_has_moved_is_refused(
    engine: Engine, verifier: Verifier, head: Snapshot, image: ImageFile, environment: Environment
) -> None:
    name = "moving:latest"
    engine.tag(image.id, name)
    assert verifier.verify(name, head).id == image.id

    engine.tag(environment.file.id, name)

    with pytest.raises(HarnessError, match="its last layer is"):
        verifier.verify(name, head)


@pytest.mark.parametrize(
    "change",
    [
        {"Env": ["PATH=/bin", "LD_PRELOAD=/workspace/evil.so"]},
        {"Entrypoint": ["/bin/sh"]},
        {"User": "0"},
    ],
)
def test_a_changed_configuration_over_the_same_layers_is_refused(
    engine: Engine,
    verifier: Verifier,
    head: Snapshot,
    image: ImageFile,
    change: dict[str, object],
) -> None:
    config = json.loads(image.config.text)
    config["config"] |= change
    forged = archive_of(json.dumps(config).encode(), image)
    engine.load([forged], "load a forged image")

    with pytest.raises(HarnessError, match="its configuration was changed"):
        verifier.verify("forged:config", head)


def archive_of(config: bytes, image: ImageFile) -> bytes:
    """An archive with a configuration of somebody's own, for an engine that has the layers."""
    import tarfile

    from exacthead.images.layer import plain_member

    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:

        def add(name: str, data: bytes) -> None:
            archive.addfile(plain_member(name, len(data)), io.BytesIO(data))

        layers = [f"{number}/layer.tar" for number, _ in enumerate(image.layers)]
        add("config.json", config)
        manifest = [{"Config": "config.json", "RepoTags": ["forged:config"], "Layers": layers}]
        add("manifest.json", json.dumps(manifest).encode())
    return target.getvalue()


def test_an_environment_that_is_unknown_here_counts_only_when_the_image_is_named_by_content(
    harness: Harness, engine: Engine, head: Snapshot, image: ImageFile, tmp_path: Path
) -> None:
    empty = Cache(tmp_path / "empty")
    empty.create()
    elsewhere = Verifier(harness, engine, empty)

    names = ("sha", image.id[7:15], f"exacthead/head:{head.commit[:12]}")
    for name in names:
        engine.tag(image.id, name if ":" in name else f"{name}:latest")
        with pytest.raises(HarnessError, match=f"a tag can move[\\s\\S]*{image.id}"):
            elsewhere.verify(name, head)
    for reference in (image.id, image.id[7:19]):
        found = elsewhere.verify(reference, head)
        assert found.id == image.id
        assert "was not built here" in found.notes[0]


def test_an_environment_with_the_key_of_another_is_refused(  # noqa: PLR0917
    engine: Engine, cache: Cache, verifier: Verifier, head: Snapshot, image: ImageFile,
    project: Repository, environment: Environment,
) -> None:  # fmt: skip
    from exacthead.images.layer import write_files

    evil = write_files(cache.work / "evil.tar", {"opt/evil": b"1"}, "evil")
    whole = with_files(image, project)
    forged = replace(whole, layers=(*whole.layers[:-1], evil, whole.layers[-1]))
    load_image(engine, forged, "forged:environment", below=environment.file.id)

    with pytest.raises(HarnessError, match="with environment"):
        verifier.verify("forged:environment", head)


@pytest.mark.parametrize("change", ["another path", "another version"])
def test_a_label_cannot_choose_the_program_that_a_container_begins_with(  # noqa: PLR0917
    engine: Engine, verifier: Verifier, head: Snapshot, image: ImageFile, project: Repository,
    environment: Environment, change: str,
) -> None:  # fmt: skip
    pythons = json.loads(image.labels[PYTHONS])
    ((minor, found),) = pythons.items()
    if change == "another path":
        pythons[minor] = {**found, "path": "/bin/true"}
    else:
        pythons["3.99"] = {**found, "path": "/bin/true"}
    labels = {**image.labels, PYTHONS: json.dumps(pythons, sort_keys=True)}
    forged = replace(with_files(image, project), labels=labels)
    load_image(engine, forged, "forged:python", below=environment.file.id)

    with pytest.raises(HarnessError, match=r"Pythons that were found in[\s\S]*/bin/true"):
        verifier.verify("forged:python", head)


def test_an_image_whose_worker_is_of_another_lock_is_refused(
    clone: Repository, engine: Engine, cache: Cache, image: ImageFile, head: Snapshot
) -> None:
    text = (clone.root / "ci/harness.toml").read_text(encoding="utf-8")
    clone.write({"ci/harness.toml": text.replace('probes = ["pytest"]', 'probes = ["coverage"]')})
    other = load(clone.root)

    with pytest.raises(HarnessError, match="worker 'plain' of key"):
        Verifier(other, engine, cache).verify(image.id, head)


def test_an_image_that_is_not_there_is_named(verifier: Verifier, head: Snapshot) -> None:
    with pytest.raises(HarnessError, match=r"no-such:image[\s\S]*has no such image"):
        verifier.verify("no-such:image", head)


def test_after_a_change_only_the_head_layer_is_another(  # noqa: PLR0917
    clone: Repository,
    engine: Engine,
    cache: Cache,
    environment: Environment,
    image: ImageFile,
    harness: Harness,
) -> None:
    clone.commit({"small/numbers.py": "def add(one, other):\n    return other + one\n"})
    with snapshot(clone.root) as made_from:
        second = ensure_head(engine, cache, made_from, environment, harness.project.source)
        facts = engine.image(second.id)
        assert facts is not None
        found = Verifier(harness, engine, cache).verify(second.id, made_from)

    assert found.id == second.id != image.id
    assert facts.layers[:-1] == tuple(layer.diff_id for layer in image.layers[:-1])
    assert facts.layers[-1] != image.layers[-1].diff_id


def test_a_dirty_checkout_has_an_image_that_is_called_no_head(  # noqa: PLR0917
    clone: Repository,
    engine: Engine,
    cache: Cache,
    environment: Environment,
    image: ImageFile,
    harness: Harness,
) -> None:
    clone.write({"small/numbers.py": "def add(one, other):\n    return other + one\n"})

    with snapshot(clone.root, dirty=True) as made_from:
        dirty = ensure_head(engine, cache, made_from, environment, harness.project.source)
        found = Verifier(harness, engine, cache).verify(dirty.id, made_from)
        facts = engine.image(found.id)

    assert facts is not None
    assert REVISION not in facts.labels
    assert facts.labels["exacthead.content"] == made_from.commit
    assert dirty.id != image.id
    assert [tag for tag in facts.tags if tag.startswith("exacthead/head:dirty-")]


def test_a_person_can_recompute_the_digest_with_git_alone(
    engine: Engine, image: ImageFile, project: Repository
) -> None:
    command = "git -c tar.umask=0022 archive --prefix=workspace/ HEAD | sha256sum"
    done = subprocess.run(
        ["sh", "-c", command], cwd=project.root, capture_output=True, text=True, check=True
    )
    facts = engine.image(image.id)

    assert facts is not None
    assert facts.layers[-1] == f"sha256:{done.stdout.split()[0]}"
