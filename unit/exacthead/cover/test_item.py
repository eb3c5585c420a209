from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from exacthead.cover.item import combine_item, read_item
from exacthead.cover.settings import Settings, prepare
from exacthead.errors import HarnessError
from unit.exacthead.cover.conftest import ONE, THREE, TWO, WORK
from unit.exacthead.cover.measuring import PYTHON, Item, make_checkout, write

monitoring = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="needs sys.monitoring, which came with Python 3.12"
)

# A child of each kind calls ``two``, most of them come to no good end.
ENDS = {
    "in good order": "work.two()",
    "killed": "work.two(); os.kill(os.getpid(), signal.SIGKILL)",
    "segmentation fault": "work.two(); os.kill(os.getpid(), signal.SIGSEGV)",
    "terminated": "work.two(); os.kill(os.getpid(), signal.SIGTERM)",
    "os._exit": "work.two(); os._exit(0)",
    "replaced": "work.two(); os.execv('/bin/true', ['true'])",
    "a fork that is killed": (
        "if not os.fork(): work.two(); os.kill(os.getpid(), signal.SIGKILL)\nos.wait()"
    ),
    "a fork of a fork": (
        "if not os.fork():\n"
        "    if not os.fork(): work.two(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "    os.wait(); os._exit(0)\n"
        "os.wait()"
    ),
    "all descriptors closed": "os.closerange(3, 999); work.two(); os.kill(os.getpid(), 9)",
}
IMPORTS = "import os, signal, work\n"


@monitoring
@pytest.mark.parametrize("end", ENDS)
def test_what_a_process_ran_counts_however_it_ends(item: Item, end: str) -> None:
    start = f"subprocess.run([sys.executable, '-c', {IMPORTS + ENDS[end]!r}])"
    assert item.run("-c", f"import subprocess, sys, work; work.one(); {start}").returncode == 0
    found = item.combine()
    assert found.reasons == ()
    assert found.how == "lines by sys.monitoring"
    assert item.lines() == {"work.py": {1, 5, 9, ONE, TWO}}
    assert not item.parts.exists()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_is_counted(item: Item, method: str) -> None:
    write(
        item.root / "start.py",
        "import multiprocessing, work\n"
        "if __name__ == '__main__':\n"
        f"    process = multiprocessing.get_context({method!r}).Process(target=work.three)\n"
        "    process.start()\n"
        "    process.join()\n",
    )
    assert item.run("start.py").returncode == 0
    assert item.combine().reasons == ()
    assert item.lines()["work.py"] == {1, 5, 9, THREE}


def test_a_process_without_a_journal_that_is_killed_is_lost_and_named(item: Item) -> None:
    kill = "import os; os.kill(os.getpid(), 9)"
    item.run(
        "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', {kill!r}])"
    )
    found = item.combine()
    assert len(found.reasons) == 1
    assert "(-c): it was ended before it saved what it had measured" in found.reasons[0]
    assert found == read_item(item.folder)
    assert item.parts.exists()


def test_a_process_that_has_another_pythonpath_is_measured(item: Item) -> None:
    done = item.run("-c", "import work; work.one()", PYTHONPATH=str(item.root))
    assert (done.returncode, done.stderr) == (0, "")
    assert item.combine().reasons == ()
    assert ONE in item.lines()["work.py"]


@pytest.mark.parametrize(
    ("end", "lost"),
    [
        ("os._exit(0)", False),
        ("os.kill(os.getpid(), signal.SIGTERM)", False),
        ("os.kill(os.getpid(), signal.SIGKILL)", True),
    ],
)
def test_the_c_tracer_saves_where_python_still_runs(
    tmp_path: Path, checkout: Path, end: str, lost: bool
) -> None:
    item = Item(checkout, tmp_path / "item", python="3.11.4")
    item.run("-c", f"{IMPORTS}work.two(); {end}")
    found = item.combine()
    assert bool(found.reasons) == lost
    assert found.how == "lines by the C tracer, since Python 3.11 has no sys.monitoring"
    assert (TWO in item.lines().get("work.py", ())) != lost


@monitoring
def test_a_core_that_was_not_asked_for_is_said(item: Item) -> None:
    item.run("-c", "import work")
    item.run("-c", "import work; work.one()", COVERAGE_CORE="ctrace")
    found = item.combine()
    assert found.how.startswith(
        "lines by sys.monitoring, but 1 of 2 processes by the C tracer: process "
    )
    assert item.lines()["work.py"] == {1, 5, 9, ONE}


@monitoring
def test_a_program_keeps_its_own_reaction_to_sigterm(item: Item) -> None:
    done = item.run("-c", "import signal; print(signal.getsignal(signal.SIGTERM))")
    assert done.stdout.strip() == str(signal.SIG_DFL)


@monitoring
def test_a_measured_program_has_no_further_descriptor_open(item: Item) -> None:
    script = "import os; print(len(os.listdir('/proc/self/fd')))"
    counts = [item.run(*isolated, "-c", script).stdout for isolated in ((), ("-S",))]
    extra = sys.version_info < (3, 13)  # older maps keep the file that they were made of
    assert int(counts[0]) == int(counts[1]) + extra


def test_a_hidden_sitecustomize_still_runs(tmp_path: Path, item: Item) -> None:
    write(tmp_path / "theirs" / "sitecustomize.py", "print('theirs')\n")
    path = f"{item.prepared.pythonpath[0]}:{tmp_path / 'theirs'}:{item.root}"
    done = item.run(
        "-c", "import sitecustomize, work; print(sitecustomize.__file__)", PYTHONPATH=path
    )
    assert done.stdout.split() == ["theirs", str(tmp_path / "theirs" / "sitecustomize.py")]
    assert item.combine().reasons == ()


def test_nothing_measured_is_not_complete(item: Item) -> None:
    item.run("-S", "-c", "import work")
    (reason,) = item.combine().reasons
    assert reason == "no process measured anything; does its worker hold coverage 7.14 or newer?"


def test_an_item_that_did_not_end_is_not_complete(item: Item) -> None:
    item.run("-c", "import work")
    assert item.combine("timed_out: after 60 s").reasons == (
        "it did not come to its end: timed_out: after 60 s",
    )


@pytest.mark.parametrize("damage", ["truncated", "emptied", "overwritten"])
def test_a_damaged_data_file_is_named(item: Item, damage: str) -> None:
    item.run("-c", "import work")
    (path,) = item.data_files
    content = path.read_bytes()
    changed = {"truncated": content[: len(content) // 2], "emptied": b"", "overwritten": b"x" * 99}
    path.write_bytes(changed[damage])
    (reason,) = item.combine().reasons
    assert "(-c): its data file " in reason


def test_a_data_file_that_is_gone_is_lost_without_a_journal(item: Item) -> None:
    item.run("-I", "-c", "import sys; sys.path.insert(0, '.'); import work")
    (path,) = item.data_files
    path.unlink()
    (reason,) = item.combine().reasons
    assert "it was ended before it saved" in reason


def test_a_checkout_with_a_strange_path_is_measured(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "a [b] $HOME 'c' ü*", {"work.py": WORK})
    item = Item(root, tmp_path / "item [1] $PATH")
    item.run("-c", "import work; work.one()")
    assert item.combine().reasons == ()
    assert item.lines() == {"work.py": {1, 5, 9, ONE}}


def test_only_sources_that_are_not_omitted_count(tmp_path: Path) -> None:
    files = {
        "lib/kept.py": "x = 1\n",
        "lib/made/gone.py": "x = 1\n",
        "lib/site-packages/third.py": "x = 1\n",
        "other.py": "x = 1\n",
    }
    root = make_checkout(tmp_path / "checkout", files)
    settings = Settings(sources=("lib",), omit=("lib/made/*",))
    item = Item(root, tmp_path / "item", settings)
    item.run(
        "-c",
        "import other, runpy; [runpy.run_path(f'lib/{n}.py') for n in "
        "('kept', 'made/gone', 'site-packages/third')]",
    )
    item.combine()
    assert item.lines() == {"lib/kept.py": {1}}


def test_inside_a_container_other_paths_are_told(tmp_path: Path, checkout: Path) -> None:
    folder = tmp_path / "item"
    folder.mkdir()
    seen = (Path("/item"), Path("/repo"))
    prepared = prepare(folder, checkout, Settings(), python="3.13.0", seen_as=seen)
    assert prepared.environment == {"COVERAGE_PROCESS_START": "/item/coverage.parts/coverage.toml"}
    assert prepared.pythonpath == (Path("/item/coverage.parts/inside"),)
    record = json.loads((folder / "coverage.parts" / "record.json").read_text(encoding="utf-8"))
    assert record["roots"] == ["/repo"]


def test_preparing_again_forgets_what_was_measured_before(item: Item) -> None:
    item.run("-c", "import work; work.one()")
    item.combine("killed")
    prepare(item.folder, item.root, Settings(), python=PYTHON)
    assert [path.name for path in item.folder.iterdir()] == ["coverage.parts"]
    item.run("-c", "import work; work.two()")
    assert item.combine().reasons == ()
    assert item.lines() == {"work.py": {1, 5, 9, TWO}}


def test_a_version_that_is_none_is_refused(tmp_path: Path, checkout: Path) -> None:
    with pytest.raises(HarnessError, match="'three'"):
        prepare(tmp_path, checkout, Settings(), python="three")


@pytest.mark.parametrize("path", ["/etc", "../other"])
def test_sources_outside_the_checkout_are_refused(path: str) -> None:
    with pytest.raises(HarnessError, match="not within the checkout"):
        Settings(sources=(path,))


def test_an_item_that_was_never_prepared_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="was never prepared"):
        combine_item(tmp_path)
