"""A request's conversation as token ids, rendered by the server's own renderer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from vllm.entrypoints.serve.engine.protocol import ErrorResponse

from posttrain.capture.errors import UncapturableError, UnprovenPrefixError
from posttrain.capture.worker.splice import Renderings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat

# What the last answer is replaced by, and what replaces it when it is that.
OTHER_ANSWERS = ("Understood.", "Agreed.")
# Types of a message's parts that become tokens, and nothing else.
TEXT = frozenset({"text", "input_text", "output_text", "refusal", "thinking"})
# With these the engine's prompt is not the rendered conversation, or the answer not its tokens.
UNSUPPORTED: Mapping[str, Any] = {
    "continue_final_message": False,
    "echo": False,
    "truncate_prompt_tokens": None,
    "kv_transfer_params": None,
    "use_beam_search": False,
}


async def renderings(chat: OpenAIServingChat, request: ChatCompletionRequest) -> Renderings:
    """Render a continuation's conversation as a splice needs it.

    Args:
        chat: with the renderer.
        request: with settled messages (:func:`settle`); it is not changed.

    Raises:
        UnprovenPrefixError: it has no answer yet, asks for what cannot be spliced, or cannot be
            rendered to token ids alone.
    """
    for name, usual in UNSUPPORTED.items():
        if (value := getattr(request, name)) != usual:
            raise _unproven(f"{name}={value}", f"send {name}={usual}")
    messages = list(request.messages)
    answers = [place for place, each in enumerate(messages) if each.get("role") == "assistant"]
    if not answers:
        raise _unproven("no assistant message", "a continuation repeats its parent's answer")
    last = answers[-1]
    other = next(text for text in OTHER_ANSWERS if text != messages[last].get("content"))
    replaced = [*messages]
    replaced[last] = {**messages[last], "content": other}
    whole, answered, instead = await asyncio.gather(
        _tokens(chat, request, {"messages": messages}),
        _tokens(chat, request, {"messages": messages[: last + 1], "add_generation_prompt": False}),
        _tokens(chat, request, {"messages": replaced}),
    )
    return Renderings(whole, answered, instead)


def settle(request: ChatCompletionRequest) -> None:
    """Make a request's messages readable more than once: vLLM leaves some parts as iterators.

    Raises:
        UncapturableError: a message has a part that is not text.
    """
    request.messages = [
        {name: _read(value) for name, value in message.items()} for message in request.messages
    ]
    for message in request.messages:
        parts = message.get("content")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and (kind := part.get("type", "text")) not in TEXT:
                raise UncapturableError(
                    "a conversation of text",
                    f"a message with a part of type {kind}",
                    "don't have media captured: their tensors would not be staged",
                )


def _read(value: Any) -> Any:
    plain = value is None or isinstance(value, str | int | float | list | dict)
    return value if plain else list(value)


async def _tokens(
    chat: OpenAIServingChat, request: ChatCompletionRequest, changes: Mapping[str, Any]
) -> list[int]:
    rendered = await chat.online_renderer.render_chat(request.model_copy(update=dict(changes)))
    if isinstance(rendered, ErrorResponse):
        raise _unproven(rendered.error.message, "look at the conversation and the chat template")
    _, prompts = rendered
    if len(prompts) != 1 or prompts[0]["type"] != "token":
        kinds = ", ".join(prompt["type"] for prompt in prompts)
        raise _unproven(f"a prompt of {kinds}", "capture continuations of text only")
    return list(prompts[0]["prompt_token_ids"])


def _unproven(found: str, todo: str) -> UnprovenPrefixError:
    return UnprovenPrefixError("a conversation that continues a captured call", found, todo)
