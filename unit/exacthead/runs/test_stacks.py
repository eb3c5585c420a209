from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.runs.item import ItemRequest, run_item
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

REGISTERED = """
import faulthandler, os, signal, sys, threading, time
folder = os.environ["EXACTHEAD_STACKS_DIR"]
def register():
    file = open(f"{folder}/{os.getpid()}.txt", "w")
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
    return file
"""


def test_a_timeout_shows_the_stacks_of_every_rank_and_thread(
    python: Callable[..., ItemRequest],
) -> None:
    source = REGISTERED + (
        "def hang_in_rank():\n"
        "    while True: time.sleep(60)\n"
        "def hang_in_thread():\n"
        "    while True: time.sleep(60)\n"
        "for rank in range(2):\n"
        "    if os.fork() == 0:\n"
        "        file = register()\n"
        "        hang_in_rank()\n"
        "file = register()\n"
        "threading.Thread(target=hang_in_thread).start()\n"
    )
    request = python(source, timeout_s=4.0)
    assert run_item(request).verdict.kind is Kind.TIMED_OUT
    text = request.folder.stacks.read_text()
    assert text.count("in hang_in_rank") == 2
    assert text.count("in hang_in_thread") == 1
    assert text.count("== process ") == 3


def test_a_process_that_did_not_register_is_not_signalled_but_told_of(
    shell: Callable[..., ItemRequest],
) -> None:
    # USR1 ends a shell that does not catch it, and one that catches it for itself must not get it.
    script = "trap 'echo hit' USR1; sleep 600 & wait; echo ended early"
    request = shell(script, timeout_s=2.0)
    assert run_item(request).verdict.kind is Kind.TIMED_OUT
    assert request.folder.log.read_text() == ""
    text = request.folder.stacks.read_text()
    assert text.count("no Python stacks") == 2
    assert text.count("State:") == 2
    assert "(sleep): sleep 600" in text


def test_a_process_that_never_writes_its_stacks_holds_nothing_up(
    python: Callable[..., ItemRequest],
) -> None:
    source = REGISTERED + (
        "open(f'{folder}/{os.getpid()}.txt', 'w')\n"
        "signal.signal(signal.SIGUSR1, lambda *_: time.sleep(600))\n"
        "time.sleep(600)\n"
    )
    request = python(source, timeout_s=2.0)
    assert run_item(request).verdict.kind is Kind.TIMED_OUT
    assert "no Python stacks" in request.folder.stacks.read_text()


def test_a_process_that_no_longer_catches_the_signal_lives_to_be_ended_properly(
    python: Callable[..., ItemRequest],
) -> None:
    source = REGISTERED + (
        "register()\n"
        "faulthandler.unregister(signal.SIGUSR1)\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('tidied up')))\n"
        "time.sleep(600)\n"
    )
    request = python(source, timeout_s=3.0, grace_s=30.0)
    assert run_item(request).verdict.kind is Kind.TIMED_OUT
    assert request.folder.log.read_text() == "tidied up\n"
