"""What a user sees when verifiers or rollouts are to be accepted by a recipe that cannot work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from posttrain import accept, verify
from posttrain.config import load_recipe
from posttrain.config.acceptance import AcceptRecipe, VerifyRecipe
from posttrain.config.entries import ENTRY_POINTS
from posttrain.config.keys import schema_keys
from posttrain.config.load import load_schema
from posttrain.data import Row, read_rows
from posttrain.errors import DataError, ModelError, RecipeError, StackError
from posttrain.placement import plan_engines
from posttrain.rollout.reference import render_prompts

ROOT = Path(__file__).parents[3]
RECIPES = ROOT / "functional" / "recipes"
GIVEN = (
    "run.dir=runs/none",
    f"interpreters.generation={sys.executable}",
    f"interpreters.gym={sys.executable}",
)


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def accept_recipe(*overrides: str) -> AcceptRecipe:
    path = RECIPES / "rollout_acceptance.yaml"
    return load_schema(AcceptRecipe, path, [*GIVEN, *overrides], "accept").recipe


def verify_recipe(*overrides: str) -> VerifyRecipe:
    given = ("run.dir=runs/none", f"interpreters.gym={sys.executable}")
    path = RECIPES / "verifier_acceptance.yaml"
    return load_schema(VerifyRecipe, path, [*given, *overrides], "verify").recipe


def test_rows_that_stay_in_memory_are_in_no_other_data_plane() -> None:
    with pytest.raises(RecipeError, match=r"dataplane\.kind: .*honoured by 'single_controller'"):
        accept_recipe("dataplane.kind=transfer_queue")


def test_the_functional_recipes_load() -> None:
    assert accept_recipe().data.rollouts == "fixtures/gym_rollouts.jsonl"
    assert verify_recipe().data.answers == "fixtures/gym_answers.jsonl"


@pytest.mark.parametrize(
    ("key", "readers"),
    [
        ("policy.lr=1e-3", "'train', 'single_controller'"),
        ("generation.workers=2", "'train', 'single_controller', 'accept'"),
    ],
)
def test_a_key_that_verify_would_ignore_names_who_honours_it(key: str, readers: str) -> None:
    with pytest.raises(RecipeError, match=f"'verify' would ignore it; honoured by {readers}"):
        verify_recipe(key)


def test_a_key_that_accept_or_train_would_ignore_names_who_honours_it() -> None:
    with pytest.raises(RecipeError, match="'accept' would ignore it; honoured by 'train'"):
        accept_recipe("policy.lr=1e-3")
    with pytest.raises(RecipeError, match="'train' would ignore it; honoured by 'accept'"):
        load_recipe(RECIPES / "gym_training.yaml", ["data.rollouts=x"])


def test_a_key_of_several_entry_points_takes_the_same_and_means_the_same() -> None:
    seen: dict[str, tuple[str, str]] = {}
    for schema in ENTRY_POINTS.values():
        for path, key in schema_keys(schema).items():
            assert seen.setdefault(path, (key.takes, key.meaning)) == (key.takes, key.meaning), path


def refused(run: Any, recipe: Any) -> StackError:
    with pytest.raises(StackError) as error:
        run(recipe)
    return error.value


def rollouts(path: Path, **changed: Any) -> str:
    lines = Path("fixtures/gym_rollouts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    rows[1] |= changed
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return f"data.rollouts={path}"


def test_a_row_without_an_expectation_is_refused_before_anything_starts(tmp_path: Path) -> None:
    data = rollouts(tmp_path / "rows.jsonl", rollout=None)
    error = refused(accept.check, accept_recipe(data))
    assert error.asked == "row 1: what its rollout must be like"


def test_a_row_for_an_agent_that_is_not_there_is_refused(tmp_path: Path) -> None:
    data = rollouts(tmp_path / "rows.jsonl", agent_ref={"name": "coding_agent"})
    error = refused(accept.check, accept_recipe(data))
    assert error.asked == "row 1: a task for math_simple_agent or conversation_agent"


def test_more_engines_than_devices_are_refused_with_the_arithmetic() -> None:
    recipe = accept_recipe("generation.workers=3", "cluster.cpus=2")
    error = refused(plan_engines, recipe)
    assert error.asked == "place 3 generation workers"
    assert error.found == "3 generation workers x 1 tensor parallel = 3 CPUs, cluster.cpus is 2"


def test_engines_sit_on_devices_of_their_own() -> None:
    recipe = accept_recipe("generation.workers=2", "generation.tensor_parallel=2", "cluster.cpus=4")
    placement = plan_engines(recipe)
    assert placement.bundles == [{"CPU": 1.0}] * 4
    assert [seat.bundles for seat in placement.seats] == [(0, 1), (2, 3)]
    assert [placement.options(seat)["num_cpus"] for seat in placement.seats] == [1.0, 1.0]


def test_an_answer_without_an_expectation_is_refused_with_its_line(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"id": "a", "verifier": "mcqa", "task": {}, "answer": "B"}\n')
    code = subprocess.run(
        [
            *(sys.executable, "-m", "posttrain.verify", RECIPES / "verifier_acceptance.yaml"),
            *(f"run.dir={tmp_path / 'run'}", f"interpreters.gym={sys.executable}"),
            f"data.answers={answers}",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert code.returncode == 1
    assert f"{answers}, line 1: expected as an object\n  found: no key 'expected'" in code.stderr
    assert "INHERITED" not in code.stderr
    assert not (tmp_path / "run").exists()


def test_explain_shows_only_what_the_entry_point_honours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recipe = str(RECIPES / "verifier_acceptance.yaml")
    given = ["run.dir=x", "interpreters.gym=python", "--explain"]
    assert verify.main([recipe, *given]) == 0
    shown = capsys.readouterr().out
    assert "verification:" in shown
    assert "policy" not in shown


def test_prompts_are_rendered_as_the_chat_template_does() -> None:
    rows = read_rows(Path("fixtures/gym_math.jsonl"))
    prompts = render_prompts(Path("fixtures/tiny-llama"), rows)
    user, assistant, end = 259, 260, 257
    for row in rows:
        ids = prompts[row.index]
        asked = row.raw["responses_create_params"]["input"][0]["content"]
        assert (ids[0], ids[-2], ids[-1]) == (user, end, assistant)
        assert len(ids) == len(asked.encode()) + 3


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json in it"):
        render_prompts(tmp_path, read_rows(Path("fixtures/gym_math.jsonl")))


@pytest.mark.parametrize("said", [[{"role": "user"}], [{"role": "user", "content": []}], ["hello"]])
def test_a_prompt_that_is_no_plain_text_is_refused(said: Any) -> None:
    row = Row(2, {"responses_create_params": {"input": said}})
    with pytest.raises(DataError, match=r"^row 2: messages with a role and a text"):
        render_prompts(Path("fixtures/tiny-llama"), [row])
