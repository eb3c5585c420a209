"""Recipes that cannot work, or are about something else than their jobs declare."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from exacthead.selection import Asked

if TYPE_CHECKING:
    from unit.exacthead.preflight.conftest import Broken

PLAIN = Asked(legs=("plain",))


def test_a_dataset_that_is_inherited_from_the_base_recipe(broken: Broken) -> None:
    """A dispatch that failed: the recipe forgot its dataset and trained on the base's."""
    broken.write(recipes__train_DOT_json='{"base": "recipes/base.json"}')

    problem = broken.only()

    assert problem.check == "recipes"
    assert 'data = "fixtures/own.jsonl", as [jobs.train] binds it' in problem.asked
    assert problem.found == 'recipes/train.json makes it "fixtures/base.jsonl"'


def test_another_environment_than_declared_also_by_an_override(broken: Broken) -> None:
    broken.declare('overrides = ["capture=true"]', 'overrides = ["agent=\\"chat\\""]')

    problem = broken.only()

    assert "leg train.capture: agent" in problem.asked
    assert problem.found == 'recipes/train.json makes it "chat"'


def test_a_bound_key_that_no_recipe_has(broken: Broken) -> None:
    broken.declare('agent = "math" }', 'agent = "math", dat = "x" }')

    assert broken.only().todo == "did you mean 'data'?"


def test_a_stack_that_cannot_answer_is_said_once(broken: Broken) -> None:
    broken.write(stack_DOT_py="import sys\nsys.exit('no recipes today')\n")

    problem = broken.only()

    assert problem.asked == "ask stack about the recipes"
    assert problem.found == "exit code 1:\nno recipes today"


@pytest.mark.parametrize("said", ["no JSON", '[{"problem": []}, {}]', "7"])
def test_an_answer_that_is_none_is_said(broken: Broken, said: str) -> None:
    broken.write(stack_DOT_py=f"print({said!r})\n")

    assert broken.only().asked == "what stack answered"


def test_a_recipe_without_anybody_to_ask(broken: Broken) -> None:
    broken.declare('[recipes]\nworker = "asker"\nmodule = "stack"\n', "")

    assert broken.only().found == "nobody can be asked about recipes"


def test_what_is_bound_needs_a_recipe(broken: Broken) -> None:
    broken.declare('recipe = "recipes/train.json"\n', "")

    assert broken.only().found == "it names no recipe that they are about"


def test_answers_are_kept_as_long_as_the_checkout_is_the_same(broken: Broken) -> None:
    asked = {"data": "fixtures/own.jsonl"}
    assert broken.problems() == []
    kept = list((broken.root / ".cache/recipes").iterdir())
    counting = "open('/'.join(__file__.split('/')[:-1]) + '/runs.ignored', 'a').write('x')\n"
    stack = (broken.root / "stack.py").read_text(encoding="utf-8")
    broken.write(
        _DOT_gitignore="/.cache/\n__pycache__/\n*.ignored\n", stack_DOT_py=counting + stack
    )

    for _ in range(3):
        assert broken.problems() == []
    assert (broken.root / "runs.ignored").read_text(encoding="utf-8") == "x"
    broken.write(recipes__train_DOT_json=json.dumps({"base": "recipes/base.json", **asked, "x": 1}))
    assert broken.problems() == []
    assert (broken.root / "runs.ignored").read_text(encoding="utf-8") == "xx"
    assert len(kept) == 1
    assert len(list((broken.root / ".cache/recipes").iterdir())) == 3
