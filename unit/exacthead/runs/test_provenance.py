from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.errors import HarnessError
from exacthead.head import Head
from exacthead.runs.provenance import Provenance, WorkerUse, gather

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.runs.folder import RunFolder

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
    written = gathered(
        locks={"unit": lock},
        fixtures={"tiny": "d"},
        images={"cpu": "sha256:1"},
        image_seconds={"cpu": 1.5},
    )
    run_folder.write_provenance(written)
    assert run_folder.read_provenance() == written
    assert written.locks == {"unit": hashlib.sha256(b"pytest==9\n").hexdigest()}
    assert (written.fixtures, written.images) == ({"tiny": "d"}, {"cpu": "sha256:1"})
    assert written.image_seconds == {"cpu": 1.5}


def test_the_machine_and_the_interpreter_are_told() -> None:
    used = gathered()
    assert used.machine.cpus == len(os.sched_getaffinity(0))
    assert used.machine.memory_mb == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    assert used.machine.kernel == f"Linux {os.uname().release}"
    assert used.interpreter == f"CPython {sys.version.split()[0]}"
    assert any(package.startswith("pydantic==") for package in used.packages)


def test_credentials_in_addresses_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter-2@proxy.example:80")
    monkeypatch.setenv("SOME_TOKEN", "hunter-2")
    used = gathered()
    assert used.environment["HTTPS_PROXY"] == "http://***@proxy.example:80"
    assert "hunter-2" not in used.model_dump_json()


def test_a_missing_lock_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="make it with nox -s lock"):
        gathered(locks={"unit": tmp_path / "no.lock"})
