"""All checks by name, and how they are run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from posttrain.capture.conformance import content, gym, processes, reads, writes
from posttrain.capture.conformance.bounded import bounded
from posttrain.capture.conformance.failure import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posttrain.capture.conformance.subject import Subject

CHECKS: dict[str, Callable[[Subject], None]] = {
    each.__name__: each
    for each in (
        content.golden_vectors,
        content.round_trip,
        content.float32_exact,
        content.extras,
        content.attachments,
        writes.idempotent_restage,
        writes.conflicting_restage,
        writes.concurrent_calls,
        reads.fetch_order,
        reads.missing_keys,
        processes.durable_before_return,
        processes.atomic_under_kill,
        processes.visible_across_processes,
        gym.gym_local_sink,
        gym.ledger_visibility,
    )
}


@dataclass(frozen=True)
class Outcome:
    """What came of one check.

    Attributes:
        name: of the check.
        problem: what is not as it must be; empty when the check passed.
    """

    name: str
    problem: str

    @property
    def passed(self) -> bool:
        """Whether the implementation does what the check asks."""
        return not self.problem


def check(name: str, subject: Subject) -> None:
    """Run one check.

    Raises:
        Failed: the implementation does not do what it must, raised where it must not, or hangs.
        KeyError: no check has this name.
    """
    function = CHECKS[name]
    try:
        bounded(partial(function, subject))
    except Failed:
        raise
    except Exception as error:
        raise Failed(f"raised {type(error).__name__}: {error}") from error


def run(subject: Subject, names: Sequence[str] = ()) -> Iterator[Outcome]:
    """Run checks (all of them unless some are named), whatever comes of the others."""
    for name in names or CHECKS:
        try:
            check(name, subject)
        except Failed as failure:
            yield Outcome(name, str(failure))
        else:
            yield Outcome(name, "")


__all__ = ["CHECKS", "Failed", "Outcome", "check", "run"]
