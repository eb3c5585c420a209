"""The mirror that a base is made from comes from the machine's own apt sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.images.mirror import own_mirror

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that puts an ``apt-get`` with this shell script as its body alone on PATH."""

    def put(body: str) -> None:
        program = tmp_path / "apt-get"
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    return put


def test_it_is_the_first_archive_of_debian_and_not_its_security_one(
    apt: Callable[[str], None],
) -> None:
    apt(
        "echo http://m.test/debian-security/; echo https://other.test/apt/;"
        " echo http://m.test/debian/; echo http://n.test/debian/"
    )

    assert own_mirror() == "http://m.test/debian"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("echo https://other.test/apt/", "sources: https://other.test/apt"),
        ("exit 0", "sources: none"),
        ("echo broken list >&2; exit 100", "broken list"),
    ],
)
def test_without_one_the_sources_are_named_and_what_to_do(
    apt: Callable[[str], None], body: str, found: str
) -> None:
    apt(body)

    with pytest.raises(HarnessError) as failure:
        own_mirror()

    assert found in failure.value.found
    assert "`mirror` of the base" in failure.value.todo


def test_a_machine_that_is_no_debian_is_told_by_a_variable(
    apt: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    apt("echo http://archive.test/ubuntu/")

    with pytest.raises(HarnessError, match=r"http://archive\.test/ubuntu") as failure:
        own_mirror()
    assert "EXACTHEAD_DEBIAN_MIRROR" in failure.value.todo
    monkeypatch.setenv("EXACTHEAD_DEBIAN_MIRROR", "")  # as of a repository that has not set it
    with pytest.raises(HarnessError):
        own_mirror()
    monkeypatch.setenv("EXACTHEAD_DEBIAN_MIRROR", "http://m.test/debian/")
    assert own_mirror() == "http://m.test/debian"


@pytest.mark.usefixtures("apt")
def test_a_machine_without_apt_is_told_so() -> None:
    with pytest.raises(HarnessError, match="no apt-get on PATH"):
        own_mirror()
