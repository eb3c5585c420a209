"""Distributions: a file may be of several; it is altered where it is as none of them recorded."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from exacthead.workers.distributions import altered, disputed, owners
from exacthead.workers.manifest import scan

if TYPE_CHECKING:
    from pathlib import Path

SITE = "lib/python3.13/site-packages"


def install(root: Path, name: str, recorded: dict[str, str]) -> None:
    """Write a RECORD; a file whose content is empty has no digest in it."""
    folder = root / SITE / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    lines = []
    for path, content in recorded.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).decode()
        lines.append(f"{path},{'sha256=' + digest.rstrip('=') if content else ''},")
    (folder / "RECORD").write_text("".join(f"{line}\n" for line in lines))


def write(root: Path, path: str, content: str) -> None:
    (root / SITE / path).write_text(content)


def test_a_file_that_is_as_any_of_its_owners_recorded_it_is_not_altered(tmp_path: Path) -> None:
    install(tmp_path, "alpha", {"shared.py": "1", "alpha.py": "1"})
    install(tmp_path, "Beta_Two", {"shared.py": "2"})
    for content in ("1", "2"):
        write(tmp_path, "shared.py", content)
        assert altered(tmp_path, scan(tmp_path)) == {}
    assert set(owners(tmp_path)[f"{SITE}/shared.py"]) == {"alpha", "beta-two"}
    assert set(owners(tmp_path)[f"{SITE}/alpha.py"]) == {"alpha"}


def test_a_file_that_is_as_none_recorded_it_is_named_by_each_owner(tmp_path: Path) -> None:
    install(tmp_path, "alpha", {"shared.py": "1", "alpha.py": "1"})
    install(tmp_path, "beta", {"shared.py": "2", "alone.py": ""})
    write(tmp_path, "shared.py", "3")
    write(tmp_path, "alpha.py", "1")
    write(tmp_path, "alone.py", "whatever: its digest is in no RECORD")
    shared = f"{SITE}/shared.py"
    assert altered(tmp_path, scan(tmp_path)) == {"alpha": [shared], "beta": [shared]}


def test_an_owner_without_a_digest_excuses_nothing(tmp_path: Path) -> None:
    install(tmp_path, "alpha", {"shared.py": "1"})
    install(tmp_path, "beta", {"shared.py": ""})
    write(tmp_path, "shared.py", "3")
    assert set(altered(tmp_path, scan(tmp_path))) == {"alpha", "beta"}


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def test_a_disputed_file_is_for_the_last_distribution_by_name(tmp_path: Path) -> None:
    install(tmp_path, "gamma", {"two.py": "3", "agreed.py": "1"})
    install(tmp_path, "Beta_Two", {"one.py": "2", "two.py": "2", "agreed.py": "1"})
    install(tmp_path, "alpha", {"one.py": "1", "agreed.py": "1", "alone.py": "1"})
    # In the order in which they are to be installed anew: gamma's comes back after beta-two's.
    assert [*disputed(tmp_path).items()] == [
        ("beta-two", {f"{SITE}/one.py": digest("2")}),
        ("gamma", {f"{SITE}/two.py": digest("3")}),
    ]


def test_who_recorded_no_digest_disputes_nothing(tmp_path: Path) -> None:
    install(tmp_path, "alpha", {"one.py": "1"})
    install(tmp_path, "beta", {"one.py": ""})
    assert disputed(tmp_path) == {}
