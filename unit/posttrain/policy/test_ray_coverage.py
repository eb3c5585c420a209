"""What Ray's actors run counts in the coverage, however they are ended; with a real cluster."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from unit.exacthead.cover.measuring import Item, make_checkout

if TYPE_CHECKING:
    from collections.abc import Iterator

# Each function is one line of proof that a process was counted.
WORK = """\
def killed():
    return 1


def left_to_the_shutdown():
    return 2


def task():
    return 3


def ended_itself():
    return 4


def never():
    return 5
"""
DRIVER = """\
import os
import ray
import work

ray.init(
    address="local",
    num_cpus=1,
    include_dashboard=False,
    object_store_memory=80 << 20,
    _temp_dir=os.environ["RAY_TMPDIR"],
)


@ray.remote(num_cpus=0)
class Actor:
    def call(self, name):
        return getattr(work, name)()

    def end(self):
        ray.actor.exit_actor()


killed, left, ended = Actor.remote(), Actor.remote(), Actor.remote()
assert ray.get(killed.call.remote("killed")) == 1
ray.kill(killed)
assert ray.get(ended.call.remote("ended_itself")) == 4
try:
    ray.get(ended.end.remote())
except ray.exceptions.RayActorError:
    pass
assert ray.get(ray.remote(work.task).remote()) == 3
assert ray.get(left.call.remote("left_to_the_shutdown")) == 2
ray.shutdown()
"""
END_S = 240


@pytest.fixture
def place() -> Iterator[Path]:
    # Ray's sockets limit the length of the path, so pytest's own folder is too deep.
    with tempfile.TemporaryDirectory(prefix="c") as folder:
        yield Path(folder)


def test_what_actors_and_tasks_ran_counts_however_they_were_ended(place: Path) -> None:
    root = make_checkout(place / "checkout", {"work.py": WORK, "driver.py": DRIVER})
    item = Item(root, place / "item")
    (place / "ray").mkdir()
    done = item.run(
        *("-W", "ignore", "driver.py"),
        HOME=str(place),
        RAY_TMPDIR=str(place / "ray"),
        RAY_USAGE_STATS_ENABLED="0",
        timeout_s=END_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = item.combine()
    assert found.reasons == ()
    assert found.recovered >= 1
    # All but the body of the function that nobody called.
    assert item.lines()["work.py"] == {1, 2, 5, 6, 9, 10, 13, 14, 17}
