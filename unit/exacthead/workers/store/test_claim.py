"""Claims: exclusive, signed, and ended by the end of whoever holds them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.workers import claim

if TYPE_CHECKING:
    from pathlib import Path


def soon() -> float:
    return time.monotonic() + 60


def test_a_held_claim_is_refused_to_others_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with claim.hold(path, "first", deadline=soon()):
        assert claim.is_held(path)
        with claim.try_hold(path, "second") as refused:
            assert refused is None
    assert not claim.is_held(path)
    with claim.try_hold(path, "second") as held:
        assert held is not None


def test_the_error_of_a_waiter_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with (
        claim.hold(path, "build worker 'gym'", deadline=soon()),
        pytest.raises(HarnessError, match=rf"pid {os.getpid()} on .* since .*build worker 'gym'"),
        claim.hold(path, "build worker 'vllm'", deadline=time.monotonic()),
    ):
        pytest.fail("never reached")


def test_a_waiter_gets_the_claim_when_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    order: list[str] = []

    def wait() -> None:
        with claim.hold(path, "second", deadline=soon()):
            order.append("second")

    waiter = threading.Thread(target=wait)
    with claim.hold(path, "first", deadline=soon()):
        waiter.start()
        order.append("first")
    waiter.join()
    assert order == ["first", "second"]


def test_a_claim_is_free_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with pytest.raises(ValueError, match="inside"), claim.hold(path, "first", deadline=soon()):
        raise ValueError("inside")
    assert not claim.is_held(path)


def test_a_released_claim_is_free_even_if_a_child_still_has_it(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with claim.hold(path, "first", deadline=soon()) as held:
        child = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(held.descriptor,)
        )
    with child:
        assert not claim.is_held(path)


def test_marks_name_the_living_only(tmp_path: Path) -> None:
    folder = tmp_path / "uses"
    assert claim.marks(folder) == []
    with claim.mark(folder, "leg a"), claim.mark(folder, "leg b"):
        assert sorted(holder.purpose for holder in claim.marks(folder)) == ["leg a", "leg b"]
        (folder / "of-a-dead-process").write_text("{}")
        assert len(claim.marks(folder)) == 2
    assert claim.marks(folder) == []


def test_those_who_look_at_once_see_no_holder_in_each_other(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with claim.hold(path, "a process that has ended", deadline=soon()):
        pass
    looks: list[bool] = []

    def look() -> None:
        looks.extend(claim.is_held(path) for _ in range(5_000))

    lookers = [threading.Thread(target=look) for _ in range(4)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join()

    assert looks == [False] * 20_000


def test_a_path_that_was_never_claimed_is_free_and_stays_absent(tmp_path: Path) -> None:
    assert not claim.is_held(tmp_path / "x.lock")
    assert claim.holder(tmp_path / "x.lock") is None
    assert list(tmp_path.iterdir()) == []
