"""Engines that cannot start, die or hang."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unit.chaos.tree import ENDING_S, FAR_S, MANY

if TYPE_CHECKING:
    from collections.abc import Callable

    from unit.chaos.tree import Training


def test_a_port_in_use_is_named(
    train: Callable[..., Training], listener: int, free_port: int
) -> None:
    run = train(f"generation.ports=[{listener},{free_port}]")

    said = run.fails(within_s=FAR_S)

    assert f"port {listener} is in use by another process" in said
    assert "to do: set another port" in said


def test_an_engine_that_dies_while_it_generates_is_named_at_once(
    train: Callable[..., Training],
) -> None:
    run = train(MANY)
    run.until("generation")
    run.engine(1).kill()

    said = run.fails(within_s=ENDING_S)

    assert "generation-1 died" in said


def test_an_engine_that_hangs_is_named_at_the_deadline_of_the_call(
    train: Callable[..., Training],
) -> None:
    run = train(MANY, "timeouts.call_s=8")
    run.until("generation")
    run.engine(0).suspend()

    said = run.fails(within_s=8 + ENDING_S)

    assert "within 8 s" in said
    assert "generation-0" in said
