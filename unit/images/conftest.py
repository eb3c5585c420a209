"""A real engine, a small repository, and its image: made once for all tests of this folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock

from exacthead.config import Harness, load
from exacthead.errors import HarnessError
from exacthead.images.cache import Cache
from exacthead.images.engine import Engine
from exacthead.images.environment import Environment, Making
from exacthead.images.head import ensure_head
from exacthead.images.oci import ENVIRONMENT
from exacthead.images.snapshot import snapshot
from exacthead.images.start import no_engine, own_engine
from unit.exacthead.conftest import Repository
from unit.images.small import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.images.oci import ImageFile

# How an engine lists an image without a name.
NO_NAME = "<none>:<none>"


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of an engine: the one that runs, else one that is started for these tests."""
    if problem := no_engine():
        pytest.skip(problem)
    with ExitStack() as held:
        try:
            with closing(Engine()) as found:
                host = found.host
        except HarnessError:
            # A socket's path is short; an engine's files lie where images can be unpacked.
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="ehd-")))
            host = held.enter_context(own_engine(folder))
        before = os.environ.get("DOCKER_HOST")
        os.environ["DOCKER_HOST"] = host
        yield host
        if before is None:
            del os.environ["DOCKER_HOST"]
        else:
            os.environ["DOCKER_HOST"] = before


@pytest.fixture(scope="session")
def engine(address: str, cache: Cache) -> Iterator[Engine]:
    # Two sessions of these tests make the same images, and each takes its own away.
    turn = FileLock(Path(tempfile.gettempdir()) / "exacthead-test-images.lock")
    with closing(Engine({"DOCKER_HOST": address})) as found, turn, none_left(found, cache):
        yield found


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of everything that is made once."""
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="session")
def project(place: Path) -> Repository:
    """A small repository that declares an image, with its lock; never changed by a test."""
    root = place / "project"
    root.mkdir()
    repository = Repository(root)
    repository.git("init", "--quiet", "--initial-branch=main")
    repository.write(files())
    code, printed = repository.exacthead("lock", EXACTHEAD_CACHE=str(place / "cache"))
    assert code == 0, printed
    repository.commit({})
    return repository


@pytest.fixture(scope="session")
def cache(place: Path) -> Cache:
    found = Cache(place / "cache" / "images")
    found.create()
    return found


@pytest.fixture(scope="session")
def harness(project: Repository) -> Harness:
    return load(project.root)


@pytest.fixture(scope="session")
def environment(
    engine: Engine, harness: Harness, cache: Cache, place: Path, address: str
) -> Environment:
    """The environment of the small repository's image, built from nothing."""
    os.environ["EXACTHEAD_CACHE"] = str(place / "cache")
    assert address
    return Making(harness, cache, engine, print).ensure("small")


@pytest.fixture(scope="session")
def image(engine: Engine, cache: Cache, project: Repository, environment: Environment) -> ImageFile:
    """The image of the small repository's head."""
    with snapshot(project.root) as made_from:
        return ensure_head(engine, cache, made_from, environment, "https://example.test/small")


@pytest.fixture(autouse=True)
def swept(engine: Engine, cache: Cache) -> Iterator[None]:
    """A test leaves no image, and no name of one, that was not there before it."""
    with none_left(engine, cache):
        yield


@contextmanager
def none_left(engine: Engine, cache: Cache) -> Iterator[None]:
    """Take away the images and names that the block has made, as far as nothing uses them.

    Others may build in the same engine meanwhile: only what is on a base or an environment of
    these tests is theirs.
    """
    before = names_of(engine)
    yield
    known = {key if kind == "environment" else f"{kind} {key}" for kind, key in cache.records()}
    for image, (label, names) in names_of(engine).items():
        _, earlier = before.get(image, ("", set[str]()))
        # An image goes with its last name; one that was there before must not.
        extra = sorted(names - earlier) if earlier & names else []
        if image not in before:
            # By its id in the end: a digest by which a registry knows it is a name as well.
            extra = [*names, image]
        for name in extra if label in known else ():
            engine.remove_image(name)


def names_of(engine: Engine) -> dict[str, tuple[str, set[str]]]:
    """What every image says of its environment, and its names, by its id."""
    return {
        each["Id"]: (
            (each["Labels"] or {}).get(ENVIRONMENT, ""),
            {*(each["RepoTags"] or ())} - {NO_NAME},
        )
        for each in engine._ask.images()
    }


@pytest.fixture
def another_shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another mask for new files, another language and time zone than the first builder's."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    monkeypatch.setenv("LC_ALL", "C")
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def clone(project: Repository, tmp_path: Path, environment: Environment) -> Repository:
    """A copy of the small repository that a test may change; the caches are shared."""
    assert environment.layers
    root = tmp_path / "clone"
    shutil.copytree(project.root, root)
    return Repository(root)
