from __future__ import annotations

from typing import TYPE_CHECKING

from junitparser import Error, Failure, JUnitXml

from exacthead.contracts.evaluate import evaluate, not_run
from exacthead.contracts.junit import cases
from exacthead.contracts.load import parse
from exacthead.junit import write_cases

if TYPE_CHECKING:
    from pathlib import Path

CONTRACT = parse(
    {
        "check": [
            {"name": "a>b is finite ✓\n]]>", "kind": "finite", "metric": "a>b"},
            {"name": "lr", "kind": "positive", "metric": "lr"},
        ]
    },
    "c",
)


def test_each_check_is_a_test_case_also_when_the_script_died(tmp_path: Path) -> None:
    metrics, out = tmp_path / "metrics.jsonl", tmp_path / "junit.xml"
    metrics.write_text('{"step": 1, "a>b": 1.5}\n', encoding="utf-8")
    result = evaluate(CONTRACT, metrics, reason_if_missing="the leg crashed: signal 9")

    write_cases(out, "contract", cases(result, "gym_training.flag_off"))

    first, second = next(iter(JUnitXml.fromfile(str(out))))
    assert (first.classname, first.name) == ("gym_training.flag_off", "a>b is finite ✓\n]]>")
    assert first.result == []
    assert first.system_out == "kind: finite\nmetric: a>b\nobserved: 1.5\ndemanded: finite"
    assert isinstance(second.result[0], Failure)
    assert second.result[0].message == (
        "the leg crashed: signal 9; no metric 'lr' is recorded; known: a>b"
    )


def test_a_contract_that_was_not_evaluated_is_red(tmp_path: Path) -> None:
    out = tmp_path / "junit.xml"

    write_cases(out, "contract", cases(not_run(CONTRACT, "a gate is red"), "c"))

    suite = next(iter(JUnitXml.fromfile(str(out))))
    assert (suite.tests, suite.errors, suite.skipped) == (2, 2, 0)
    assert all(isinstance(case.result[0], Error) for case in suite)
