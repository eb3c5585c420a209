"""Manifests: every file, the same bytes for the same worker, and differences that matter."""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from exacthead.workers.manifest import Entry, compare, decode, encode, files, scan

if TYPE_CHECKING:
    from pathlib import Path

digests = st.binary(max_size=8).map(lambda data: hashlib.sha256(data).hexdigest())
entries = st.builds(
    Entry,
    path=st.text(min_size=1, max_size=12),
    size=st.integers(0, 2**40),
    mtime_ns=st.integers(0, 2**62),
    mode=st.integers(0, 0o7777),
    sha256=digests,
    target=st.just(""),
)
manifests = st.lists(entries, max_size=8, unique_by=lambda entry: entry.path)


@given(manifests)
def test_encoding_keeps_everything_and_gives_the_same_bytes_each_time(found: list[Entry]) -> None:
    assert decode(encode(found)) == found
    assert encode(found) == encode(decode(encode(found)))


@given(manifests)
def test_nothing_differs_from_itself_whatever_the_times(found: list[Entry]) -> None:
    later = [replace(entry, mtime_ns=entry.mtime_ns + 1) for entry in found]
    assert compare(found, reversed(later)) == []


@given(manifests.filter(bool), st.data())
def test_one_change_is_one_damage_at_its_path(found: list[Entry], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(found) - 1))
    entry = found[index]
    changes = {
        "changed": [replace(entry, sha256="0" * 64)],
        "mode": [replace(entry, mode=entry.mode ^ 0o100)],
        "missing": [],
    }
    kind = data.draw(st.sampled_from(sorted(changes)))
    (damage,) = compare(found, [*found[:index], *changes[kind], *found[index + 1 :]])
    assert (damage.path, damage.kind) == (entry.path, kind)


def test_scan_reads_files_links_and_links_to_nothing(tmp_path: Path) -> None:
    root = tmp_path / "worker"
    (root / "lib").mkdir(parents=True)
    (root / "lib" / "a.py").write_text("A = 1\n")
    (root / "lib" / "a.py").chmod(0o640)
    (root / "lib64").symlink_to("lib")
    (root / "python").symlink_to(root / "lib" / "a.py")
    (root / "broken").symlink_to("nowhere")
    found = {entry.path: entry for entry in scan(root)}
    digest = hashlib.sha256(b"A = 1\n").hexdigest()
    assert list(found) == ["broken", "lib/a.py", "lib64", "python"]
    assert (found["lib/a.py"].sha256, found["lib/a.py"].mode) == (digest, 0o640)
    assert (found["lib/a.py"].size, found["lib/a.py"].target) == (6, "")
    assert (found["python"].sha256, found["python"].target) == (digest, str(root / "lib" / "a.py"))
    assert (found["lib64"].sha256, found["lib64"].target) == ("", "lib")
    assert (found["broken"].sha256, found["broken"].target) == ("", "nowhere")


def test_a_change_behind_a_link_is_seen(tmp_path: Path) -> None:
    root = tmp_path / "worker"
    root.mkdir()
    (tmp_path / "cached.py").write_text("A = 1\n")
    (root / "a.py").symlink_to(tmp_path / "cached.py")
    before = scan(root)
    (tmp_path / "cached.py").write_text("A = 2\n")
    assert [damage.kind for damage in compare(before, scan(root))] == ["changed"]


def test_a_worker_that_another_process_removes_meanwhile_is_read_as_far_as_it_is(
    tmp_path: Path,
) -> None:
    for number in range(10):
        root = tmp_path / str(number)
        for folder in range(30):
            (root / str(folder)).mkdir(parents=True)
            for file in range(20):
                (root / str(folder) / f"{file}.py").write_text("x")
        with ThreadPoolExecutor(1) as threads:
            removal = threads.submit(shutil.rmtree, root)
            assert len(scan(root)) + sum(1 for _ in files(root)) <= 2 * 600
            removal.result()
        assert scan(root) == []
