from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import uuid
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest

from exacthead.runs import process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def sleeper() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    token = uuid.uuid4().hex
    # Its environment can be read only once the exec is over, which its first word tells.
    command = ["bash", "-c", "echo; read line"]
    with subprocess.Popen(
        command, stdin=PIPE, stdout=PIPE, env={process.TOKEN_VARIABLE: token}
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child, token
        child.kill()


def test_a_process_is_read_as_the_kernel_knows_it() -> None:
    me = process.read_process(os.getpid())
    assert me is not None
    assert (me.parent, me.session, me.state) == (os.getppid(), os.getsid(0), "R")


def test_a_name_with_spaces_and_parentheses_is_read(tmp_path: Path) -> None:
    odd = tmp_path / "a) R (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([str(odd), "600"]) as child:
        try:
            found = process.read_process(child.pid)
            assert found is not None
            assert (found.name, found.parent) == ("a) R (b", os.getpid())
        finally:
            child.kill()


def test_only_the_exact_token_marks_a_member(sleeper: tuple[subprocess.Popen[bytes], str]) -> None:
    child, token = sleeper
    assert [each.pid for each in process.members(token)] == [child.pid]
    assert process.members(token[:-1]) == []
    assert process.members(token + "0") == []


def test_descendants_of_the_supervisor_are_members_and_it_is_not(
    sleeper: tuple[subprocess.Popen[bytes], str],
) -> None:
    child, _ = sleeper
    assert child.pid in {each.pid for each in process.members("no such token", os.getpid())}
    assert os.getpid() not in {each.pid for each in process.members("no token", os.getpid())}


def test_a_later_process_of_the_same_pid_is_never_signalled(
    sleeper: tuple[subprocess.Popen[bytes], str],
) -> None:
    child, token = sleeper
    (member,) = process.members(token)
    earlier = dataclasses.replace(member, started=member.started - 1)
    assert process.send(earlier, signal.SIGKILL) is False
    assert child.poll() is None
    assert process.send(member, signal.SIGKILL) is True
    assert child.wait() == -signal.SIGKILL
    assert process.send(member, signal.SIGKILL) is False


def test_what_cannot_be_ended_is_returned(sleeper: tuple[subprocess.Popen[bytes], str]) -> None:
    _, token = sleeper
    (member,) = process.members(token)
    earlier = dataclasses.replace(member, started=member.started - 1)
    left = process.end(lambda: [earlier], grace_s=0.0, kill_s=0.1, hurry=lambda: False)
    assert left == [earlier]


def test_memory_is_what_the_processes_really_hold() -> None:
    source = "block = b'x' * (50 << 20); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", source], stdin=PIPE, stdout=PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = process.read_process(child.pid)
        assert found is not None
        assert 50 < process.pss_mb([found]) < 80
        child.kill()
    assert process.pss_mb([found]) == 0


def test_a_command_line_is_one_safe_line() -> None:
    command = ["bash", "-c", "echo; read line", "\x1b[31m\n" + "x" * 500]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        text = process.command_line(child.pid)
        child.kill()
    assert text.startswith("bash -c echo; read line ?[31m?xxx")
    assert len(text) == 160
