"""The gate for a change's coverage, as a user asks for it with only the tests it can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

GATED = ("unit", "--changed-since", "main", "--base", "main", "--gate")


@pytest.fixture
def topic(small_repository: Repository) -> Repository:
    """A branch of its own in a repository that measures a library that no test imports."""
    declared = (small_repository.root / "ci/harness.toml").read_text(encoding="utf-8")
    small_repository.commit(
        {
            "ci/harness.toml": f'{declared}\n[coverage]\nsources = ["lib"]\n',
            "lib/alone.py": "NUMBER = 1\n",
            "README.md": "# Tiny\n",
        }
    )
    small_repository.git("checkout", "--quiet", "-b", "topic")
    return small_repository


def test_a_change_of_prose_that_reaches_no_test_passes(topic: Repository) -> None:
    topic.commit({"README.md": "# Small\n"})

    code, printed = topic.exacthead(*GATED)

    assert code == 0, printed
    assert "no item measured anything" in printed
    assert "patch coverage n/a" in printed
    assert "passed, and nothing ran" in printed


def test_a_change_of_code_that_reaches_no_test_is_red(topic: Repository) -> None:
    topic.commit({"lib/alone.py": "NUMBER = 2\n"})

    code, printed = topic.exacthead(*GATED)

    assert code == 1, printed
    assert "patch coverage failed: 0 of 1 executable lines" in printed
