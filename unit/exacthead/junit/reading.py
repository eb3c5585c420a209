"""Reads text or bytes as a JUnit file of somebody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.junit import CaseRecord, Problem, SuiteRecord, read_junit

if TYPE_CHECKING:
    from pathlib import Path


def read(
    tmp_path: Path, content: str | bytes
) -> tuple[list[CaseRecord], list[SuiteRecord], list[Problem]]:
    path = tmp_path / "theirs.xml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    everything = list(read_junit(path))
    return (
        [each for each in everything if isinstance(each, CaseRecord)],
        [each for each in everything if isinstance(each, SuiteRecord)],
        [each for each in everything if isinstance(each, Problem)],
    )


def outcomes(cases: list[CaseRecord]) -> dict[str, str]:
    return {case.name: case.outcome for case in cases}
