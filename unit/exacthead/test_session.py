"""What a session hands to an item, and what it says of itself; whole runs: test_commands.py."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.evidence import fixture_digests
from exacthead.plan import Item, python_variable
from exacthead.prefix import Prefixed
from exacthead.request import make_request
from exacthead.runs.folder import ItemFolder
from exacthead.runs.result import ItemResult
from exacthead.stop import end_with_parent, stoppable
from exacthead.verdict import Kind, Verdict
from exacthead.workers.spec import Interpreter, Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.config import Harness

PYTHON = Interpreter(Path("/python"), "cpython", "3.13.0", "cpython-313", "linux")


def test_a_request_names_every_interpreter_and_fills_every_placeholder(
    make_harness: Callable[[str], Harness], tmp_path: Path
) -> None:
    harness = make_harness("[workers.a]\n[workers.b]\n")
    item = Item(
        id="i",
        kind="leg",
        command=("{python:policy}", "--out={folder}/x", "{python:none}"),
        workers={"policy": "a", "vllm-gym": "b"},
        environment={"Y": "item"},
        timeout_s=1.0,
        seed=7,
    )
    specs = {
        name: Spec(name, "", PYTHON, "cpu", "copy", environment=(("X", name), ("Y", name)))
        for name in ("a", "b")
    }

    request = make_request(
        harness, item, specs, {"a": Path("/a/python"), "b": Path("/b")}, ItemFolder(tmp_path)
    )

    assert request.command == ("/a/python", f"--out={tmp_path}/x", "{python:none}")
    assert request.cwd == harness.root
    assert request.pythonpath == (harness.root.resolve(),)
    assert request.environment == {
        "X": "b",
        "Y": "item",
        "EXACTHEAD_SEED": "7",
        "PYTHONHASHSEED": "7",
        "EXACTHEAD_PYTHON_POLICY": "/a/python",
        "EXACTHEAD_PYTHON_VLLM_GYM": "/b",
    }


@given(st.text(min_size=1))
def test_a_role_s_variable_can_be_read_by_a_shell(role: str) -> None:
    variable = python_variable(role)

    assert variable.startswith("EXACTHEAD_PYTHON_")
    assert variable.isascii()
    assert variable.isidentifier()


def test_fixtures_are_told_by_content(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"1")
    (tmp_path / "rows.jsonl").write_bytes(b"row")
    (tmp_path / "__pycache__").mkdir()

    before = fixture_digests(tmp_path)
    assert before["rows.jsonl"] == hashlib.sha256(b"row").hexdigest()
    assert set(before) == {"model", "rows.jsonl"}

    (tmp_path / "model" / "weights").write_bytes(b"2")
    after = fixture_digests(tmp_path)
    assert after["model"] != before["model"]
    assert after["rows.jsonl"] == before["rows.jsonl"]
    assert fixture_digests(tmp_path / "none") == {}


def ended(name: str) -> ItemResult:
    return ItemResult(item_id=name, verdict=Verdict(Kind.PASSED))


def test_a_line_is_shown_once_it_is_whole_with_its_item_s_name() -> None:
    target = io.StringIO()
    prefixed = Prefixed(target)

    prefixed.write("a", "one\ntw")
    prefixed.write("b", "x\n")
    prefixed.write("a", "o\nlast")
    assert target.getvalue() == "a | one\nb | x\na | two\n"

    for name in ("a", "b", "never seen"):
        prefixed.end(ended(name))
    assert target.getvalue() == "a | one\nb | x\na | two\na | last\n"


def test_a_line_that_never_ends_is_shown_in_parts() -> None:
    target = io.StringIO()
    prefixed = Prefixed(target)
    for _ in range(3):
        prefixed.write("a", 100_000 * "x")

    assert target.getvalue() == 3 * f"a | {100_000 * 'x'}\n"


@given(st.lists(st.text("ab\n")))
def test_however_a_log_arrives_its_lines_are_the_same(parts: list[str]) -> None:
    shown = []
    for chunks in (parts, ["".join(parts)]):
        target = io.StringIO()
        prefixed = Prefixed(target)
        for chunk in chunks:
            prefixed.write("i", chunk)
        prefixed.end(ended("i"))
        shown.append(target.getvalue())

    assert shown[0] == shown[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_interrupts_and_the_next_does_not_cut_the_cleanup_short(
    number: signal.Signals,
) -> None:
    before = signal.getsignal(number)
    cleaned = False

    def stopped() -> None:
        nonlocal cleaned
        with stoppable():
            try:
                os.kill(os.getpid(), number)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), number)
                cleaned = True

    with pytest.raises(KeyboardInterrupt):
        stopped()

    assert cleaned
    assert signal.getsignal(number) == before


def test_a_run_ends_with_the_nox_that_started_it() -> None:
    child = (
        "import sys, time\n"
        "from exacthead.stop import end_with_parent, stoppable\n"
        "try:\n"
        "    with stoppable():\n"
        "        end_with_parent()\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(600)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    parent = (
        "import os, subprocess, sys, time\n"
        "os.environ['EXACTHEAD_PARENT'] = str(os.getpid())\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as nox:
        assert nox.stdout is not None
        assert nox.stdout.readline() == "ready\n"
        nox.kill()
        # The end of the pipe: the child has gone too.
        assert nox.stdout.read() == "interrupted\n"


def test_a_parent_that_has_gone_already_ends_the_run_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EXACTHEAD_PARENT", "1")
    if os.getppid() != 1:
        with pytest.raises(KeyboardInterrupt):
            end_with_parent()
    monkeypatch.delenv("EXACTHEAD_PARENT", raising=False)
    end_with_parent()
