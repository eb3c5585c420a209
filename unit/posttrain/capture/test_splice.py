"""Where the last answer ends: by the templates that are about, and those that prove nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.capture.errors import UnprovenPrefixError
from posttrain.capture.worker.splice import Renderings, tail

if TYPE_CHECKING:
    from collections.abc import Callable

    Message = dict[str, str]
    Template = Callable[..., str]

# One token for each special word, one for each other character.
SPECIAL = ["<|end|>", "<|im_end|>", "<|eot|>", "<|im_start|>", "</s>", "<|user|>", "<|assistant|>"]
END, IM_END, EOT, _, SLASH_S, *_ = range(1000, 1000 + len(SPECIAL))
_SPLIT = re.compile("|".join(map(re.escape, SPECIAL)) + "|.", re.DOTALL)


def tokens(text: str) -> list[int]:
    return [
        1000 + SPECIAL.index(word) if word in SPECIAL else ord(word)
        for word in _SPLIT.findall(text)
    ]


def tiny(messages: list[Message], *, prompt: bool) -> str:
    text = "".join(f"<|{each['role']}|>{each['content']}<|end|>" for each in messages)
    return text + "<|assistant|>" * prompt


def chatml(messages: list[Message], *, prompt: bool) -> str:
    text = "".join(
        f"<|im_start|>{each['role']}\n{each['content']}<|im_end|>\n" for each in messages
    )
    return text + "<|im_start|>assistant\n" * prompt


def thinking(messages: list[Message], *, prompt: bool) -> str:
    """Keeps what was thought for the last answer only, as templates of reasoning models do."""
    last = max(place for place, each in enumerate(messages) if each["role"] != "tool")
    seen = [
        each | {"content": each["content"].rpartition("</think>")[2]}
        if each["role"] == "assistant" and place != last
        else each
        for place, each in enumerate(messages)
    ]
    return chatml(seen, prompt=prompt)


def stripped(messages: list[Message], *, prompt: bool) -> str:
    return chatml([each | {"content": each["content"].strip()} for each in messages], prompt=prompt)


def unclosed(messages: list[Message], *, prompt: bool) -> str:
    """Closes what a user says, and nothing else."""
    text = "".join(
        f"[{each['role']}] {each['content']}" + "</s>" * (each["role"] == "user")
        for each in messages
    )
    return text + "[assistant] " * prompt


def bare(messages: list[Message], *, prompt: bool) -> str:
    return "\n".join(each["content"] for each in messages) + "\n" * prompt


def rendered(template: Template, messages: list[Message]) -> Renderings:
    last = max(place for place, each in enumerate(messages) if each["role"] == "assistant")
    other = [*messages]
    other[last] = messages[last] | {"content": "Understood."}
    return Renderings(
        tokens(template(messages, prompt=True)),
        tokens(template(messages[: last + 1], prompt=False)),
        tokens(template(other, prompt=True)),
    )


def talk(*contents: str, roles: tuple[str, ...] = ("user", "assistant")) -> list[Message]:
    return [
        {"role": roles[place % len(roles)], "content": content}
        for place, content in enumerate(contents)
    ]


@pytest.mark.parametrize(
    ("template", "end", "expected"),
    [
        (tiny, "<|end|>", "<|user|>And 3?<|end|><|assistant|>"),
        (
            chatml,
            "<|im_end|>",
            "\n<|im_start|>user\nAnd 3?<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            thinking,
            "<|im_end|>",
            "\n<|im_start|>user\nAnd 3?<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            stripped,
            "<|im_end|>",
            "\n<|im_start|>user\nAnd 3?<|im_end|>\n<|im_start|>assistant\n",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("answer", ["4", "", " 4 \n", "<think>2 and 2</think>4", "Understood"])
def test_the_tail_is_what_the_template_says_after_the_answer(
    template: Template, end: str, expected: str, answer: str
) -> None:
    messages = talk("What is 2 + 2?", answer, "And 3?")
    stopped = [*tokens(template(messages[:1], prompt=True)), *tokens(answer), *tokens(end)]
    closing = {END, IM_END, EOT}
    assert tail(stopped, rendered(template, messages), closing) == tokens(expected)
    # Cut off by its length, or ended by a token that the template does not close with.
    for cut in (stopped[:-1], [*stopped[:-1], EOT]):
        assert tail(cut, rendered(template, messages), closing) == tokens(end + expected)


@pytest.mark.parametrize("template", [tiny, chatml, thinking, stripped])
def test_several_turns_and_several_messages_after_the_answer(template: Template) -> None:
    messages = [
        {"role": "system", "content": "You add."},
        *talk("1?", "<think>x</think>1", "2?", "<think>y</think>2"),
        {"role": "tool", "content": "<|end|> and <|im_end|> in a tool's text"},
        {"role": "user", "content": "3?"},
    ]
    prefix = [1, IM_END if template is not tiny else END]
    found = tail(prefix, rendered(template, messages), {END, IM_END})
    # Everything after the second answer, and nothing of it.
    text = template(messages[-2:], prompt=True)
    newline = "" if template is tiny else "\n"
    assert found == tokens(newline + text)


def unproven(template: Template, messages: list[Message], closing: set[int]) -> str:
    with pytest.raises(UnprovenPrefixError) as caught:
        tail([1, 2], rendered(template, messages), closing)
    return caught.value.found


@pytest.mark.parametrize(
    ("template", "closing"),
    [(unclosed, {SLASH_S}), (unclosed, {SLASH_S, END})],
)
def test_a_template_that_does_not_close_answers_proves_nothing(
    template: Template, closing: set[int]
) -> None:
    messages = talk("1?", "one", "2?")
    assert "depends on the answer's own text" in unproven(template, messages, closing)


def test_a_template_without_any_closing_token_proves_nothing() -> None:
    assert "no token of [1000] ends a message" in unproven(bare, talk("1?", "one", "2?"), {END})
    assert "no token of [1000] ends a message" in unproven(chatml, talk("1?", "1", "2?"), {END})


@pytest.mark.parametrize("template", [tiny, chatml, stripped])
def test_an_answer_that_spells_the_closing_token_proves_nothing(template: Template) -> None:
    # Another reader would take the user's words for the policy's.
    messages = talk("1?", "one<|end|><|user|>2?<|im_end|>", "3?")
    assert "depends on the answer's own text" in unproven(template, messages, {END, IM_END})


def test_a_user_that_spells_the_closing_token_changes_nothing_of_the_place() -> None:
    messages = talk("1?<|end|><|assistant|>one<|end|>", "two", "3<|end|>?")
    found = tail([5, END], rendered(tiny, messages), {END})
    assert found == tokens("<|user|>3<|end|>?<|end|><|assistant|>")


def test_nothing_after_the_answer_but_the_next_generation_prompt() -> None:
    found = tail([5, END], rendered(tiny, talk("1?", "one")), {END})
    assert found == tokens("<|assistant|>")


def test_a_template_that_changes_what_follows_by_the_answer_proves_nothing() -> None:
    def counts(messages: list[Message], *, prompt: bool) -> str:
        return tiny(messages, prompt=prompt) + str(sum(len(each["content"]) for each in messages))

    assert "depends on" in unproven(counts, talk("1?", "one", "2?"), {END})


def test_an_error_says_what_becomes_of_the_call() -> None:
    with pytest.raises(UnprovenPrefixError) as caught:
        tail([1], Renderings([], [], []), {END})
    error: Any = caught.value
    assert error.asked == "the place where the last answer ends"
    assert error.todo.startswith("the call is answered, and its rollout is not trained")
