"""Answers with the verdict that each must get, read from JSON lines and sent as Gym sends them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posttrain.data import read_objects
from posttrain.environment.reward import flaw
from posttrain.environment.verifiers import VERIFIERS
from posttrain.errors import DataError
from posttrain.nearest import nearest

if TYPE_CHECKING:
    from pathlib import Path

_KEYS = ("id", "verifier", "task", "answer", "calls", "expected")
_WORDS: dict[type, str] = {str: "a text", dict: "an object", list: "a list"}
# Gym's own part of what a verifier is sent.
_OURS = ("responses_create_params", "response", "reward")


@dataclass(frozen=True)
class Answer:
    """One answer to a task.

    Attributes:
        id: its name, unique in its file.
        verifier: who judges it: a key of :data:`~posttrain.environment.verifiers.VERIFIERS`.
        task: what the verifier is told besides the answer.
        output: the answer as output items of OpenAI's Responses form.
        expected: fields of the verdict and the value that each must have; ``reward`` is one.
    """

    id: str
    verifier: str
    task: dict[str, Any]
    output: tuple[dict[str, Any], ...]
    expected: dict[str, Any]

    def request(self) -> dict[str, Any]:
        """What ``/verify`` is sent."""
        response = {
            "id": f"response-{self.id}",
            "object": "response",
            "created_at": 0,
            "model": "none",
            "status": "completed",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "output": list(self.output),
        }
        return {**self.task, "responses_create_params": {"input": []}, "response": response}


def read_answers(path: Path) -> list[Answer]:
    """Read and check the answers at ``path``.

    A line has the keys ``id``, ``verifier``, ``task`` and ``expected``, and the answer itself as
    ``answer``, which is a text, or as ``calls``, a list of ``{"name": text, "arguments": text}``
    with the arguments as the model wrote them, or both. A long text may be written as a list of
    texts and of ``{"repeat": text, "times": number}``.

    Raises:
        DataError: with the line of the first answer that cannot be used: an unknown key or
            verifier, no answer, no finite expected reward, an id that an earlier line has.
    """
    answers: list[Answer] = []
    places: dict[str, str] = {}
    for place, raw in read_objects(path):
        answer = _answer(place, raw)
        if answer.id in places:
            raise DataError(
                f"{place}: an id of its own",
                f"{answer.id!r}, which {places[answer.id]} has",
                "give each answer another id",
            )
        places[answer.id] = place
        answers.append(answer)
    return answers


def _answer(place: str, raw: dict[str, Any]) -> Answer:
    for key in raw:
        if key not in _KEYS:
            raise DataError(f"{place}: an answer's keys", f"the key {key!r}", nearest(key, _KEYS))
    task = _typed(place, raw, "task", dict)
    taken = [key for key in _OURS if key in task]
    if taken:
        found = f"task has {', '.join(taken)}, which Gym adds"
        raise DataError(f"{place}: a task's own fields", found, "leave them out")
    return Answer(
        id=_name(place, raw, "id"),
        verifier=_verifier(place, raw),
        task=task,
        output=(*_message(place, raw), *_calls(place, raw)),
        expected=_expected(place, raw),
    )


def _verifier(place: str, raw: dict[str, Any]) -> str:
    name = _name(place, raw, "verifier")
    if name not in VERIFIERS:
        raise DataError(
            f"{place}: a verifier that needs neither a model nor a network",
            f"verifier {name!r}",
            f"{nearest(name, VERIFIERS)} (posttrain/environment/verifiers.py)",
        )
    return name


def _message(place: str, raw: dict[str, Any]) -> list[dict[str, Any]]:
    if "answer" not in raw:
        if "calls" not in raw:
            found = "neither 'answer' nor 'calls'"
            raise DataError(f"{place}: an answer", found, "give at least one of them")
        return []
    text = _text(place, raw["answer"])
    return [
        {
            "type": "message",
            "id": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }
    ]


def _calls(place: str, raw: dict[str, Any]) -> list[dict[str, Any]]:
    calls = _typed(place, raw, "calls", list) if "calls" in raw else []
    return [
        {"type": "function_call", "call_id": f"call-{number}", **_call(place, call)}
        for number, call in enumerate(calls)
    ]


def _call(place: str, call: Any) -> dict[str, Any]:
    named = isinstance(call, dict) and set(call) == {"name", "arguments"}
    if not named or not isinstance(call["name"], str):
        raise DataError(
            f"{place}: a function call",
            json.dumps(call),
            'give {"name": text, "arguments": text}; arguments are a text, also of JSON',
        )
    return {"name": call["name"], "arguments": _text(place, call["arguments"])}


def _text(place: str, written: Any) -> str:
    """A text as it is, or put together from a list of parts."""
    parts = written if isinstance(written, list) else [written]
    return "".join(_part(place, part) for part in parts)


def _part(place: str, part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and set(part) == {"repeat", "times"}:
        text, times = part["repeat"], part["times"]
        if isinstance(text, str) and isinstance(times, int) and not isinstance(times, bool):
            return text * times
    raise DataError(
        f"{place}: a text, or a list of its parts",
        f"the part {json.dumps(part)}",
        'give texts and {"repeat": text, "times": number}',
    )


def _expected(place: str, raw: dict[str, Any]) -> dict[str, Any]:
    expected: dict[str, Any] = _typed(place, raw, "expected", dict)
    if flaw({"reward": expected.get("reward")}):
        raise DataError(
            f"{place}: expected.reward as a finite number",
            f"expected = {json.dumps(expected)}",
            "say which reward the verifier must give",
        )
    return expected


def _name(place: str, raw: dict[str, Any], key: str) -> str:
    name: str = _typed(place, raw, key, str)
    if not name:
        raise DataError(f"{place}: {key} as a text", "an empty one", f"give {key}")
    return name


def _typed(place: str, raw: dict[str, Any], key: str, kind: type) -> Any:
    if not isinstance(raw.get(key), kind):
        found = f"{key} = {json.dumps(raw[key])}" if key in raw else f"no key {key!r}"
        raise DataError(f"{place}: {key} as {_WORDS[kind]}", found, f"give {key}")
    return raw[key]
