"""What the tests of contracts share: one check held against rows that were really written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.contracts.evaluate import CheckResult, evaluate
from exacthead.contracts.load import parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Rows = list[dict[str, Any]]


@pytest.fixture(scope="session")
def hold(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., CheckResult]:
    """Hold one check, given by its keys, against rows of metrics."""
    path = tmp_path_factory.mktemp("hold") / "metrics.jsonl"

    def run(rows: Rows, /, **check: Any) -> CheckResult:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        contract = parse({"check": [{"name": "the check", **check}]}, "test")
        return evaluate(contract, path).checks[0]

    return run


@pytest.fixture(scope="session")
def hold_series(hold: Callable[..., CheckResult]) -> Callable[..., CheckResult]:
    """Hold one check against the metric ``m`` with the given values at steps 1, 2, 3 ..."""

    def run(values: list[Any], /, **check: Any) -> CheckResult:
        rows = [{"step": step, "m": value} for step, value in enumerate(values, start=1)]
        return hold(rows, metric="m", **check)

    return run


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    """Write a metrics.jsonl with exactly this text."""

    def write(text: str) -> Path:
        path = tmp_path / "metrics.jsonl"
        path.write_text(text, encoding="utf-8")
        return path

    return write
