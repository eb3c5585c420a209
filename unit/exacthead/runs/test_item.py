"""What an item is given, what it says, what is kept of it, and its verdict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.runs.item import ItemRequest, run_item
from exacthead.runs.supervisor import _remove_tree
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable


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
        shell(
            "mkdir -p $TMPDIR/a/b; touch $TMPDIR/a/b/c; chmod 0 $TMPDIR/a $TMPDIR/..; echo $TMPDIR"
        )
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
