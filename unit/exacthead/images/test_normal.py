"""The normal form: two builds of one thing are the same bytes, and nothing that counts is lost."""

from __future__ import annotations

import io
import py_compile
import struct
import tarfile
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.images.layer import EPOCH
from exacthead.images.normal import normalise

if TYPE_CHECKING:
    from pathlib import Path


class Built:
    """A layer as an engine writes it."""

    def __init__(self, time: int) -> None:
        self.time = time
        self.data = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.data, mode="w")  # noqa: SIM115

    def add(self, name: str, content: bytes = b"", **facts: object) -> Built:
        member = tarfile.TarInfo(name)
        member.mtime, member.size, member.mode = self.time, len(content), 0o644
        member.uname = f"user{self.time}"
        for key, value in facts.items():
            setattr(member, key, value)
        self.tar.addfile(member, io.BytesIO(content))
        return self

    def folder(self, name: str) -> Built:
        return self.add(name, type=tarfile.DIRTYPE, mode=0o755)

    def link(self, name: str, target: str) -> Built:
        return self.add(name, type=tarfile.LNKTYPE, linkname=target)

    def normal(self, target: Path) -> dict[str, tarfile.TarInfo]:
        self.tar.close()
        self.data.seek(0)
        assert normalise(self.data, target, "test") is not None
        with tarfile.open(target) as tar:
            return {member.name: member for member in tar}


def test_times_users_and_order_leave_no_trace(tmp_path: Path) -> None:
    one = Built(1).folder("opt").add("opt/b", b"2").add("opt/a", b"1")
    two = Built(2).add("opt/a", b"1").folder("opt").add("./opt/b", b"2")
    one.normal(tmp_path / "1")
    two.normal(tmp_path / "2")

    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_modes_owners_links_devices_and_capabilities_stay(tmp_path: Path) -> None:
    capability = {"SCHILY.xattr.security.capability": "\x01"}
    found = (
        Built(1)
        .add("bin/su", b"x", mode=0o4755, uid=0, gid=42)
        .add("bin/ping", b"p", pax_headers=capability)
        .add("bin/link", type=tarfile.SYMTYPE, linkname="su")
        .add("dir", type=tarfile.DIRTYPE, mode=0o1777)
        .normal(tmp_path / "1")
    )

    assert (found["bin/su"].mode, found["bin/su"].gid) == (0o4755, 42)
    assert found["bin/link"].linkname == "su"
    assert found["dir"].mode == 0o1777
    assert found["bin/ping"].pax_headers == capability
    assert {member.mtime for member in found.values()} == {EPOCH}


def test_of_the_names_of_one_file_the_first_is_the_file_whichever_was_written_first(
    tmp_path: Path,
) -> None:
    one = Built(1).add("b", b"same").link("a", "b").link("c", "b").normal(tmp_path / "1")
    Built(2).add("c", b"same").link("b", "c").link("a", "c").normal(tmp_path / "2")

    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert (one["a"].type, one["a"].size) == (tarfile.REGTYPE, 4)
    assert [(one[name].type, one[name].linkname) for name in "bc"] == [(tarfile.LNKTYPE, "a")] * 2
    assert "same" not in (tmp_path / "1").read_text(errors="replace").partition("same")[2]


def test_a_file_stays_when_the_name_that_it_was_written_by_goes(tmp_path: Path) -> None:
    built = Built(1).add("opt/exacthead/cache/x", b"content")
    found = built.link("opt/exacthead/workers/k/x", "opt/exacthead/cache/x").normal(tmp_path / "1")

    assert list(found) == ["opt/exacthead/workers/k/x"]
    assert found["opt/exacthead/workers/k/x"].size == len(b"content")


@pytest.mark.parametrize(
    "name",
    [
        *("tmp/x", "var/log/dpkg.log", "var/cache/ldconfig/aux-cache", "root/.cache/uv/x"),
        *("run/secrets/certificates", "etc/resolv.conf", "opt/exacthead/records/k.json"),
        *("var/lib/apt/lists/x", "var/lib/dpkg/status-old", "etc/passwd-"),
        "opt/exacthead/workers/k/lib/python3.13/site-packages/a-1.dist-info/uv_cache.json",
    ],
)
def test_what_belongs_to_one_build_goes(tmp_path: Path, name: str) -> None:
    assert list(Built(1).add(name, b"x").add("kept", b"y").normal(tmp_path / "1")) == ["kept"]


@pytest.mark.parametrize("name", ["var/lib/dpkg/status", "etc/passwd", "usr/lib/tmp/x", "a/.wh.b"])
def test_what_counts_stays(tmp_path: Path, name: str) -> None:
    assert list(Built(1).add(name, b"x").normal(tmp_path / "1")) == [name]


def test_byte_code_still_fits_its_source(tmp_path: Path) -> None:
    source = tmp_path / "m.py"
    source.write_text("x = 1\n", encoding="utf-8")
    timed = tmp_path / "timed.pyc"
    hashed = tmp_path / "hashed.pyc"
    py_compile.compile(
        str(source), str(timed), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP
    )
    py_compile.compile(
        str(source), str(hashed), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
    )
    built = Built(1).add("t.pyc", timed.read_bytes()).add("h.pyc", hashed.read_bytes())
    built.add("short.pyc", b"123")
    built.normal(tmp_path / "1")

    with tarfile.open(tmp_path / "1") as tar:
        code = {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    assert struct.unpack_from("<II", code["t.pyc"], 8) == (EPOCH, 6)
    assert code["t.pyc"][16:] == timed.read_bytes()[16:]
    assert code["h.pyc"] == hashed.read_bytes()
    assert code["short.pyc"] == b"123"


def test_a_layer_in_which_nothing_is_left_is_none(tmp_path: Path) -> None:
    built = Built(1).folder("tmp").add("tmp/x", b"1")
    built.tar.close()
    built.data.seek(0)

    assert normalise(built.data, tmp_path / "1", "test") is None


def test_a_layer_that_broke_off_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    built = Built(1).add("a", b"x" * 5000)
    built.tar.close()

    with pytest.raises(HarnessError, match="normal form"):
        normalise(io.BytesIO(built.data.getvalue()[:2000]), tmp_path / "1", "test")
    assert not (tmp_path / "1").exists()


def test_a_layer_of_folders_is_kept_unless_they_are_those_around_what_went(tmp_path: Path) -> None:
    made = Built(1).folder("opt").folder("opt/models").normal(tmp_path / "1")
    assert made.keys() == {"opt", "opt/models"}

    touched = Built(1).folder("etc").folder("var").folder("var/log").folder("tmp")
    touched.add("etc/resolv.conf").add("tmp/x", b"1").tar.close()
    touched.data.seek(0)
    assert normalise(touched.data, tmp_path / "2", "test") is None


@pytest.mark.parametrize("encoding", ["iso8859-1", "ascii", "utf-8"])
def test_a_name_is_bytes_whatever_the_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    # As an old-style header has it, without a record that says the name in UTF-8.
    name = "opt/ü\udcff"
    built = Built(1)
    built.tar = tarfile.open(  # noqa: SIM115
        fileobj=built.data, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8"
    )
    built.add(name, b"1").tar.close()
    built.data.seek(0)

    monkeypatch.setattr(tarfile.TarFile, "encoding", encoding)
    assert normalise(built.data, tmp_path / "1", "test") is not None

    with tarfile.open(tmp_path / "1", encoding="utf-8") as tar:
        assert tar.getnames() == [name]
