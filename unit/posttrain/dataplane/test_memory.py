"""The plane in memory: what it alone has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from posttrain.dataplane import ClosedPlaneError, HandleError, MemoryPlane, connect

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_plane_in_memory_cannot_be_reached_and_says_why() -> None:
    handle = MemoryPlane().handle()
    with pytest.raises(HandleError, match=f"in the memory of process {os.getpid()}"):
        connect(handle)


@pytest.mark.parametrize("handle", [{}, {"kind": "carrier pigeon"}, "memory", None])
def test_what_is_no_handle_is_refused(handle: object) -> None:
    with pytest.raises(HandleError, match="no kind that is known"):
        connect(handle)  # type: ignore[arg-type]


def test_a_closed_plane_does_nothing_more() -> None:
    plane = MemoryPlane()
    plane.register("p", ["x"])
    plane.put("p", {"a": {"x": 1}})
    assert plane.served() == {}
    plane.close()
    plane.close()
    calls: list[Callable[[], object]] = [
        lambda: plane.register("p", ["x"]),
        lambda: plane.put("p", {}),
        lambda: plane.get("p", [], []),
        lambda: plane.claim("p", "trainer", 1, []),
        lambda: plane.check("p", []),
        lambda: plane.clear("p"),
        plane.served,
        plane.handle,
    ]
    for call in calls:
        with pytest.raises(ClosedPlaneError):
            call()


def test_cleared_rows_are_given_back() -> None:
    plane = MemoryPlane()
    plane.register("p", ["x"])
    plane.put("p", {f"r{number}": {"x": number} for number in range(5)})
    plane.clear("p", ["r1", "r3"])
    assert len(plane._values) == 3
    plane.clear("p")
    assert plane._values == {}
