"""An image that is neither there nor planned."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.images.start import no_engine
from exacthead.images.where import image_with
from exacthead.preflight.problem import Problem, of_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.preflight.case import Case

NAME = "images"


def check(case: Case) -> Iterator[Problem]:
    """The image that was named, or the declared one of every item; outside of images none."""
    if case.wanted is None:
        return
    if case.wanted.reference:
        yield from _check_given(case.wanted.reference)
        return
    if problem := no_engine():
        yield Problem(NAME, "items in images", problem, "start an engine, or name one: DOCKER_HOST")
    told = set()
    for item, workers in _needed(case).items():
        try:
            name = image_with(case.harness, item, workers, case.flavour)
        except HarnessError as error:
            yield of_error(NAME, error)
            continue
        base = case.wanted.base or case.harness.image(name).base
        dockerfile = case.harness.image(name).dockerfile
        if name in told:
            continue
        told.add(name)
        if base not in case.harness.bases:
            try:
                case.harness.base(base)
            except HarnessError as error:
                yield of_error(NAME, error)
        if not (case.harness.root / dockerfile).is_file():
            yield Problem(
                NAME,
                f"image {name!r} by {dockerfile}",
                "no such file",
                "restore it or mend the image",
            )


def _needed(case: Case) -> dict[str, set[str]]:
    suites = {f"unit.{name}": {s.worker, *s.roles.values()} for name, s in case.suites.items()}
    return {**suites, **{leg.id: set(leg.leg.workers.values()) for leg in case.legs}}


def _check_given(reference: str) -> Iterator[Problem]:
    # The SDK is slow to import, and most sessions need no engine.
    from exacthead.images.engine import Engine

    try:
        with closing(Engine()) as engine:
            there = engine.image(reference) is not None
    except HarnessError as error:
        yield of_error(NAME, error)
        return
    if not there:
        yield Problem(
            NAME,
            f"image {reference}",
            "the engine has none of that name, and nothing here builds one",
            "leave --image out to have the head's built, or pull that one first (images -- --pull)",
        )
