"""The files of a report for machines: JSON with its schema, OpenMetrics."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.errors import HarnessError
from exacthead.mask import Masker
from exacthead.report.data import NAME, SCHEMA, read_report, schema, to_json, without_secrets
from exacthead.report.openmetrics import openmetrics
from exacthead.tables import Secrets
from unit.exacthead.report.making import FAILURE, report

if TYPE_CHECKING:
    from pathlib import Path

# https://prometheus.io/docs/specs/om/open_metrics_spec/, the lines that we write of its grammar.
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_LABELS = rf"\{{(?:{_LABEL}(?:,{_LABEL})*)?\}}"
_SAMPLE = re.compile(rf"([a-z_]+)(?:{_LABELS})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


def test_the_published_schema_is_that_of_the_model() -> None:
    """After a change: PYTHONPATH=ci python -m exacthead.report.data."""
    assert SCHEMA.read_text(encoding="utf-8") == schema()


def test_the_json_is_read_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(to_json(report()), encoding="utf-8")

    assert read_report(tmp_path) == report()


def test_the_json_has_what_the_schema_demands_and_nothing_else() -> None:
    said = json.loads(to_json(report()))
    published = json.loads(schema())

    assert set(said) == set(published["properties"])
    assert set(published["required"]) <= set(said)
    failure = published["$defs"]["Failure"]
    assert set(said["failures"][0]) == set(failure["properties"])
    assert said["failures"][0]["failure_class"] in published["$defs"]["Class"]["enum"]


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"schema": 99}', "[" * 100_000])
def test_what_is_no_report_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / NAME).write_text(content, encoding="utf-8")

    with pytest.raises(HarnessError, match="the report"):
        read_report(tmp_path)


def test_every_text_of_a_report_is_masked() -> None:
    secret = "open-sesame"  # noqa: S105
    spread = report(
        verdict=f"a {secret}",
        failures=(replace(FAILURE, cause=secret, notes=(f"x{secret}y",)),),
        images={secret: secret},
    )
    masker = Masker.of(Secrets(), {}, [secret])

    clean = without_secrets(spread, masker)

    assert secret not in to_json(clean)
    assert clean.failures[0].cause == "***"
    assert clean.failures[0].standing is FAILURE.standing
    assert without_secrets(report(), masker) == report()


def samples(text: str) -> dict[str, list[str]]:
    """Metric -> its sample lines; every line is one of the grammar's."""
    found: dict[str, list[str]] = {}
    *lines, last, end = text.split("\n")
    assert (last, end) == ("# EOF", "")
    described = ""
    for line in lines:
        if line.startswith("# TYPE "):
            described = line.split(" ")[2]
            assert described not in found
            found[described] = []
        elif line.startswith("# HELP "):
            assert line.split(" ")[2] == described
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            assert match[1].removesuffix("_info") == described
            found[described].append(line)
    return found


def test_the_numbers_of_a_run_are_openmetrics() -> None:
    found = samples(openmetrics(report()))

    assert found["exacthead_run_passed"] == ["exacthead_run_passed 0.0"]
    assert 'exacthead_subjects{outcome="new"} 1.0' in found["exacthead_subjects"]
    assert found["exacthead_stage_seconds"] == [
        'exacthead_stage_seconds{item="train.plain",stage="generation"} 21.04',
        'exacthead_stage_seconds{item="train.plain",stage="refit"} 0.5',
    ]
    assert found["exacthead_contract_check_passed"] == [
        'exacthead_contract_check_passed{check="loss is finite",item="train.plain"} 1.0'
    ]
    assert found["exacthead_run"][0].startswith("exacthead_run_info{")


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats())
def test_any_name_and_number_leave_the_text_well_formed(name: str, value: float) -> None:
    item = replace(report().items[0], id=name, stages={name: value}, seconds=1.0)

    samples(openmetrics(report(items=(item,), runner=name)))
