"""Checks of what Gym itself brings, on the file system that it will run on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from nemo_gym.token_id_capture.conformance import ConformanceError, run_conformance
from nemo_gym.token_id_capture.fingerprint import FINGERPRINT_VERSION
from nemo_gym.token_id_capture.lineage import FileLineageStore
from nemo_gym.token_id_capture.staging import CallRecord, CaptureLedgerCommit
from nemo_gym.token_id_capture.store import TokenCaptureStore

from posttrain.capture.conformance.failure import Failed, require
from posttrain.capture.conformance.paths import peer_environment
from posttrain.capture.conformance.records import record, rollout

if TYPE_CHECKING:
    from posttrain.capture.conformance.subject import Subject

LEDGER_S = 120
REQUEST = [{"role": "user", "content": "What is 2 + 2?"}]
ANSWER = [
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Four."}],
    }
]


def gym_local_sink(subject: Subject) -> None:
    """Gym's own ``run_conformance`` passes with Gym's own file store in the place's file system."""
    with tempfile.TemporaryDirectory(dir=subject.place) as root:

        def store() -> TokenCaptureStore:
            return TokenCaptureStore(root)

        def lineage() -> FileLineageStore:
            return FileLineageStore(root)

        try:
            asyncio.run(run_conformance(store, store, lineage))
        except ConformanceError as error:
            raise Failed(str(error)) from error


def ledger_visibility(subject: Subject) -> None:
    """What one process writes into Gym's file ledger, every other sees at once.

    The readers are there first, and have looked: a gate with several processes resolves a parent
    in another process than the one that recorded it.
    """
    with tempfile.TemporaryDirectory(dir=subject.place) as root:
        here = FileLineageStore(root)
        name = rollout()
        asyncio.run(resolved(here, name))
        commit = _commit(name)
        _other_process(root, "record", commit.model_dump_json())
        for where, seen in (
            ("the process that had looked before", asyncio.run(resolved(here, name))),
            ("a third process", json.loads(_other_process(root, "resolve", name))),
        ):
            wanted = {
                "status": "resolved",
                "parent": "call",
                "chain": [commit.record.staging_key],
                "calls": ["call"],
            }
            require(seen == wanted, f"{where} sees {seen}, not {wanted}")
        asyncio.run(here.close())


def _commit(rollout_id: str) -> CaptureLedgerCommit:
    staged = record(rollout_id, "call")
    fields = staged.model_dump(include=set(CallRecord.model_fields))
    call = CallRecord(
        **fields,
        staging_key=staged.staging_key,
        response_id="response",
        fingerprint_version=FINGERPRINT_VERSION,
    )
    return CaptureLedgerCommit(
        rollout_id=rollout_id,
        record=call,
        staging_chain=(staged.staging_key,),
        request_items=REQUEST,
        response_items=ANSWER,
    )


async def resolved(ledger: FileLineageStore, rollout_id: str) -> dict[str, Any]:
    """How a continuation of the rollout resolves in a ledger, and which calls it has."""
    continuation = [*REQUEST, *ANSWER, {"role": "user", "content": "And 3 + 3?"}]
    resolution = await ledger.resolve(rollout_id, continuation)
    manifest = await ledger.manifest(rollout_id)
    match = resolution.match
    return {
        "status": resolution.status.value,
        "parent": match.model_call_id if match is not None else None,
        "chain": list(match.staging_chain) if match is not None else [],
        "calls": [each["model_call_id"] for each in manifest["records"]],
    }


def _other_process(root: str, what: str, argument: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "posttrain.capture.conformance.ledger_peer", root, what, argument],
        env=peer_environment(),
        capture_output=True,
        text=True,
        timeout=LEDGER_S,
        check=False,
    )
    require(done.returncode == 0, f"another process could not {what}: {done.stderr[-2000:]}")
    return done.stdout
