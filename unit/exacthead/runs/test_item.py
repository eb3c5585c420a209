from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.runs.item import ItemRequest, run_item
from exacthead.runs.supervisor import _remove_tree
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.runs.folder import RunFolder

# A daemon as tools start them: double fork, own session, no way to tell it from its parent.
DAEMON = """
import os, sys, time
pids = os.environ["EXACTHEAD_ARTIFACTS"] + "/pids"
def daemonise(clear_environment=False, then=None):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(pids, "a") as file:
                file.write(f"{os.getpid()}\\n")
            if then:
                then()
            if clear_environment:
                os.execve("/bin/sleep", ["sleep", "600"], {})
            time.sleep(600)
        os._exit(0)
    os.wait()
def wait_for(count):
    while not os.path.exists(pids) or len(open(pids).read().split()) < count:
        time.sleep(0.01)
"""


def test_exit_code_zero_passes(shell: Callable[..., ItemRequest]) -> None:
    outcome = run_item(shell("echo hello"))
    assert outcome.verdict == Verdict(Kind.PASSED)
    assert (outcome.returncode, outcome.signal, outcome.leftovers) == (0, None, ())
    assert outcome.log.read_bytes() == b"hello\n"


def test_another_exit_code_fails_and_quotes_the_last_lines(
    shell: Callable[..., ItemRequest],
) -> None:
    outcome = run_item(shell("echo first; echo; echo the cause >&2; exit 3"))
    assert outcome.verdict == Verdict(Kind.FAILED, "exit code 3; last lines: first | the cause")
    assert outcome.returncode == 3


def test_a_signal_is_a_crash_with_its_name(shell: Callable[..., ItemRequest]) -> None:
    outcome = run_item(shell("kill -SEGV $$"))
    assert outcome.verdict == Verdict(Kind.CRASHED, "ended by SIGSEGV; it wrote nothing")
    assert (outcome.returncode, outcome.signal) == (-11, "SIGSEGV")


def test_a_real_segmentation_fault_says_where(python: Callable[..., ItemRequest]) -> None:
    outcome = run_item(python("import ctypes; ctypes.string_at(0)"))
    assert outcome.verdict.kind is Kind.CRASHED
    assert "Fatal Python error: Segmentation fault" in outcome.log.read_text()


def test_a_command_that_dies_inside_a_shell_is_a_crash(shell: Callable[..., ItemRequest]) -> None:
    outcome = run_item(shell("bash -c 'kill -ABRT $$'; exit $?"))
    assert outcome.verdict.kind is Kind.CRASHED
    assert "exit code 134, a shell's word for SIGABRT" in outcome.verdict.reason


def test_a_command_that_does_not_exist_was_not_run(shell: Callable[..., ItemRequest]) -> None:
    request = shell("")
    outcome = run_item(
        type(request)("item", ("/no/such/program",), request.cwd, request.folder, 5.0)
    )
    assert outcome.verdict.kind is Kind.NOT_RUN
    assert "/no/such/program" in outcome.verdict.reason
    assert outcome.returncode is None


def test_the_log_keeps_every_byte(python: Callable[..., ItemRequest]) -> None:
    sent = b"\xff\xfe\x00\x1b[31m \xe2\x82" + b"x" * 3_000_000 + b"\r\n\xe6\x97\xa5\x07"
    source = (
        "import os\n"
        "data = b'\\xff\\xfe\\x00\\x1b[31m \\xe2\\x82' + b'x' * 3_000_000\n"
        "data += b'\\r\\n\\xe6\\x97\\xa5\\x07'\n"
        "while data:\n"
        "    data = data[os.write(1, data[:70001]):]\n"
    )
    shown: list[str] = []
    outcome = run_item(python(source), echo=shown.append)
    assert outcome.log.read_bytes() == sent
    text = "".join(shown)
    assert text.startswith("\ufffd\ufffd\\x00\\x1b[31m \ufffdxxx")
    assert text.endswith("x\n日\\x07")
    assert text.count("x" * 3_000_000) == 1


def test_both_streams_keep_their_order(python: Callable[..., ItemRequest]) -> None:
    outcome = run_item(
        python("import sys\nfor n in range(50): print(n, file=(sys.stdout, sys.stderr)[n % 2])")
    )
    assert outcome.log.read_text().split() == [str(n) for n in range(50)]


def test_the_log_of_a_killed_item_is_complete(python: Callable[..., ItemRequest]) -> None:
    outcome = run_item(python("import os\nprint('before the end')\nos.kill(os.getpid(), 9)"))
    assert outcome.verdict == Verdict(Kind.CRASHED, "ended by SIGKILL; last lines: before the end")


def test_standard_input_is_empty(shell: Callable[..., ItemRequest]) -> None:
    outcome = run_item(shell("cat; echo end"))
    assert outcome.log.read_text() == "end\n"


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


def test_a_hanging_item_times_out_and_all_of_it_is_ended(
    python: Callable[..., ItemRequest], gone: Callable[[Path], bool]
) -> None:
    source = DAEMON + "daemonise(); daemonise(clear_environment=True); wait_for(2); time.sleep(600)"
    outcome = run_item(python(source, timeout_s=4.0))
    assert outcome.verdict == Verdict(
        Kind.TIMED_OUT, "the leg's limit of 4 s; where it stood: stacks.txt"
    )
    assert gone(outcome.log.parent / "artifacts" / "pids")


def test_after_a_timeout_sigterm_comes_first(python: Callable[..., ItemRequest]) -> None:
    source = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('tidied up')))\n"
        "print('ready')\n"
        "time.sleep(600)\n"
    )
    outcome = run_item(python(source, timeout_s=3.0, grace_s=30.0))
    assert outcome.verdict.kind is Kind.TIMED_OUT
    assert outcome.log.read_text() == "ready\ntidied up\n"
    assert outcome.returncode == 0


def test_a_tree_that_ignores_sigterm_is_killed_after_the_grace(
    shell: Callable[..., ItemRequest], gone: Callable[[Path], bool]
) -> None:
    script = "trap '' TERM; sleep 600 & echo $$ $! > $EXACTHEAD_ARTIFACTS/pids; wait"
    outcome = run_item(shell(script, timeout_s=1.0))
    assert outcome.verdict.kind is Kind.TIMED_OUT
    assert outcome.signal == "SIGKILL"
    assert gone(outcome.log.parent / "artifacts" / "pids")


def test_memory_over_the_limit_ends_the_item(python: Callable[..., ItemRequest]) -> None:
    outcome = run_item(
        python("block = b'x' * (200 << 20)\nimport time\ntime.sleep(600)", memory_limit_mb=100.0)
    )
    assert outcome.verdict.kind is Kind.FAILED
    assert "its limit is 100 MiB" in outcome.verdict.reason
    assert outcome.peak_pss_mb > 100


def test_the_peak_counts_the_whole_tree(python: Callable[..., ItemRequest]) -> None:
    source = (
        "import os, time\n"
        "child = os.fork()\n"
        "block = b'x' * (60 << 20)\n"
        "time.sleep(4)\n"
        "if child: os.wait()\n"
    )
    outcome = run_item(python(source))
    assert outcome.verdict == Verdict(Kind.PASSED)
    assert 120 < outcome.peak_pss_mb < 250


def test_a_wish_to_stop_ends_everything(
    python: Callable[..., ItemRequest], gone: Callable[[Path], bool], run_folder: RunFolder
) -> None:
    pids = run_folder.item("item").artifacts / "pids"
    asked = threading.Event()

    def stop() -> bool:
        if pids.exists() and len(pids.read_text().split()) == 2:
            asked.set()
        return asked.is_set()

    source = DAEMON + (
        "import signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "daemonise(); daemonise(clear_environment=True); time.sleep(600)\n"
    )
    outcome = run_item(python(source), stop=stop)
    assert outcome.verdict.kind is Kind.INTERRUPTED
    assert gone(pids)


def test_a_wish_to_stop_before_the_start_is_heard(shell: Callable[..., ItemRequest]) -> None:
    outcome = run_item(shell("sleep 600"), stop=lambda: True)
    assert outcome.verdict.kind is Kind.INTERRUPTED


def test_an_error_while_following_ends_the_item(
    python: Callable[..., ItemRequest], gone: Callable[[Path], bool], run_folder: RunFolder
) -> None:
    def fail(text: str) -> None:
        raise OSError(text)

    source = DAEMON + "daemonise(); wait_for(1); print('now', flush=True); time.sleep(600)"
    with pytest.raises(OSError, match="now"):
        run_item(python(source), echo=fail)
    assert gone(run_folder.item("item").artifacts / "pids")


def test_a_killed_supervisor_is_a_crash_and_nothing_marked_survives(
    python: Callable[..., ItemRequest], gone: Callable[[Path], bool]
) -> None:
    source = DAEMON + "daemonise(); wait_for(1)\nos.kill(os.getppid(), 9)\ntime.sleep(600)"
    outcome = run_item(python(source))
    assert outcome.verdict.kind is Kind.CRASHED
    assert outcome.verdict.reason.startswith("its supervisor died: exit code -9")
    assert gone(outcome.log.parent / "artifacts" / "pids")


def test_the_private_folder_goes_away_read_only_folders_included(
    shell: Callable[..., ItemRequest],
) -> None:
    script = "mkdir $TMPDIR/d; touch $TMPDIR/d/f; chmod 500 $TMPDIR/d; dirname $TMPDIR"
    outcome = run_item(shell(script))
    assert outcome.verdict == Verdict(Kind.PASSED)
    assert not Path(outcome.log.read_text().strip()).exists()


def test_the_private_folder_can_be_kept(shell: Callable[..., ItemRequest]) -> None:
    outcome = run_item(shell("echo kept > $TMPDIR/file", keep_private=True))
    assert outcome.private is not None
    assert (outcome.private / "tmp" / "file").read_text() == "kept\n"
    shutil.rmtree(outcome.private)


@pytest.mark.parametrize(("code", "kept"), [(0, False), (3, True)])
def test_a_red_items_logs_outlive_its_private_folder(
    shell: Callable[..., ItemRequest], code: int, *, kept: bool
) -> None:
    script = (
        "mkdir -p $RAY_TMPDIR/ray/s1/logs && cd $RAY_TMPDIR/ray && ln -s s1 session_latest\n"
        f"echo cause > s1/logs/raylet.out; mkfifo s1/logs/pipe; exit {code}"
    )
    request = shell(script)
    assert run_item(request).notes == ()
    logs = request.folder.artifacts / "ray" / "session_latest" / "logs"
    assert logs.is_dir() == kept
    if kept:
        assert (logs / "raylet.out").read_text() == "cause\n"
        assert not (logs / "pipe").exists()


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


def test_the_environment_is_made_of_what_the_harness_sets(
    shell: Callable[..., ItemRequest], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PYTHONPATH", "PIP_INDEX_URL", "RAY_ADDRESS", "VLLM_PORT", "HF_TOKEN"):
        monkeypatch.setenv(name, "leaks")
    monkeypatch.setenv("HOME", "/home/of-the-harness")
    request = shell("env -0", environment={"ADDED": "a b\nc"}, pythonpath=(tmp_path / "src",))
    outcome = run_item(request)
    pairs = (entry.split("=", 1) for entry in outcome.log.read_text().split("\0") if entry)
    seen = dict(pairs)
    assert "leaks" not in seen.values()
    assert seen["ADDED"] == "a b\nc"
    assert seen["PYTHONPATH"] == str(tmp_path / "src")
    private = str(Path(seen["TMPDIR"]).parent)
    assert len(private) <= 40
    own = ("HOME", "XDG_CACHE_HOME", "HF_HOME", "VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR")
    assert all(seen[name].startswith(private + "/") for name in own)
    assert seen["RAY_TMPDIR"] == private
    assert (seen["OMP_NUM_THREADS"], seen["PYTHONHASHSEED"], seen["DO_NOT_TRACK"]) == (
        "1",
        "0",
        "1",
    )
    assert (seen["HF_HUB_OFFLINE"], seen["RAY_USAGE_STATS_ENABLED"]) == ("1", "0")


@pytest.mark.parametrize("name", ["EXACTHEAD_ITEM", "TMPDIR", "PYTHONPATH", "HOME"])
def test_what_isolates_an_item_cannot_be_set_by_it(
    shell: Callable[..., ItemRequest], name: str
) -> None:
    with pytest.raises(HarnessError, match=f"it sets {name}"):
        run_item(shell("true", environment={name: "x"}))


def test_relative_first_party_folders_are_refused(shell: Callable[..., ItemRequest]) -> None:
    with pytest.raises(HarnessError, match="relative: src"):
        run_item(shell("true", pythonpath=(Path("src"),)))


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


@pytest.mark.parametrize(
    "harm",
    [
        'rm -rf "$EXACTHEAD_ITEM_FOLDER"',
        'rm "$EXACTHEAD_ITEM_FOLDER/stdout.log"; mkdir "$EXACTHEAD_ITEM_FOLDER/stdout.log"',
        'ln -sf /dev/null "$EXACTHEAD_ITEM_FOLDER/stdout.log"',
    ],
)
def test_an_item_that_removes_its_own_log_takes_nothing_away(
    shell: Callable[..., ItemRequest], harm: str
) -> None:
    request = shell(f"echo before; {harm}; echo after; exit 3")

    outcome = run_item(request)

    assert outcome.verdict == Verdict(Kind.FAILED, "exit code 3; last lines: before | after")
    assert outcome.notes == ("it removed or replaced its own log, which was put back",)
    assert not request.folder.log.is_symlink()
    assert request.folder.log.read_text() == "before\nafter\n"
    assert json.loads(request.folder.request.read_text())["item_id"] == "item"


def test_closed_folders_are_removed_with_the_rest(shell: Callable[..., ItemRequest]) -> None:
    outcome = run_item(
        shell('mkdir -p $TMPDIR/a/b; touch $TMPDIR/a/b/c; chmod 0 $TMPDIR/a $TMPDIR/..; echo $TMPDIR')
    )

    assert outcome.verdict == Verdict(Kind.PASSED)
    assert outcome.notes == ()
    assert not Path(outcome.log.read_text().strip()).parent.exists()


def test_a_temporary_file_that_cannot_be_removed_is_noted(tmp_path: Path) -> None:
    # A process's folder in /proc stands for whatever the kernel does not let go.
    place = tmp_path / "private"
    place.mkdir()
    (place / "file").touch()
    kept = _remove_tree("/proc/self/fdinfo"), _remove_tree(str(place)), _remove_tree(str(place))

    assert kept[0][0].startswith("temporary files could not be removed: /proc/self/fdinfo")
    assert kept[1:] == ((), ())
