"""The static checks, with stand-ins for the tools that note how they were called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.lint import check_declared, check_sources, shell_scripts

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

    harness = load(small_repository.root)
    findings = check_declared(harness, say=said.append)
    findings += check_sources(harness.root, tools_folder, fix=False, say=said.append)

    assert [line.split(":")[0] for line in said] == [
        *("locks", "known failures", "ruff rules", "ruff format", "types", "shellcheck", "shfmt")
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

    findings = check_sources(small_repository.root, tools_folder, fix=False, say=str)

    assert {finding.check for finding in findings} >= {"ruff rules", "types", "shellcheck", "shfmt"}
    assert "mypy is not content\n" in [finding.output for finding in findings]


def test_a_tool_that_the_worker_lacks_is_named(
    small_repository: Repository, tools_folder: Path
) -> None:
    (tools_folder / "mypy").unlink()

    findings = check_sources(small_repository.root, tools_folder, fix=False, say=str)

    assert [finding.check for finding in findings] == ["types"]
    assert findings[0].output.startswith(f"no mypy in {tools_folder}; add it")


EXPIRED = """
[[known]]
test = "unit/sums/test_sums.py::test_sum"
reason = "it cannot add"
issue = "https://example.test/1"
owner = "the counters"
expires = 2020-01-01
"""


def test_without_a_worker_for_the_tools_known_failures_are_checked_all_the_same(
    small_repository: Repository,
) -> None:
    code, printed = small_repository.exacthead("lint")
    assert code == 0, printed
    assert "known failures: ok\n" in printed
    assert "not run, harness.toml has no [lint] worker" in printed

    small_repository.write({"ci/known_failures.toml": EXPIRED})
    code, printed = small_repository.exacthead("lint")
    assert code == 1, printed
    assert "unit/sums/test_sums.py::test_sum: expired on 2020-01-01" in printed

    code, printed = small_repository.exacthead("lint", "--fix")
    assert code == 2, printed
    assert "declare [lint] worker in harness.toml" in printed


def test_fixing_comes_before_checking(small_repository: Repository, tools_folder: Path) -> None:
    small_repository.write(
        {"ci/pyproject.toml": '[project]\nname = "exacthead"\ndependencies = []\n'}
    )

    check_sources(small_repository.root, tools_folder, fix=True, say=str)

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
