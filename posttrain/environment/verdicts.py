"""Ask verifiers about answers, and compare what they say with what they must say.

A verifier that fails says nothing about the answer. An error, a late answer, one without a reward
and one that the verifier itself takes back are failures with a reason, never the reward 0.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posttrain.environment.call import post, session
from posttrain.environment.reward import flaw
from posttrain.errors import WorkerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import aiohttp

    from posttrain.environment.answers import Answer


@dataclass(frozen=True)
class Verdict:
    """What a verifier made of one answer.

    Attributes:
        id: the answer's.
        verifier: who was asked.
        expected: what had to be said, by field.
        said: the same fields as they were said; empty after a failure.
        failure: why there is no verdict; empty where there is one.
        seconds: how long it took.
    """

    id: str
    verifier: str
    expected: Mapping[str, Any]
    said: Mapping[str, Any]
    failure: str
    seconds: float

    @property
    def reward(self) -> float | None:
        """The reward; None after a failure."""
        reward: float | None = self.said.get("reward")
        return reward

    @property
    def differences(self) -> list[str]:
        """What was said otherwise than expected, in words; empty after a failure."""
        if self.failure:
            return []
        found = (_difference(field, value, self.said) for field, value in self.expected.items())
        return [difference for difference in found if difference]

    def problem(self) -> str:
        """What is wrong, with the verifier's name; empty when nothing is."""
        wrong = self.failure or ", ".join(self.differences)
        return f"{self.verifier}, {self.id}: {wrong}" if wrong else ""


def metrics(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """The counts of one round, for each verifier in it."""
    names = dict.fromkeys(verdict.verifier for verdict in verdicts)
    shares = {name: [one for one in verdicts if one.verifier == name] for name in names}
    return {
        f"verifier/{name}/{metric}": value
        for name, share in shares.items()
        for metric, value in _counts(share).items()
    }


def _counts(share: Sequence[Verdict]) -> dict[str, float]:
    rewards = [verdict.reward for verdict in share]
    whole = {"accepted": rewards.count(1), "rejected": rewards.count(0)}
    failures = rewards.count(None)
    return {
        "rows": len(share),
        **whole,
        "partly": len(share) - sum(whole.values()) - failures,
        "mismatches": sum(bool(verdict.differences) for verdict in share),
        "failures": failures,
        "seconds_max": max(verdict.seconds for verdict in share),
    }


def ask(
    urls: Mapping[str, str], answers: Sequence[Answer], *, deadline_s: float, concurrency: int
) -> list[Verdict]:
    """Ask about every answer once.

    Args:
        urls: base address of each verifier's server.
        answers: what is judged.
        deadline_s: seconds that one verdict may take.
        concurrency: verdicts that may be under way at once.

    Returns:
        One verdict an answer, in their order.
    """
    return asyncio.run(_ask(urls, answers, deadline_s, asyncio.Semaphore(concurrency)))


async def _ask(
    urls: Mapping[str, str], answers: Sequence[Answer], deadline_s: float, slots: asyncio.Semaphore
) -> list[Verdict]:
    async with session() as client:

        async def one(answer: Answer) -> Verdict:
            async with slots:
                return await _verdict(client, urls[answer.verifier], answer, deadline_s)

        return await asyncio.gather(*(one(answer) for answer in answers))


async def _verdict(
    client: aiohttp.ClientSession, url: str, answer: Answer, deadline_s: float
) -> Verdict:
    asked = f"{answer.id}: a verdict of {answer.verifier}"
    begun = time.monotonic()
    said: dict[str, Any] = {}
    try:
        reply = await post(
            client, f"{url}/verify", answer.request(), asked=asked, deadline_s=deadline_s
        )
    except WorkerError as error:
        failure = error.found
    else:
        failure = flaw(reply)
        if not failure:
            said = {field: reply[field] for field in answer.expected if field in reply}
    seconds = time.monotonic() - begun
    return Verdict(answer.id, answer.verifier, answer.expected, said, failure, seconds)


def _difference(field: str, value: Any, said: Mapping[str, Any]) -> str:
    if field not in said:
        return f"no {field} instead of {_json(value)}"
    if said[field] == value:
        return ""
    return f"{field} {_json(said[field])} instead of {_json(value)}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
