"""The head layer is git's own archive, whatever git is configured with."""

from __future__ import annotations

import hashlib
import subprocess
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.images import head_layer
from exacthead.images.snapshot import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unit.exacthead.conftest import Repository


def digest(root: Path, **options: object) -> str:
    with snapshot(root, **options) as made_from:  # type: ignore[arg-type]
        return head_layer.diff_id(made_from)


def test_its_digest_is_that_of_the_archive_that_a_person_makes(
    repository: Repository, by_git: Callable[[Path], bytes], tmp_path: Path
) -> None:
    expected = by_git(repository.root)

    with snapshot(repository.root) as made_from:
        layer = head_layer.write(made_from, tmp_path / "head.tar")
        assert head_layer.diff_id(made_from) == layer.diff_id

    assert layer.diff_id == f"sha256:{hashlib.sha256(expected).hexdigest()}"
    assert (tmp_path / "head.tar").read_bytes() == expected
    assert layer.size == len(expected)


def test_a_clone_elsewhere_has_the_same_layer(repository: Repository, tmp_path: Path) -> None:
    clone = tmp_path / "a clone: with a colon"
    subprocess.run(["git", "clone", "-q", repository.root, clone], check=True)

    assert digest(clone) == digest(repository.root)


@pytest.mark.parametrize(
    "setting",
    ["core.autocrlf=true", "tar.umask=0077", "core.eol=crlf", "core.attributesFile=attributes"],
)
def test_the_settings_of_a_user_change_nothing(
    repository: Repository, tmp_path: Path, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digest(repository.root)
    name, _, value = setting.partition("=")
    (tmp_path / "attributes").write_text("*.py export-ignore\n", encoding="utf-8")
    value = str(tmp_path / value) if value == "attributes" else value
    settings = tmp_path / "gitconfig"
    subprocess.run(["git", "config", "--file", settings, name, value], check=True)
    repository.git("config", name, value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))

    assert digest(repository.root) == before


def test_what_attributes_would_leave_out_or_fill_in_is_there_as_it_is(
    repository: Repository, tmp_path: Path, names_in: Callable[[Path], dict[str, bytes]]
) -> None:
    text = "$Format:%H %D$\n"
    repository.commit(
        {
            ".gitattributes": "secret.txt export-ignore\nversion.txt export-subst\n",
            "secret.txt": "s\n",
            "version.txt": text,
        }
    )

    with snapshot(repository.root) as made_from:
        head_layer.write(made_from, tmp_path / "head.tar")

    found = names_in(tmp_path / "head.tar")
    assert found["workspace/secret.txt"] == b"s\n"
    assert found["workspace/version.txt"] == text.encode()


def test_every_change_of_content_mode_or_date_is_another_layer(repository: Repository) -> None:
    found = [digest(repository.root)]
    repository.commit({"a.py": "a = 2\n"})
    found.append(digest(repository.root))
    repository.git("update-index", "--chmod=+x", "a.py")
    repository.git("commit", "-q", "-m", "executable")
    repository.git("checkout", "-q", "--", ".")
    found.append(digest(repository.root))
    repository.git("commit", "-q", "--amend", "--no-edit", "--date=2001-01-01T00:00:00Z")
    found.append(digest(repository.root))

    assert len(set(found)) == 4


def test_names_that_differ_in_case_alone_are_both_in_it(
    repository: Repository, tmp_path: Path, names_in: Callable[[Path], dict[str, bytes]]
) -> None:
    repository.commit({"Readme": "one\n", "README": "two\n", "ä/ü.txt": "three\n"})

    with snapshot(repository.root) as made_from:
        head_layer.write(made_from, tmp_path / "head.tar")

    found = names_in(tmp_path / "head.tar")
    assert (found["workspace/Readme"], found["workspace/README"]) == (b"one\n", b"two\n")
    assert found["workspace/ä/ü.txt"] == b"three\n"


def test_a_missing_object_is_an_error_and_no_shorter_layer(
    repository: Repository, tmp_path: Path
) -> None:
    blob = repository.git("rev-parse", "HEAD:a.py")
    (repository.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()

    with snapshot(repository.root) as made_from:
        with pytest.raises(HarnessError, match=blob):
            head_layer.diff_id(made_from)
        with pytest.raises(HarnessError, match=blob):
            head_layer.write(made_from, tmp_path / "head.tar")


def test_an_older_commit_has_its_own_layer_also_when_the_checkout_is_dirty(
    repository: Repository, by_git: Callable[[Path, str], bytes]
) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.commit({"a.py": "a = 2\n"})
    repository.write({"a.py": "a = 3\n"})

    expected = by_git(repository.root, first)
    assert digest(repository.root, revision=first) == (
        f"sha256:{hashlib.sha256(expected).hexdigest()}"
    )
