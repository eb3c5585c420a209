"""What an item leaves behind: it is found, ended or removed, and makes the item red."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.runs.item import ItemRequest, run_item
from exacthead.verdict import Kind, Verdict
from unit.exacthead.runs.daemon import DAEMON

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_item_leads_its_own_session_and_group(python: Callable[..., ItemRequest]) -> None:
    outcome = run_item(python("import os; print(os.getpid() == os.getsid(0) == os.getpgid(0))"))
    assert outcome.log.read_text() == "True\n"


def test_a_double_forked_daemon_makes_the_leg_red_and_is_ended(
    python: Callable[..., ItemRequest], gone: Callable[[Path], bool]
) -> None:
    outcome = run_item(python(DAEMON + "daemonise(); wait_for(1)"))
    assert outcome.verdict.kind is Kind.FAILED
    assert outcome.verdict.reason.startswith("exit code 0, but left behind: process ")
    assert len(outcome.leftovers) == 1
    assert gone(outcome.log.parent / "artifacts" / "pids")


def test_a_daemon_that_dropped_the_environment_is_found_by_its_ancestry(
    python: Callable[..., ItemRequest], gone: Callable[[Path], bool]
) -> None:
    outcome = run_item(python(DAEMON + "daemonise(clear_environment=True); wait_for(1)"))
    assert len(outcome.leftovers) == 1
    assert gone(outcome.log.parent / "artifacts" / "pids")


def test_a_daemon_that_ignores_sigterm_is_ended_too(
    python: Callable[..., ItemRequest], gone: Callable[[Path], bool]
) -> None:
    source = DAEMON + (
        "import signal\n"
        "daemonise(then=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))\n"
        "wait_for(1)\n"
    )
    outcome = run_item(python(source))
    assert outcome.verdict.kind is Kind.FAILED
    assert gone(outcome.log.parent / "artifacts" / "pids")


def test_a_stopped_process_is_ended_too(
    shell: Callable[..., ItemRequest], gone: Callable[[Path], bool]
) -> None:
    outcome = run_item(
        shell("sleep 600 & echo $! > $EXACTHEAD_ARTIFACTS/pids; kill -STOP $!; disown")
    )
    assert len(outcome.leftovers) == 1
    assert gone(outcome.log.parent / "artifacts" / "pids")


def test_a_process_that_goes_away_in_the_grace_is_no_leftover(
    shell: Callable[..., ItemRequest],
) -> None:
    outcome = run_item(shell("(sleep 0.3) & exit 0", leftover_grace_s=30.0))
    assert outcome.verdict == Verdict(Kind.PASSED)


def test_processes_of_the_same_name_outside_are_left_alone(
    shell: Callable[..., ItemRequest],
) -> None:
    bystander = os.posix_spawn("/bin/sleep", ["sleep", "600"], {"EXACTHEAD_ITEM": "another"})
    try:
        outcome = run_item(shell("sleep 600 & exit 0"))
        assert len(outcome.leftovers) == 1
        assert os.waitpid(bystander, os.WNOHANG) == (0, 0), "the bystander was ended"
    finally:
        os.kill(bystander, 9)
        os.waitpid(bystander, 0)


def test_a_failed_script_still_names_what_it_left(shell: Callable[..., ItemRequest]) -> None:
    outcome = run_item(shell("sleep 600 & exit 3"))
    assert outcome.verdict.kind is Kind.FAILED
    assert outcome.verdict.reason.startswith("exit code 3; it wrote nothing; left behind: process")


def test_ports_of_the_range_can_be_used_and_a_listener_left_is_named(
    python: Callable[..., ItemRequest],
) -> None:
    source = DAEMON + (
        "import socket\n"
        "low = int(os.environ['EXACTHEAD_PORTS'].split('-')[0])\n"
        "def listen():\n"
        "    global server\n"
        "    server = socket.create_server(('127.0.0.1', low))\n"
        "daemonise(then=listen)\n"
        "wait_for(1)\n"
        "socket_up = False\n"
        "while not socket_up:\n"
        "    try: socket.create_connection(('127.0.0.1', low)).close(); socket_up = True\n"
        "    except OSError: time.sleep(0.01)\n"
    )
    outcome = run_item(python(source))
    assert outcome.verdict.kind is Kind.FAILED
    port = int(outcome.leftovers[0].rpartition("(listening on ")[2].rstrip(")"))
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


def test_shared_memory_that_is_left_is_named_and_removed(
    python: Callable[..., ItemRequest],
) -> None:
    source = (
        "import mmap, os, time\n"
        "name = '/dev/shm/exacthead-test-' + os.environ['EXACTHEAD_ITEM']\n"
        "file = open(name, 'w+b'); file.truncate(4096)\n"
        "time.sleep(2)\n"
        "print(name)\n"
    )
    outcome = run_item(python(source))
    name = outcome.log.read_text().strip()
    assert outcome.verdict == Verdict(
        Kind.FAILED, f"exit code 0, but left behind: shared memory {name}"
    )
    assert not Path(name).exists()


def test_shared_memory_of_others_is_left_alone(python: Callable[..., ItemRequest]) -> None:
    name = Path(f"/dev/shm/exacthead-test-other-{os.getpid()}")
    request = python("import time; time.sleep(1)")
    timer = threading.Timer(0.4, lambda: name.write_bytes(b"theirs"))
    timer.start()
    try:
        outcome = run_item(request)
        timer.join()
        assert outcome.verdict == Verdict(Kind.PASSED)
        assert name.read_bytes() == b"theirs"
    finally:
        name.unlink(missing_ok=True)
