"""Checks of writing: the same again, something else under the same key, many at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from posttrain.capture.conformance.bounded import together
from posttrain.capture.conformance.calls import fetch, fetch_each, same, stage, staged
from posttrain.capture.conformance.failure import require
from posttrain.capture.conformance.records import record, rollout

if TYPE_CHECKING:
    from nemo_gym.token_id_capture.staging import StagedCallRecord, StagingSink

    from posttrain.capture.conformance.calls import Staged
    from posttrain.capture.conformance.subject import Subject

THREADS = 8
CALLS = 25
RACES = 20


def idempotent_restage(subject: Subject) -> None:
    """The same record again is taken, under the same key, by any client."""
    call = record(rollout(), "call")
    with subject.clients() as clients:
        keys = [stage(clients.sink, call), stage(clients.sink, call.model_copy(deep=True))]
    with subject.clients() as clients:
        keys.append(stage(clients.sink, call))
        require(len({*keys}) == 1, f"the same record has the keys {', '.join(keys)}")
        same([call], fetch(clients.source, keys[:1]), "after it was staged three times")


def conflicting_restage(subject: Subject) -> None:
    """Another record under a staged key is refused, and what was staged stays.

    By the same client, by a new one, by another process, and when several come at once: then
    exactly one is taken.
    """
    name = rollout()
    call = record(name, "call")
    others = [
        record(name, "call", generated=(7, 11, 13)),
        record(name, "call", logprobs=[-0.25, -0.25, -0.5]),
        record(name, "call", weight_version=4),
    ]
    with subject.clients() as clients:
        key = stage(clients.sink, call)
        answers = [staged(clients.sink, other) for other in others]
    with subject.clients() as clients:
        answers += [staged(clients.sink, other) for other in others]
        with subject.peer() as peer:
            answers += peer.stage(others)
        taken = sum(not answer.refusal for answer in answers)
        require(taken == 0, f"{taken} of {len(answers)} other records were taken under {key}")
        same([call], fetch(clients.source, [key]), "after others were staged under its key")
    _races(subject)


def _races(subject: Subject) -> None:
    with subject.clients() as clients:
        for race in range(RACES):
            name = rollout()
            rivals = [
                record(name, f"race {race}", generated=(3, number)) for number in range(THREADS)
            ]
            answers = together([partial(staged, clients.sink, rival) for rival in rivals])
            won = [place for place, answer in enumerate(answers) if not answer.refusal]
            require(
                len(won) == 1,
                f"of {THREADS} records that came at once under one key, {len(won)} were taken",
            )
            key = answers[won[0]].key
            same([rivals[won[0]]], fetch(clients.source, [key]), "after a race")


def concurrent_calls(subject: Subject) -> None:
    """Many threads stage through one sink at once, and nothing is lost or mixed up."""
    name = rollout()
    parts = [
        [
            record(
                name, f"{thread}-{call}", generated=(thread, call, 9), prompt=(call,) * (call + 1)
            )
            for call in range(CALLS)
        ]
        for thread in range(THREADS)
    ]
    with subject.clients() as clients:
        works = [partial(_stage_all, clients.sink, part) for part in parts]
        answers = [answer for part in together(works) for answer in part]
    refused = [answer.refusal for answer in answers if answer.refusal]
    total = THREADS * CALLS
    require(not refused, f"{len(refused)} of {total} calls were refused: {'; '.join(refused[:3])}")
    calls = [call for part in parts for call in part]
    with subject.clients() as clients:
        found = fetch_each(clients.source, [answer.key for answer in answers])
    same(calls, found, f"after {THREADS} threads staged {total} calls")


def _stage_all(sink: StagingSink, calls: list[StagedCallRecord]) -> list[Staged]:
    return [staged(sink, call) for call in calls]
