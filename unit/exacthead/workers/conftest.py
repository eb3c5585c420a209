from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from exacthead.workers.lock import lock_path, sealed, worker_inputs
from exacthead.workers.resolve import resolve
from unit.exacthead.workers.small import HASH, HERE, SMALL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.workers.index import Indexes
    from exacthead.workers.spec import Spec


@pytest.fixture
def spec_of(make_harness: Callable[[str], Harness]) -> Callable[..., Spec]:
    """A function that writes harness.toml and the worker's lock, and resolves the worker."""

    def make(
        text: str = SMALL,
        name: str = "small",
        *,
        pins: tuple[str, ...] = ("alpha==1.0",),
        flavour: str = "cpu",
        indexes: Indexes = HERE,
        **variables: str,
    ) -> Spec:
        harness = make_harness(text)
        lines = "".join(f"{pin} \\\n    {HASH}\n    # via (declared)\n" for pin in pins)
        lock_path(harness.root, name, flavour).write_text(
            sealed("a test", worker_inputs(harness, name, flavour), lines), encoding="utf-8"
        )
        environ = {**os.environ, **variables}
        return resolve(harness, name, flavour, indexes=indexes, environ=environ)

    return make


@pytest.fixture
def repository(make_harness: Callable[[str], Harness]) -> Path:
    return make_harness(SMALL).root
