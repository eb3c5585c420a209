"""Staging over TransferQueue: the conformance suite, and an engine that captures into it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from posttrain.capture.conformance import CHECKS, Subject, check, processes
from posttrain.capture.errors import MissingRecordError
from posttrain.capture.settings import CaptureSettings
from posttrain.capture.staging.plane import PlaneStore
from posttrain.generation.settings import EngineSettings
from posttrain.generation.worker import GenerationWorker
from unit.posttrain.capture.conftest import CALL_S, MAX_LEN, TINY_LLAMA
from unit.posttrain.capture.gate import AGAIN, QUESTION, Gate, user
from unit.posttrain.capture.plane_sink import PLANE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posttrain.dataplane.transfer_queue import TransferQueuePlane

OF_SINKS = [name for name in CHECKS if name not in {"gym_local_sink", "ledger_visibility"}]
# Each round of killing starts a process that imports Ray and torch.
ROUNDS_S = (0.0, 0.004)


@pytest.fixture(scope="module")
def queue() -> Iterator[TransferQueuePlane]:
    from posttrain.dataplane.transfer_queue import TransferQueuePlane
    from unit.posttrain.clusters import own_cluster

    with own_cluster():
        plane = TransferQueuePlane.start(deadline_s=CALL_S)
        yield plane
        plane.close()


@pytest.fixture(scope="module")
def subject(queue: TransferQueuePlane, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    import ray

    place = tmp_path_factory.mktemp("plane")
    known = {"address": ray.get_runtime_context().gcs_address, "handle": queue.handle()}
    (place / PLANE).write_text(json.dumps(known))
    return Subject("unit.posttrain.capture.plane_sink:plane", str(place))


@pytest.mark.parametrize("name", OF_SINKS)
def test_a_store_over_transfer_queue_passes(
    name: str, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "DELAYS_S", ROUNDS_S)
    check(name, subject)


def test_an_engine_stages_into_transfer_queue_and_continues_from_it(
    queue: TransferQueuePlane,
) -> None:
    capture = CaptureSettings(plane=queue.handle(), deadline_s=CALL_S)
    worker = GenerationWorker("generation-0", deadline_s=CALL_S)
    before = sum(unit.puts for unit in queue.served().values())
    try:
        worker.start(EngineSettings(str(TINY_LLAMA), max_model_len=MAX_LEN, capture=capture))
        gate = Gate(worker.base_url)
        first = gate.ask([user(QUESTION)])
        second = gate.ask(first.continued(AGAIN), first)
    finally:
        worker.shutdown()
    # The worker is gone, its calls are not.
    store = PlaneStore(queue)
    row = gate.row(second, store)
    assert row.model_call_ids == [call.coords.model_call_id for call in second.chain]
    assert sum(unit.puts for unit in queue.served().values()) > before
    keys = [str(call.coords.staging_key) for call in second.chain]
    assert min(store.sizes(keys)) > 0
    store.retire(keys)
    with pytest.raises(MissingRecordError, match=keys[1]):
        store.fetch(keys)
