"""What a transport carries arrives whole and only once all are there, or somebody is named."""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from itertools import count
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.checksum import state_checksum
from posttrain.errors import RefitError
from posttrain.refit.dispatch import Dispatch
from posttrain.refit.offer import TensorInfo, describe, differences, engine_receivers
from posttrain.refit.stream import Arrival, Packer
from posttrain.refit.transport import TRANSPORTS
from unit.posttrain.generation.refit_process import LAST, STATE
from unit.posttrain.generation.refitting import CALL_S, make_request, offered, sending

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from posttrain.refit.offer import Offer

HERE = Path(__file__).parent
RECEIVERS = engine_receivers([("generation-0", 2), ("generation-1", 1)])
ODD = {
    "bfloat16": torch.linspace(-2, 2, 333).bfloat16(),
    "empty": torch.empty(0, 4),
    "larger than a buffer": torch.arange(4000.0).reshape(40, 100),
    "scalar": torch.tensor(3.0),
    "transposed": torch.arange(60.0).reshape(6, 10).t(),
}


def received(offer: Offer, receiver: int) -> dict[str, torch.Tensor]:
    with offer.link.receiving(offer, receiver) as buffers:
        return {info.name: tensor for info, tensor in Arrival(offer.manifest, buffers).tensors()}


def test_a_receiver_is_each_rank_of_each_engine() -> None:
    assert RECEIVERS == ("generation-0 rank 0", "generation-0 rank 1", "generation-1 rank 0")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("buffer_bytes", [1000, 1 << 20])
def test_every_receiver_gets_the_same_bits(transport: str, buffer_bytes: int) -> None:
    request = make_request(transport=transport, receivers=RECEIVERS, buffer_bytes=buffer_bytes)
    with ThreadPoolExecutor(len(RECEIVERS)) as pool, sending(ODD, request) as offer:
        arriving = [pool.submit(received, offer, place) for place in range(len(RECEIVERS))]
        states = [each.result(CALL_S) for each in arriving]
    assert offer.nbytes == sum(tensor.nbytes for tensor in ODD.values()) == 16_910
    assert len(offer.buffers) == {1000: 17, 1 << 20: 1}[buffer_bytes]
    for state in states:
        assert {name: tensor.shape for name, tensor in state.items()} == {
            name: tensor.shape for name, tensor in ODD.items()
        }
        assert all(tensor.equal(ODD[name]) for name, tensor in state.items())
        assert state_checksum(state.items()) == offer.checksum == state_checksum(ODD.items())


@pytest.mark.parametrize("transport", ["shared_memory", "http"])
def test_a_buffer_is_filled_again_only_when_every_receiver_has_taken_it(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill, filled = Packer.fill, []
    monkeypatch.setattr(Packer, "fill", lambda p, b: (filled.append(len(b)), fill(p, b))[1])
    state = {"w": torch.arange(10_000.0)}
    fast_has_two = threading.Event()
    request = make_request(transport=transport, receivers=RECEIVERS[:2], buffer_bytes=4000)

    def fast(offer: Offer) -> int:
        with offer.link.receiving(offer, 0) as buffers:
            for number, _ in enumerate(buffers):
                if number == 1:
                    fast_has_two.set()
        return number

    with ThreadPoolExecutor(1) as pool, sending(state, request) as offer:
        ahead = pool.submit(fast, offer)
        with offer.link.receiving(offer, 1) as buffers:
            first = next(buffers)
            assert fast_has_two.wait(CALL_S)
            assert first.view(torch.float32).equal(state["w"][:1000])
            assert filled == [4000, 4000]
            rest = [buffer.clone() for buffer in buffers]
        assert ahead.result(CALL_S) == 9
    assert torch.cat(rest).view(torch.float32).equal(state["w"][1000:])
    assert filled == [4000] * 10


@contextmanager
def process(*task: Any) -> Iterator[tuple[subprocess.Popen[bytes], Connection]]:
    """One side in a process of its own; killed at the end."""
    ours, theirs = Pipe()
    command = [sys.executable, str(HERE / "refit_process.py"), str(theirs.fileno())]
    side = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    try:
        ours.send(task)
        yield side, ours
    finally:
        side.kill()
        side.wait(CALL_S)
        ours.close()


def answer(connection: Connection) -> Any:
    assert connection.poll(CALL_S)
    return connection.recv()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_sender_that_is_killed_is_missed_at_the_tensor_that_was_on_its_way(
    transport: str,
) -> None:
    # Buffers of 9000 bytes: the sixth ends in the middle of the third tensor of 20,000.
    request = make_request(transport=transport, buffer_bytes=9000)
    with process("send", request) as (sender, connection), ThreadPoolExecutor(1) as pool:
        offer = answer(connection)
        current: list[str] = []

        def receive() -> None:
            with offer.link.receiving(offer, 0) as buffers:
                arrival = Arrival(offer.manifest, buffers)
                try:
                    list(arrival.tensors())
                finally:
                    current.append(arrival.current.name)

        receiving: Future[None] = pool.submit(receive)
        assert answer(connection) == "stopped"
        sender.kill()
        with pytest.raises(RefitError, match=r"buffer [45] of the policy's weights") as caught:
            receiving.result(CALL_S)
    # Buffer 4 may have been filled and not have left yet; it holds the end of the tensor before.
    assert current == ["b" if "buffer 4" in str(caught.value) else LAST]


def send_to_one_that_is_killed(transport: str) -> None:
    request = make_request(transport=transport, receivers=RECEIVERS[:2], buffer_bytes=9000)
    with (
        ThreadPoolExecutor(1) as pool,
        sending(STATE, request) as offer,
        process("receive", offer, 1) as (receiver, connection),
    ):
        other = pool.submit(received, offer, 0)
        assert answer(connection) == "stopped"
        receiver.kill()
        assert isinstance(other.exception(CALL_S), RefitError)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_receiver_that_is_killed_is_missed_by_the_sender(transport: str) -> None:
    with pytest.raises(RefitError) as caught:
        send_to_one_that_is_killed(transport)
    assert "generation-0 rank 1" in caught.value.asked
    assert "buffer" in caught.value.asked


def send_to_one_of_three(transport: str) -> None:
    request = make_request(transport=transport, receivers=RECEIVERS, patience_s=1.0)
    with ThreadPoolExecutor(1) as pool, sending(STATE, request) as offer:
        there = pool.submit(received, offer, 0)
        assert isinstance(there.exception(CALL_S), RefitError)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nothing_is_sent_while_a_receiver_is_missing(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Packer, "fill", None)
    with pytest.raises(RefitError) as caught:
        send_to_one_of_three(transport)
    assert "generation-0 rank 1, generation-1 rank 0" in caught.value.asked
    assert "generation-0 rank 0" not in caught.value.asked
    assert "nothing in 1 s" in caught.value.found


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_sender_that_is_gone_cannot_be_reached(transport: str) -> None:
    with pytest.raises(RefitError):
        received(offered(STATE, transport=transport, patience_s=1.0), 0)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_offer_passes_through_a_driver_that_has_no_torch(transport: str) -> None:
    offer = offered(STATE, transport=transport)
    program = (
        "import pickle, sys; offer = pickle.load(sys.stdin.buffer); print(offer.checksum);"
        " sys.exit('torch' in sys.modules)"
    )
    driver = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(offer),
        capture_output=True,
        check=True,
        timeout=CALL_S,
    )
    assert driver.stdout.decode().strip() == state_checksum(STATE.items())


def test_shared_memory_holds_two_buffers_at_most_and_no_name() -> None:
    dispatch = Dispatch()
    dispatch.offer(STATE, make_request(buffer_bytes=9000))
    memory = dispatch._sender._memory
    assert os.fstat(memory).st_size == 18_000
    assert Path(f"/proc/self/fd/{memory}").readlink() == Path("/memfd:refit (deleted)")
    dispatch.withdraw()


def test_shared_memory_that_has_no_room_is_refused_before_anything_is_sent() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(RefitError) as caught:
            Dispatch().offer(STATE, make_request(buffer_bytes=9000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.asked == "18000 bytes of shared memory for 2 refit buffers"
    assert "File too large" in caught.value.found
    assert "refit.buffer_mb" in caught.value.todo


@pytest.fixture
def http_offer() -> Iterator[Offer]:
    dispatch = Dispatch()
    yield dispatch.offer(STATE, make_request(transport="http", patience_s=1.0))
    dispatch.withdraw()


@pytest.mark.parametrize(
    ("path", "bearer", "receiver", "status"),
    [
        ("/buffers/0", "wrong", "0", 401),
        ("/buffers/0", "", "0", 401),
        ("/buffers/0", None, "7", 404),
        ("/buffers/0", None, "-1", 404),
        ("/buffers/x", None, "0", 404),
        ("/", None, "0", 404),
        ("/buffers/1", None, "0", 409),
        ("/buffers/0", None, "0", 503),
    ],
)
def test_http_answers_only_who_bears_the_token_and_asks_for_the_next_buffer(
    http_offer: Offer, path: str, bearer: str | None, receiver: str, status: int
) -> None:
    link = http_offer.link
    connection = HTTPConnection(link.host, link.port, timeout=CALL_S)
    token = link.token if bearer is None else bearer
    headers = {"Authorization": f"Bearer {token}", "X-Receiver": receiver}
    connection.request("GET", path, headers=headers)
    answered = connection.getresponse()
    assert (answered.status, answered.read()) == (status, b"")
    connection.close()


def test_the_token_of_a_refit_is_shown_nowhere(
    http_offer: Offer, capfd: pytest.CaptureFixture[str]
) -> None:
    link = http_offer.link
    assert len(link.token) > 40
    with pytest.raises(RefitError) as caught:
        received(replace(http_offer, link=replace(link, token="x" * 43)), 0)
    said = repr(http_offer) + repr(caught.value) + "".join(capfd.readouterr())
    assert "401" in said
    assert link.token not in said
    assert "x" * 43 not in said


def test_bytes_that_change_on_their_way_over_http_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from posttrain.refit import http

    digest, calls = http.content_digest, count()
    # The sender's digest of every buffer is asked for before the receiver's.
    monkeypatch.setattr(
        http, "content_digest", lambda content: digest(content) + "?" * (next(calls) % 2)
    )
    with (
        pytest.raises(RefitError, match="generation-0 rank 0"),
        sending(STATE, make_request(transport="http")) as offer,
        pytest.raises(RefitError, match=r"buffer 0 .*\n.*bytes with .*, sent with sha-256"),
    ):
        received(offer, 0)


shapes = st.lists(st.lists(st.integers(0, 7), max_size=3), min_size=1, max_size=6)


@given(shapes, st.integers(1, 200))
def test_whatever_the_buffers_size_all_bytes_come_once_and_in_order(
    shapes: list[list[int]], most: int
) -> None:
    state = {f"{n}": torch.rand(shape) for n, shape in enumerate(shapes)}
    offer = replace(OFFER, manifest=describe(state), request=make_request(buffer_bytes=most))
    packer = Packer(state[name] for name in offer.names)
    buffer = torch.empty(most, dtype=torch.uint8)

    def buffers() -> Iterator[torch.Tensor]:
        for size in offer.buffers:
            packer.fill(buffer[:size])
            yield buffer[:size]

    tensors = {i.name: t for i, t in Arrival(offer.manifest, buffers()).tensors()}
    assert tensors.keys() == state.keys()
    assert all(tensor.equal(state[name]) for name, tensor in tensors.items())
    with pytest.raises(ValueError, match="fewer bytes"):
        packer.fill(buffer)


OFFER = offered({"w": torch.zeros(1)})


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([], "w, 40 bytes\n.*ended after 0"),
        ([39], "ended after 39"),
        ([40, 1], "bytes beyond its last tensor"),
        ([41], "bytes beyond its last tensor"),
    ],
)
def test_a_stream_that_is_not_its_manifest_is_refused(sizes: list[int], words: str) -> None:
    manifest = describe({"w": torch.zeros(10)})
    buffers = iter([torch.zeros(size, dtype=torch.uint8) for size in sizes])
    with pytest.raises(RefitError, match=words):
        list(Arrival(manifest, buffers).tensors())


def test_nothing_to_offer_is_refused() -> None:
    with pytest.raises(RefitError, match="no tensors"):
        Dispatch().offer({}, make_request())


def test_weights_in_a_dtype_that_nobody_serves_are_refused() -> None:
    with pytest.raises(RefitError, match="counts in a refit\n  found: dtype int64"):
        Dispatch().offer({"counts": torch.zeros(3, dtype=torch.int64)}, make_request())


def test_what_was_sent_or_withdrawn_is_not_sent_again() -> None:
    with sending(STATE, make_request()) as offer:
        received(offer, 0)
    dispatch = Dispatch()
    dispatch.offer(STATE, make_request())
    dispatch.withdraw()
    with pytest.raises(RefitError, match="none are offered"):
        dispatch.send()


WANTED = {"a": (2, 3), "b": (4,)}
names = st.sampled_from(["a", "b", "c"])
infos = st.builds(
    TensorInfo,
    names,
    st.sampled_from(["float32", "bfloat16"]),
    st.sampled_from([(2, 3), (4,)]),
    st.just(""),
)


@given(st.lists(infos, max_size=4))
def test_a_manifest_passes_exactly_when_it_is_the_model(manifest: list[TensorInfo]) -> None:
    right = sorted((info.name, info.dtype, info.shape) for info in manifest) == [
        ("a", "float32", (2, 3)),
        ("b", "float32", (4,)),
    ]
    assert (not differences(WANTED, manifest, "float32")) == right
