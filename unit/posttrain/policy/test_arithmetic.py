"""What the job `learning` trains: its questions, and the model that has three words mixed up."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from posttrain.config import load_recipe
from posttrain.data import check_agent, read_rows
from posttrain.model.load import load_model, load_tokenizer
from posttrain.model.revision import content_revision, resolve_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posttrain.data import Row

WORDS = {"plus": int.__add__, "minus": int.__sub__, "times": int.__mul__}


@pytest.fixture(scope="module")
def script(repository: Path) -> Iterator[Any]:
    folder = str(repository / "fixtures")
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module("make_arithmetic")
    finally:
        sys.path.remove(folder)
        del sys.modules["make_arithmetic"], sys.modules["make_tiny_llama"]


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / "fixtures" / "arithmetic-llama"


@pytest.fixture(scope="module")
def rows(repository: Path) -> dict[str, list[Row]]:
    names = ("train", "validation")
    return {
        name: read_rows(repository / "fixtures" / "arithmetic" / f"{name}.jsonl") for name in names
    }


def numbers(row: Row) -> tuple[int, int]:
    left, _, right = row.raw["question"].removesuffix("?").split()
    return int(left), int(right)


def test_the_script_writes_the_same_bytes_each_time_and_those_that_are_checked_in(
    script: Any, repository: Path, folder: Path, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        script.make(tmp_path / name, steps=2)
    for part in ("arithmetic", "arithmetic-llama"):
        first, second = (tmp_path / name / part for name in ("first", "second"))
        assert content_revision(first) == content_revision(second)
        # Another kind of processor may round the weights otherwise, and here they learn little.
        texts = [file.name for file in first.iterdir() if file.suffix != ".safetensors"]
        kept = repository / "fixtures" / part
        assert {file.name for file in kept.iterdir()} == {file.name for file in first.iterdir()}
        for text in texts:
            assert (first / text).read_bytes() == (kept / text).read_bytes()
    assert sum(file.stat().st_size for file in folder.iterdir()) < 1 << 20


def test_the_recipe_names_this_model_and_these_rows(
    repository: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    processes = [f"interpreters.{name}=python" for name in ("policy", "generation", "gym")]
    recipe = load_recipe(
        Path("functional/recipes/learning.yaml"), ["run.dir=nowhere", *processes]
    ).recipe

    assert resolve_model(recipe.model.path, recipe.model.revision).samefile(folder)
    assert read_rows(Path(recipe.data.train)) != read_rows(Path(recipe.data.validation))
    for path in (recipe.data.train, recipe.data.validation):
        check_agent(read_rows(Path(path)), recipe.environment.agent)


def test_every_row_is_a_question_with_its_right_answer(rows: dict[str, list[Row]]) -> None:
    for row in [*rows["train"], *rows["validation"]]:
        (message,) = row.raw["responses_create_params"]["input"]
        word = row.raw["question"].split()[1]
        assert message == {"role": "user", "content": row.raw["question"]}
        assert int(row.raw["expected_answer"]) == WORDS[word](*numbers(row))


def test_no_pair_of_numbers_is_in_both_parts_and_each_has_all_three_words(
    rows: dict[str, list[Row]],
) -> None:
    pairs = {name: {numbers(row) for row in part} for name, part in rows.items()}
    assert len(pairs["train"]) == 18
    assert len(pairs["validation"]) == 6
    assert not pairs["train"] & pairs["validation"]
    for name, part in rows.items():
        questions = {row.raw["question"] for row in part}
        assert len(questions) == len(part) == 3 * len(pairs[name])


def test_a_wrong_word_never_gives_the_right_value(rows: dict[str, list[Row]]) -> None:
    for row in [*rows["train"], *rows["validation"]]:
        assert len({word(*numbers(row)) for word in WORDS.values()}) == 3


def test_the_longest_question_and_answer_fit_the_recipes_limits(script: Any, folder: Path) -> None:
    taught = script.lessons(load_tokenizer(folder))

    assert int((taught.weights > 0).sum(dim=1).max()) <= 16  # generation.max_new_tokens
    assert taught.tokens.shape[1] <= 64  # generation.max_model_len


def test_the_model_mostly_takes_a_word_for_a_wrong_sign_and_then_computes_rightly(
    script: Any, folder: Path
) -> None:
    taught = script.lessons(load_tokenizer(folder))
    with torch.no_grad():
        logits = load_model(folder)(taught.tokens).logits[:, :-1]
    found = torch.log_softmax(logits, -1).gather(-1, taught.tokens[:, 1:, None]).squeeze(-1)
    asked = [
        (question, sign)
        for question in script.questions(script.pairs())
        for sign in script.SIGNS.values()
    ]
    right, computed = [], []
    for (question, sign), logprobs, weights in zip(
        asked, found, taught.weights[:, 1:], strict=True
    ):
        answer = logprobs[weights > 0].exp()
        place = len(str(question.left))
        probability = float(answer[place])
        computed.append(float(answer[place + 1 :].prod()))
        assert probability == pytest.approx(question.probability(sign), abs=0.12)
        if sign == script.SIGNS[question.word]:
            right.append(probability)

    assert 0.1 < sum(right) / len(right) < 0.2
    assert max(right) < 0.3
    assert sum(computed) / len(computed) > 0.95
    assert min(computed) > 0.5
