"""What engines send: frames cut anywhere, and errors that stand behind success."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.errors import HarnessError
from exacthead.images.streams import STDERR, STDOUT, Frames, check_progress


def frame(stream: int, payload: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(payload)) + payload


@given(
    st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(1, 17), min_size=1),
)
def test_output_is_exact_however_it_is_cut(
    written: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    data = b"".join(frame(stream, payload) for stream, payload in written)
    frames, got, at, count = Frames(), [], 0, 0
    while at < len(data):
        size = cuts[count % len(cuts)]
        got += list(frames.feed(data[at : at + size]))
        at, count = at + size, count + 1

    assert got == written
    assert frames.whole


def test_a_letter_of_several_bytes_may_be_cut_by_frames_and_pieces() -> None:
    text = "ä€😀".encode()
    data = b"".join(frame(STDOUT, bytes([byte])) for byte in text)
    frames = Frames()

    got = [payload for at in range(len(data)) for _, payload in frames.feed(data[at : at + 1])]

    assert b"".join(got).decode() == "ä€😀"


def test_a_stream_that_ends_in_the_middle_of_a_frame_is_not_whole() -> None:
    frames = Frames()
    assert list(frames.feed(frame(STDOUT, b"whole") + frame(STDOUT, b"half")[:-1])) == [
        (STDOUT, b"whole")
    ]
    assert not frames.whole


def test_text_that_is_no_frame_is_an_error() -> None:
    with pytest.raises(HarnessError, match="frame that begins with b'exec: no'"):
        list(Frames().feed(b"exec: not found"))


SUCCESS = [{"stream": "Step 2/2 : RUN true\n"}, {"stream": "Successfully built 0123\n"}]
ERROR = {"errorDetail": {"code": 1, "message": "no space left on device"}, "error": "no space"}


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("end", ["\r\n", "\n", ""])
def test_an_error_behind_a_line_of_success_is_an_error(size: int, end: str) -> None:
    text = end.join(json.dumps(each) for each in [*SUCCESS, ERROR, {"stream": "done\n"}]).encode()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    with pytest.raises(HarnessError, match=r"build it[\s\S]*no space left on device[\s\S]*do this"):
        check_progress(pieces, "build it", "do this")


@pytest.mark.parametrize("error", [{"error": "denied"}, {"errorDetail": {"message": "denied"}}])
def test_either_form_of_an_error_counts(error: dict[str, object]) -> None:
    with pytest.raises(HarnessError, match="denied"):
        check_progress([json.dumps(error).encode()], "push it", "log in")


def test_progress_without_an_error_is_given_back() -> None:
    text = "\r\n".join(json.dumps(each) for each in SUCCESS).encode()

    assert check_progress([text], "build it", "do this") == SUCCESS


@pytest.mark.parametrize("text", [b'{"stream": "cut', b"<html>", b"[1]"])
def test_what_is_no_progress_is_an_error(text: bytes) -> None:
    with pytest.raises(HarnessError, match="the engine said"):
        check_progress([text], "build it", "do this")
