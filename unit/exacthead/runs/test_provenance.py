from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.errors import HarnessError
from exacthead.head import Head, read_head
from exacthead.runs.folder import RunFolder
from exacthead.runs.item import ItemRequest, run_item
from exacthead.runs.provenance import Provenance, WorkerUse, gather
from exacthead.runs.reproduce import check_head, reproduction, request_of

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = Head(commit="c" * 40, tree="t" * 40, dirty=False)
WORKER = WorkerUse(name="unit", key="k", flavour="cpu", interpreter="3.13.0", how="reused")


def gathered(head: Head = HEAD, **fields: Any) -> Provenance:
    return gather(head, **{"workers": [WORKER], "locks": {}, "fixtures": {}, **fields})


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit; returns its root."""
    root = tmp_path / "checkout"
    root.mkdir()
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    (root / "file").write_text("one")
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    return root


def test_what_was_used_reads_back_as_it_was_written(run_folder: RunFolder, tmp_path: Path) -> None:
    lock = tmp_path / "unit.lock"
    lock.write_bytes(b"pytest==9\n")
    written = gathered(locks={"unit": lock}, fixtures={"tiny": "d"}, images={"cpu": "sha256:1"})
    run_folder.write_provenance(written)
    assert run_folder.read_provenance() == written
    assert written.locks == {"unit": hashlib.sha256(b"pytest==9\n").hexdigest()}
    assert (written.fixtures, written.images) == ({"tiny": "d"}, {"cpu": "sha256:1"})


def test_the_machine_and_the_interpreter_are_told() -> None:
    used = gathered()
    assert used.machine.cpus == len(os.sched_getaffinity(0))
    assert used.machine.memory_mb == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    assert used.machine.kernel == f"Linux {os.uname().release}"
    assert used.interpreter == f"CPython {sys.version.split()[0]}"
    assert any(package.startswith("pydantic==") for package in used.packages)


def test_credentials_in_addresses_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.example:80")
    monkeypatch.setenv("SOME_TOKEN", "secret")
    used = gathered()
    assert used.environment["HTTPS_PROXY"] == "http://***@proxy.example:80"
    assert "secret" not in used.model_dump_json()


def test_a_missing_lock_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="make it with nox -s lock"):
        gathered(locks={"unit": tmp_path / "no.lock"})


def test_an_item_runs_again_from_its_folder(
    run_folder: RunFolder, shell: Callable[..., ItemRequest], tmp_path: Path
) -> None:
    request = shell(
        "echo $WORD; pwd; exit 3", item_id="suite 1/2", environment={"WORD": "ü $x"}, timeout_s=7.0
    )
    run_item(request)
    again = RunFolder.create(tmp_path / "again", {}, "head")
    replayed = request_of(run_folder, "suite 1/2", again.item("suite 1/2"))
    assert replayed.describe() == request.describe()
    assert run_item(replayed).returncode == 3
    assert replayed.folder.log.read_bytes() == request.folder.log.read_bytes()


def test_an_unknown_item_is_an_error_that_lists_the_known_ones(
    run_folder: RunFolder, shell: Callable[..., ItemRequest]
) -> None:
    run_item(shell("true", item_id="known/1"))
    with pytest.raises(HarnessError, match="name an item that it ran: known/1"):
        request_of(run_folder, "unknown", run_folder.item("x"))


def test_the_line_that_runs_it_again_is_fit_for_a_shell(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "runs" / "r 1")
    assert reproduction(run, "a b/c", tmp_path) == "./noxw -s reproduce -- 'runs/r 1' 'a b/c'"
    assert str(tmp_path) in reproduction(run, "x", Path("/elsewhere"))


def test_a_run_is_reproduced_at_its_own_head_only(run_folder: RunFolder, checkout: Path) -> None:
    run_folder.write_provenance(gathered(read_head(checkout)))
    assert check_head(run_folder, checkout).commit == read_head(checkout).commit
    (checkout / "file").write_text("two")
    with pytest.raises(HarnessError, match="-dirty"):
        check_head(run_folder, checkout)
    run_folder.write_provenance(gathered())
    with pytest.raises(HarnessError, match=f"git checkout {'c' * 40}"):
        check_head(run_folder, checkout)


def test_a_dirty_run_cannot_be_reproduced_and_says_so(
    run_folder: RunFolder, checkout: Path
) -> None:
    run_folder.write_provenance(gathered(Head("c" * 40, "t" * 40, dirty=True)))
    with pytest.raises(HarnessError, match="changes that were never committed"):
        check_head(run_folder, checkout)
