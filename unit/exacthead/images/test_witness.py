"""The witness changes nothing of a command but the end of its errors."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.images.witness import heard, watched

PROGRAM = """
import os, sys
data = sys.stdin.buffer.read()
os.write(1, data)
os.write(2, data[::-1] + sys.argv[1].encode())
os._exit(int(sys.argv[2]))
"""


@pytest.mark.parametrize("code", [0, 3, 137])
def test_input_outputs_arguments_and_exit_code_are_the_commands_own(code: int) -> None:
    argument = "a b'\"$(x)\n*"
    command = (sys.executable, "-I", "-c", PROGRAM, argument, str(code))

    done = subprocess.run(watched(command), input=b"\0ab\xff\n", capture_output=True, check=False)

    assert done.returncode == code
    assert done.stdout == b"\0ab\xff\n"
    assert heard(done.stderr)[0] == b"\n\xffba\0" + argument.encode()


@given(st.binary(max_size=40), st.integers(0, 10**6))
def test_only_the_last_line_is_a_heard(errors: bytes, count: int) -> None:
    line = b"\x1eoom_kill %d\n" % count

    assert heard(errors + line) == (errors, count)
    assert heard(line + errors + b"x") == (line + errors + b"x", 0)
