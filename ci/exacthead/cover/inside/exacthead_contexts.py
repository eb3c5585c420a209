"""A pytest plugin that tells coverage which test runs: ``NODEID|setup``, ``|call``, ``|teardown``.

Loaded through PYTEST_PLUGINS in an item that measures contexts. What a process does that was
started meanwhile is told as ``NODEID|child``; such a process may outlive the test. What runs at no
test's time, imports at collection first of all, has the empty context.

Standard library and pytest only, Python 3.9 and newer.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

CONTEXT_VARIABLE = "EXACTHEAD_COVER_CONTEXT"

# A pytest that a test starts is a child like any other, and children need no contexts of their own,
# so that they can have the faster core, whose data survive their death.
os.environ.pop("PYTEST_PLUGINS", None)
os.environ["COVERAGE_CORE"] = os.environ.pop("EXACTHEAD_COVER_CHILD_CORE", "ctrace")


_found = Coverage.current()
if _found is None:
    raise RuntimeError("contexts were asked for, but coverage has not started in this process")
_MEASURING: Coverage = _found


@contextmanager
def _context(item: pytest.Item, phase: str) -> Iterator[None]:
    os.environ[CONTEXT_VARIABLE] = f"{item.nodeid}|child"
    _MEASURING.switch_context(f"{item.nodeid}|{phase}")
    try:
        yield
    finally:
        _MEASURING.switch_context("")
        os.environ.pop(CONTEXT_VARIABLE, None)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, None]:
    """Fixtures; those of a wider scope run in the first test that asks for them."""
    with _context(item, "setup"):
        yield


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """The test itself."""
    with _context(item, "call"):
        yield


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, None]:
    """Fixtures again."""
    with _context(item, "teardown"):
        yield
