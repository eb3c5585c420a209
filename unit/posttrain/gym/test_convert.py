"""Laws of the conversion: what is whole comes through unchanged, what lacks anything is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posttrain.errors import WorkerError
from posttrain.rollout.convert import accuracy, to_sample
from posttrain.sample import Sample

LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
tokens = st.lists(st.integers(0, 200_000), min_size=1, max_size=20)
logprobs = st.floats(-9998.0, 0.0)


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    completion = draw(tokens)
    count = len(completion)
    cut = draw(st.booleans())
    item = {
        "type": "message",
        "content": [{"type": "output_text", "text": draw(st.text())}],
        "prompt_token_ids": draw(tokens),
        "generation_token_ids": completion,
        "generation_log_probs": draw(st.lists(logprobs, min_size=count, max_size=count)),
    }
    return {
        "reward": draw(st.floats(-1.0, 1.0) | st.integers(0, 1)),
        "response": {
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": [item],
        },
    }


@LAW
@given(st.integers(0, 10_000), answers())
def test_a_whole_answer_comes_through_unchanged(row: int, answer: dict[str, Any]) -> None:
    sample = to_sample(row, copy.deepcopy(answer))
    (item,) = answer["response"]["output"]
    assert sample == Sample(
        row=row,
        prompt_ids=tuple(item["prompt_token_ids"]),
        completion_ids=tuple(item["generation_token_ids"]),
        logprobs=tuple(item["generation_log_probs"]),
        reward=answer["reward"],
        truncated=answer["response"]["status"] == "incomplete",
        text=item["content"][0]["text"],
    )


@LAW
@given(answers(), st.sampled_from(FIELDS), st.sampled_from(["gone", None, [], "1", 7, {}]))
def test_a_token_field_that_is_missing_or_empty_is_named(
    answer: dict[str, Any], field: str, value: Any
) -> None:
    item = answer["response"]["output"][0]
    if value == "gone":
        del item[field]
    else:
        item[field] = value
    with pytest.raises(WorkerError, match=rf"row 3: .*\n.*{field}"):
        to_sample(3, answer)


@LAW
@given(answers(), st.sampled_from(FIELDS[:2]), st.sampled_from([-1, 1.5, True, "7", None]))
def test_something_that_is_no_token_id_is_named_with_its_place(
    answer: dict[str, Any], field: str, value: Any
) -> None:
    ids = answer["response"]["output"][0][field]
    ids[-1] = value
    with pytest.raises(WorkerError) as error:
        to_sample(0, answer)
    assert error.value.found == f"{field}[{len(ids) - 1}] is {value!r}, not a token id"


@LAW
@given(
    answers(),
    st.sampled_from([float("nan"), float("inf"), -float("inf"), -9999.0, None, False, "-0.1"]),
)
def test_something_that_is_no_log_probability_is_named_with_its_place(
    answer: dict[str, Any], value: Any
) -> None:
    values = answer["response"]["output"][0]["generation_log_probs"]
    values[0] = value
    with pytest.raises(WorkerError) as error:
        to_sample(0, answer)
    assert error.value.found.startswith(f"generation_log_probs[0] is {value!r}, not a finite")


@LAW
@given(answers(), st.integers(1, 3))
def test_other_lengths_are_refused(answer: dict[str, Any], more: int) -> None:
    item = answer["response"]["output"][0]
    count = len(item["generation_token_ids"])
    item["generation_log_probs"] += [-0.5] * more
    with pytest.raises(WorkerError) as error:
        to_sample(0, answer)
    expected = f"{count} generation_token_ids but {count + more} generation_log_probs"
    assert error.value.found == expected


@LAW
@given(answers(), st.sampled_from([float("nan"), float("inf"), None, True, "1.0", "gone"]))
def test_a_reward_that_is_no_finite_number_is_refused(answer: dict[str, Any], value: Any) -> None:
    if value == "gone":
        del answer["reward"]
    else:
        answer["reward"] = value
    with pytest.raises(WorkerError, match=r"reward .* instead of a finite number"):
        to_sample(0, answer)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"mask_sample": True, "failure_reason": "judge lost"}, "masked the sample: judge lost"),
        ({"mask_sample": True}, "masked the sample: no reason given"),
        ({"response": None}, "response None instead of an object"),
        ({"response": {"output": "text"}}, "no list of output items"),
        ({"response": {"output": []}}, "0 output items with token ids instead of 1"),
    ],
)
def test_an_answer_without_a_measurement_is_refused(change: dict[str, Any], found: str) -> None:
    with pytest.raises(WorkerError) as error:
        to_sample(0, {"reward": 0.0, **change})
    assert found in error.value.found


@LAW
@given(answers())
def test_two_turns_with_tokens_are_refused(answer: dict[str, Any]) -> None:
    answer["response"]["output"] *= 2
    with pytest.raises(WorkerError, match="2 output items with token ids instead of 1"):
        to_sample(0, answer)


@LAW
@given(answers())
def test_an_answer_that_gym_calls_incomplete_for_another_reason_is_refused(
    answer: dict[str, Any],
) -> None:
    answer["response"] |= {"status": "incomplete", "incomplete_details": None}
    with pytest.raises(WorkerError, match="response status 'incomplete', reason None"):
        to_sample(0, answer)


def sample(reward: float) -> Sample:
    return Sample(0, (1,), (2,), (-0.1,), reward, truncated=False)


@LAW
@given(st.lists(st.sampled_from([0.0, 0.999, 1.0]), min_size=1))
def test_accuracy_is_the_share_of_full_rewards(rewards: list[float]) -> None:
    expected = rewards.count(1.0) / len(rewards)
    assert accuracy([sample(reward) for reward in rewards]) == expected


def test_accuracy_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        accuracy([])
