"""The static checks, with stand-ins for the tools that note how they were called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.lint import lint, shell_scripts

if TYPE_CHECKING:
    from pathlib import Path

    from unit.exacthead.conftest import Repository

TOOLS = ("ruff", "mypy", "shellcheck", "shfmt")


@pytest.fixture
def tools_folder(tmp_path: Path) -> Path:
    """Tools that are content unless a file ``NAME.bad`` beside them says otherwise."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        (folder / name).write_text(
            f'#!/bin/sh\necho "{name} $*" >>"{folder}/calls"\n'
            f'[ ! -e "{folder}/{name}.bad" ] || {{ echo "{name} is not content"; exit 1; }}\n',
            encoding="utf-8",
        )
        (folder / name).chmod(0o755)
    return folder


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text(encoding="utf-8").splitlines()


def test_every_check_runs_and_says_so(small_repository: Repository, tools_folder: Path) -> None:
    said: list[str] = []
    small_repository.write(
        {"ci/pyproject.toml": '[project]\nname = "exacthead"\ndependencies = []\n'}
    )

    findings = lint(load(small_repository.root), tools_folder, fix=False, say=said.append)

    assert [line.split(":")[0] for line in said] == [
        *("ruff rules", "ruff format", "types", "shellcheck", "shfmt", "locks", "known failures")
    ]
    # The one thing wrong here: nobody has locked the harness.
    assert [finding.check for finding in findings] == ["locks"]
    assert "shellcheck --external-sources functional/count.sh" in calls(tools_folder)
    assert not [call for call in calls(tools_folder) if "--fix" in call or "--write" in call]


def test_one_failure_hides_no_other(small_repository: Repository, tools_folder: Path) -> None:
    for name in TOOLS:
        (tools_folder / f"{name}.bad").touch()
    small_repository.write(
        {"ci/pyproject.toml": '[project]\nname = "exacthead"\ndependencies = []\n'}
    )

    findings = lint(load(small_repository.root), tools_folder, fix=False, say=str)

    assert {finding.check for finding in findings} >= {"ruff rules", "types", "shellcheck", "shfmt"}
    assert "mypy is not content\n" in [finding.output for finding in findings]


def test_fixing_comes_before_checking(small_repository: Repository, tools_folder: Path) -> None:
    small_repository.write(
        {"ci/pyproject.toml": '[project]\nname = "exacthead"\ndependencies = []\n'}
    )

    lint(load(small_repository.root), tools_folder, fix=True, say=str)

    first = calls(tools_folder)[:3]
    assert [call.split()[0] for call in first] == ["ruff", "ruff", "shfmt"]
    assert "--fix" in first[0]
    assert "--write functional/count.sh" in first[2]


def test_shell_scripts_are_found_by_ending_or_shebang(empty_repository: Repository) -> None:
    files = {
        "a.sh": "true\n",
        "ünusual name": "#!/bin/sh\n",
        "env": "#!/usr/bin/env -S bash -eu\n",
        "bash": "#! /bin/bash\n",
        "python": "#!/usr/bin/env python3\n",
        "fish": "#!/usr/bin/fish\n",
        "text": "no script\n",
        "runs/ignored.sh": "true\n",
    }
    empty_repository.write(files)
    (empty_repository.root / "link.sh").symlink_to("nowhere")

    assert shell_scripts(empty_repository.root) == ("a.sh", "bash", "env", "ünusual name")
