"""A disk without room, before the run and in its middle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unit.chaos.tree import ENDING_S, FAR_S, SOME

if TYPE_CHECKING:
    from collections.abc import Callable

    from unit.chaos.tree import Disk, Training


def test_a_disk_that_is_full_is_named_before_anything_starts(
    train: Callable[..., Training], small_disk: Disk
) -> None:
    small_disk.fill()
    run = train(folder=small_disk.folder / "run")

    said = run.fails(within_s=FAR_S)

    assert str(small_disk.folder / "run") in said
    assert "No space left on device" in said
    assert "cluster: starts" not in run.printed()


def test_a_disk_that_fills_up_during_the_step_is_named_and_no_line_is_half_written(
    train: Callable[..., Training], small_disk: Disk
) -> None:
    run = train(*SOME, folder=small_disk.folder / "run")
    run.until("generation")
    # Less than what the samples need.
    small_disk.fill(but_bytes=8192)

    said = run.fails(within_s=FAR_S + ENDING_S)

    assert str(small_disk.folder / "run") in said
    assert "No space left on device" in said
    assert run.metrics() == []
