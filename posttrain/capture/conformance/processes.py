"""Checks with several processes: what one has staged, others see, and its death takes nothing."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from posttrain.capture.conformance.calls import fetch, fetch_each, same, stage, staged
from posttrain.capture.conformance.failure import require
from posttrain.capture.conformance.records import record, rollout

if TYPE_CHECKING:
    from nemo_gym.token_id_capture.staging import StagedCallRecord

    from posttrain.capture.conformance.subject import Peer, Subject

# Rounds of killing a process while it stages, and how long after it began, in seconds.
DELAYS_S = (0.0, 0.001, 0.002, 0.004, 0.008)
# So that one call takes a while to write.
LONG = 4_000


def durable_before_return(subject: Subject) -> None:
    """A process that is killed the moment ``stage`` has returned loses nothing.

    SIGKILL comes between the return and any reply; then another process, and a client that is made
    only now, must have every call.
    """
    name = rollout()
    calls = [record(name, f"call {number}", generated=(number, 1)) for number in range(8)]
    with subject.peer() as peer:
        peer.send("stage and die", calls)
        answers = peer.receive()
        code = peer.ended()
    refused = [answer.refusal for answer in answers if answer.refusal]
    require(not refused, f"another process could not stage: {'; '.join(refused[:3])}")
    require(code == -signal.SIGKILL, f"the process that staged ended with code {code}")
    keys = [answer.key for answer in answers]
    with subject.clients() as clients:
        found = fetch_each(clients.source, keys)
    same(calls, found, "after the process that staged it was killed")
    with subject.peer() as peer:
        found = [peer.fetch([key])[0] for key in keys]
    same(calls, found, "in another process, after the first was killed")


def atomic_under_kill(subject: Subject) -> None:
    """A process that is killed while it stages leaves the whole call, or nothing of it.

    Where there is nothing, the call can be staged again.
    """
    for delay in DELAYS_S:
        name = rollout()
        calls = [
            record(name, f"call {number}", prompt=[number] * LONG, generated=(number, 1))
            for number in range(12)
        ]
        with subject.peer() as peer:
            peer.send("stage one by one", calls)
            name = _interrupted(peer, delay)
        _whole_or_absent(subject, next(call for call in calls if call.model_call_id == name))


def _interrupted(peer: Peer, delay: float) -> str:
    """Kill a process that stages calls; returns the id of the call that it was at."""
    # The first call may also make files or tables: let it pass.
    peer.receive()
    name = str(peer.receive())
    time.sleep(delay)
    return str(peer.kill(name))


def _whole_or_absent(subject: Subject, call: StagedCallRecord) -> None:
    with subject.clients() as clients:
        try:
            found = clients.source.fetch([call.staging_key])
        except Exception:  # noqa: BLE001 - absent, or unreadable: then it must be possible again
            found = []
        if not found:
            key, refusal = staged(clients.sink, call)
            require(
                not refusal,
                f"a call whose process was killed is not there, and cannot be staged: {refusal}",
            )
            found = fetch(clients.source, [key])
        same([call], found, "after its process was killed while it staged it")


def visible_across_processes(subject: Subject) -> None:
    """What another process stages is seen by a client that had looked for it before."""
    call, back = record(rollout(), "there"), record(rollout(), "here")
    with subject.clients() as clients, subject.peer() as peer:
        for seen in (clients.source.fetch, peer.fetch):
            try:
                seen([call.staging_key, back.staging_key])
            except Exception:  # noqa: BLE001, S112 - not there yet: what it says is another check
                continue
        (answer,) = peer.stage([call])
        require(not answer.refusal, f"another process could not stage: {answer.refusal}")
        same([call], fetch(clients.source, [answer.key]), "from another process")
        key = stage(clients.sink, back)
        same([back], peer.fetch([key]), "in another process")
