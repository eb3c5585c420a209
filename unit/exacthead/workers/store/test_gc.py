"""Collecting garbage: the least recently used goes first, what is in use never."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.workers import claim

if TYPE_CHECKING:
    from conftest import Yard

    from exacthead.workers.store import Built, Store

BIG = "X = '''" + "x" * 100_000 + "'''\n"
USING = """
import sys, time
from pathlib import Path
from exacthead.workers.store import Store
with Store(Path(sys.argv[1])).using(sys.argv[2], "a leg of its own"):
    print("using", flush=True)
    time.sleep(600)
"""


def three(yard: Yard, store: Store) -> list[Built]:
    """Three workers, the first used last long ago, the last just now."""
    built = []
    for number, name in enumerate(("alpha", "beta", "gamma")):
        lock = yard.wheel(name, {f"{name}.py": BIG})
        built.append(yard.ensure(yard.spec(name, lock, probes=(name,)), store))
        os.utime(store.layout.stamp(built[-1].key), (number + 1, number + 1))
    return built


def keys(store: Store) -> set[str]:
    return {record.key for record in store.list()}


def test_the_least_recently_used_goes_first_and_no_more_than_needed(yard: Yard) -> None:
    store = yard.store()
    built = three(yard, store)
    assert [record.names for record in store.list()] == [("gamma",), ("beta",), ("alpha",)]
    total = sum(record.size for record in store.list())
    assert store.gc(total) == []
    assert store.gc(total - 1) == [built[0].key]
    assert keys(store) == {built[1].key, built[2].key}
    assert store.gc(0) == [built[1].key, built[2].key]
    assert keys(store) == set()
    assert not any(worker.root.exists() for worker in built)


def test_using_a_worker_again_keeps_it(yard: Yard) -> None:
    store = yard.store()
    built = three(yard, store)
    yard.ensure(yard.spec("alpha", yard.wheel("alpha", {"alpha.py": BIG})), store)
    total = sum(record.size for record in store.list())
    assert store.gc(total - 1) == [built[1].key]


def test_a_worker_in_use_is_never_removed(yard: Yard) -> None:
    store = yard.store()
    built = three(yard, store)
    with store.using(built[0].key, "leg capture") as root:
        assert root == built[0].root
        assert store.gc(0) == [built[1].key, built[2].key]
        (record,) = store.list()
        assert [user.purpose for user in record.users] == ["leg capture"]
        assert [user.pid for user in record.users] == [os.getpid()]
    assert store.gc(0) == [built[0].key]


def test_the_mark_of_a_killed_user_does_not_count(yard: Yard) -> None:
    store = yard.store()
    built = yard.ensure(yard.spec(), store)
    user = subprocess.Popen(
        [sys.executable, "-c", USING, store.layout.root, built.key],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"using\n"
        assert store.gc(0) == []
        user.send_signal(signal.SIGKILL)
        user.wait(timeout=60)
    (record,) = store.list()
    assert record.users == ()
    assert store.gc(0) == [built.key]


def test_what_a_killed_builder_left_is_removed_unless_it_is_claimed(yard: Yard) -> None:
    store = yard.store()
    key = "ab" * 32
    (store.layout.worker(key) / "bin").mkdir(parents=True)
    (store.layout.worker(key) / "bin" / "python").write_text("")
    unfinished = store.layout.record(key).with_name(f".{store.layout.record(key).name}.x1")
    unfinished.write_text("")
    with claim.try_hold(store.layout.lock(key), "build") as held:
        assert held is not None
        assert [record.state for record in store.list()] == ["building"]
        assert store.gc(10**12) == []
    assert [record.state for record in store.list()] == ["unfinished"]
    assert store.gc(10**12) == [key[:32]]
    assert not store.layout.worker(key).exists()
    assert not unfinished.exists()


def test_a_shared_file_counts_once(yard: Yard) -> None:
    store = yard.store()
    lock = yard.wheel("alpha", {"alpha.py": BIG})
    for number in range(3):
        yard.ensure(yard.spec("x", lock, environment=(("N", str(number)),)), store)
    apparent = sum(record.size for record in store.list())
    assert store.gc(apparent - 200_000) == []
    assert len(store.gc(0)) == 3


def test_a_removed_worker_cannot_be_used(yard: Yard) -> None:
    store = yard.store()
    built = yard.ensure(yard.spec(), store)
    store.gc(0)
    with (
        pytest.raises(HarnessError, match="not ready"),
        store.using(built.key, "leg"),
    ):
        pytest.fail("never reached")
