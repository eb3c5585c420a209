"""What the reader of captured rollouts keeps and lets go of, without a gate and an engine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from nemo_gym.token_id_capture.staging import CaptureAdmission, RolloutTokenCapture
from nemo_gym.token_id_capture.staging.records import RolloutManifest

from posttrain.capture.reader import CapturedReader
from posttrain.capture.settings import PARTITION
from posttrain.capture.staging.plane import PlaneStore
from posttrain.config.token_capture import TokenCapture
from posttrain.dataplane import MemoryPlane, PlaneTimeoutError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ON = TokenCapture(enabled=True, deadline_s=60.0, gate_memory_mb=1_000_000, turns=3)


@dataclass
class Gate:
    """Of a gate, what a reader needs: its ledger, in which no call ever ends."""

    folder: Path

    def manifests(self, _deadline_s: float) -> Gate:
        return self

    async def manifest(self, rollout_id: str) -> RolloutManifest:
        return RolloutManifest(rollout_id=rollout_id, records=[], failures=[])

    def intend(self, rollout: str, call: str) -> None:
        with (self.folder / f"{rollout}.tokens.intents").open("a") as file:
            file.write(f"{call}\n")


class Plane(MemoryPlane):
    """A plane in memory that can be late with what it is to clear."""

    late = False

    def clear(
        self, partition: str, ids: Sequence[str] | None = None, *, unknown: bool = False
    ) -> None:
        if self.late:
            raise PlaneTimeoutError("clear rows", "unit-1 does not answer", "wait")
        super().clear(partition, ids, unknown=unknown)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
def store(plane: Plane) -> PlaneStore:
    return PlaneStore(plane)


@pytest.fixture
def reader(gate: Any, store: PlaneStore) -> CapturedReader:
    return CapturedReader(gate, store, ON, rollouts=2, say=print)


def stage(store: PlaneStore, rollout: str, call: str) -> str:
    """Stage a call as an engine's worker does; returns its disposition."""
    capture = RolloutTokenCapture(sink=store, weight_version_fn=lambda: 0)
    admission = CaptureAdmission(rollout_id=rollout, model_call_id=call, prev_len=0, mode="text")
    coords = capture.complete_call(
        capture.begin_call(admission),
        prompt_token_ids=[1],
        generated_token_ids=[2],
        generated_logprobs=[-0.5],
    )
    return str(coords.disposition)


def staged(plane: MemoryPlane, *keys: str) -> list[str]:
    return [key for key, fields in plane.check(PARTITION, keys).items() if fields]


def test_a_placeholder_says_in_the_log_what_exactly_was_found(
    gate: Gate, reader: CapturedReader, capsys: pytest.CaptureFixture[str]
) -> None:
    gate.intend("a", "call")
    found = asyncio.run(reader.read(0, "a", 7, {"reward": 1.0, "response": {}}, 0.0))
    assert found.cause == "missing_entry"
    said = capsys.readouterr().out
    assert said == "placeholder a (row 7): missing_entry: call call has an intent and no entry\n"


def test_a_call_that_is_staged_after_its_rollout_was_given_up_leaves_nothing(
    gate: Gate, plane: Plane, store: PlaneStore, reader: CapturedReader
) -> None:
    gate.intend("a", "first")
    gate.intend("a", "second")
    assert stage(store, "a", "first") == "staged"
    # The second is still at the engine.
    asyncio.run(reader.retire(["a"]))
    assert stage(store, "a", "second") == "capture_failed"
    assert staged(plane, "a/first", "a/second") == []


def test_what_could_not_be_retired_is_retired_with_the_next_group(
    gate: Gate, plane: Plane, store: PlaneStore, reader: CapturedReader
) -> None:
    for rollout in ("a", "b"):
        gate.intend(rollout, "call")
        assert stage(store, rollout, "call") == "staged"
    plane.late = True
    with pytest.raises(PlaneTimeoutError):
        asyncio.run(reader.retire(["a"]))
    plane.late = False
    assert staged(plane, "a/call", "b/call") == ["a/call", "b/call"]
    asyncio.run(reader.retire(["b"]))
    assert staged(plane, "a/call", "b/call") == []
