"""A file of answers with their verdicts: what is read, and what is refused with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.environment.answers import Answer, read_answers
from posttrain.errors import DataError

WHOLE: dict[str, Any] = {
    "id": "sum",
    "verifier": "math_with_judge",
    "task": {"question": "What is 2 + 2?", "expected_answer": "4"},
    "answer": "\\boxed{4}",
    "expected": {"reward": 1.0},
}
FIXTURE = Path(__file__).parents[3] / "fixtures" / "gym_answers.jsonl"


def read(folder: Path, *rows: Any) -> list[Answer]:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return read_answers(path)


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in WHOLE.items() if name != key}


def text(answer: Answer) -> str:
    (item,) = answer.output
    (part,) = item["content"]
    said: str = part["text"]
    return said


def test_an_answer_is_sent_as_gym_sends_it(tmp_path: Path) -> None:
    (answer,) = read(tmp_path, WHOLE | {"calls": [{"name": "add", "arguments": "{"}]})
    request = answer.request()
    assert request["question"] == "What is 2 + 2?"
    assert request["expected_answer"] == "4"
    assert request["responses_create_params"] == {"input": []}
    message, call = request["response"]["output"]
    assert message["role"] == "assistant"
    assert message["content"][0]["text"] == "\\boxed{4}"
    assert (call["type"], call["name"], call["arguments"]) == ("function_call", "add", "{")


parts = st.lists(
    st.text(max_size=5)
    | st.fixed_dictionaries({"repeat": st.text(max_size=5), "times": st.integers(0, 5)}),
    max_size=5,
)


@settings(deadline=None)
@given(parts)
def test_parts_are_the_text_that_they_stand_for(
    tmp_path_factory: pytest.TempPathFactory, written: list[Any]
) -> None:
    (answer,) = read(tmp_path_factory.mktemp("answers"), WHOLE | {"answer": written})
    whole = (p if isinstance(p, str) else p["repeat"] * p["times"] for p in written)
    assert text(answer) == "".join(whole)


@pytest.mark.parametrize(
    ("row", "asked", "found"),
    [
        (without("expected"), "expected as an object", "no key 'expected'"),
        (WHOLE | {"expected": {}}, "expected.reward as a finite number", "expected = {}"),
        (WHOLE | {"expected": {"reward": "1"}}, "expected.reward", 'expected = {"reward": "1"}'),
        (WHOLE | {"expected": {"reward": True}}, "expected.reward", 'expected = {"reward": true}'),
        (WHOLE | {"expected": {"reward": None}}, "expected.reward", 'expected = {"reward": null}'),
        (WHOLE | {"verifier": "mcq"}, "a verifier that needs", "verifier 'mcq'"),
        (without("verifier"), "verifier as a text", "no key 'verifier'"),
        (WHOLE | {"id": ""}, "id as a text", "an empty one"),
        (WHOLE | {"id": 7}, "id as a text", "id = 7"),
        (without("task"), "task as an object", "no key 'task'"),
        (WHOLE | {"task": {"response": {}}}, "a task's own fields", "task has response"),
        (without("answer"), "an answer", "neither 'answer' nor 'calls'"),
        (WHOLE | {"answer": 4}, "a text, or a list of its parts", "the part 4"),
        (WHOLE | {"answer": [{"repeat": "a"}]}, "a text, or a list", 'the part {"repeat": "a"}'),
        (WHOLE | {"calls": {}}, "calls as a list", "calls = {}"),
        (WHOLE | {"calls": [{"name": "add"}]}, "a function call", '{"name": "add"}'),
        (WHOLE | {"calls": [{"name": "add", "arguments": {}}]}, "a text, or a list", "the part {}"),
        (WHOLE | {"reward": 1.0}, "an answer's keys", "the key 'reward'"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_with_its_line(
    tmp_path: Path, row: dict[str, Any], asked: str, found: str
) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, WHOLE | {"id": "before"}, row)
    assert f"answers.jsonl, line 2: {asked}" in error.value.asked
    assert found in error.value.found


def test_an_unknown_verifier_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, WHOLE | {"verifier": "math_with_juge"})
    assert "did you mean 'math_with_judge'?" in error.value.todo


def test_an_id_that_appears_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, WHOLE, WHOLE | {"id": "other"}, WHOLE)
    assert "line 3" in error.value.asked
    assert "'sum', which" in error.value.found
    assert "line 1 has" in error.value.found


def test_the_functional_job_has_accepted_rejected_and_malformed_answers_for_each_verifier() -> None:
    answers = read_answers(FIXTURE)
    for name in {answer.verifier for answer in answers}:
        rewards = {answer.expected["reward"] for answer in answers if answer.verifier == name}
        assert {0.0, 1.0} <= rewards
    assert max(len(text(one)) for one in answers if "huge" in one.id and "math" in one.id) > 100_000
