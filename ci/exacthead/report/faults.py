"""Faults by their cause, so that one broken import is told once and not for each of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exacthead.report.model import Failure


def by_cause(failures: Sequence[Failure]) -> list[tuple[Failure, list[Failure]]]:
    """Each cause by its first fault, with the others that share it; in the order of the faults.

    Faults of another standing, or of no group, stay apart: a known one never hides a new one.
    """
    causes: dict[tuple[str, str], tuple[Failure, list[Failure]]] = {}
    for index, failure in enumerate(failures):
        group = failure.group or f"\0{index}"
        first = causes.setdefault((failure.standing, group), (failure, []))
        if first[0] is not failure:
            first[1].append(failure)
    return list(causes.values())
