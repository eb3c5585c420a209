"""The rules that need tools, with the tools: broken files, and tools that are broken themselves."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.lint.check import run_checks
from exacthead.lint.inside.secret_scan import nobody_s
from exacthead.lint.sources import Sources
from exacthead.lint.tools import MEND, Tools

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.lint.finding import Finding
    from unit.exacthead.conftest import Repository

    Found = Callable[[str], list[Finding]]

STRICT = '[tool.ruff.lint]\nselect = ["ALL"]\n[tool.mypy]\nstrict = true\nfiles = ["broken.py"]\n'
# Put together here, so that this file holds none.
TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO" + "0pINUx"
KEY = "-----BEGIN RSA " + "PRIVATE KEY-----"
BODY = "MIIEpAIBAAKCAQEA" * 4


@pytest.mark.parametrize(
    ("check", "path", "text", "line", "words"),
    [
        ("ruff rules", "broken.py", '"""A."""\n\nimport os\n', 3, "F401 `os` imported but unused"),
        ("ruff rules", "broken.py", '"""A."""\nprint(1))\n', 2, "invalid-syntax"),
        ("ruff format", "broken.py", '"""A."""\n\nx = {  "a":1 }\n', 1, "not formatted"),
        ("types", "broken.py", 'x: int = 1\nx = "a"\n', 2, "Incompatible types in assignment"),
        ("byte-compile", "broken.py", "x = 1\nreturn 1\n", 2, "'return' outside function"),
        ("byte-compile", "broken.py", 'x = "\\d"\n', 1, "invalid escape sequence"),
        ("yaml", "a.yml", "a: 1\nb: [1\n", 3, "expected ',' or ']'"),
        ("yaml", "a.yaml", "a: {b: 1}\nc:\n  b: 1\n  b: 2\n", 4, "one mapping has 'b' more"),
        ("shellcheck", "a.sh", "#!/bin/sh\ncd $1\n", 2, "SC2086"),
        ("shfmt", "a.sh", "#!/bin/sh\nif true; then\n  ls\nfi\n", 1, "not formatted"),
        ("secrets", "a.py", f'x = 1\ntoken = "{TOKEN}"\n', 2, "GitHub Token"),
        ("secrets", "deploy.pem", f"{KEY}\n{BODY}\n", 2, "Private Key"),
    ],
)
def test_a_broken_file_is_found_at_its_line(  # noqa: PLR0917 - a case's columns
    small_repository: Repository,
    found: Found,
    check: str,
    path: str,
    text: str,
    line: int,
    words: str,
) -> None:
    small_repository.write({"pyproject.toml": STRICT, path: text})

    findings = [each for each in found(check) if words in each.found and each.path == path]

    assert [(each.path, each.line, each.rule) for each in findings] == [(path, line, check)]
    assert findings[0].fix


def test_files_that_are_well_are_no_findings(small_repository: Repository, found: Found) -> None:
    digest = "3f786850e387550fdab836ed7e6dc881de23001b"
    small_repository.write(
        {
            "pyproject.toml": STRICT,
            "broken.py": '"""A module."""\n',
            "a.yml": "base: &base {a: 1}\nother:\n  <<: *base\n  a: 2\n---\n!mine x\n",
            "digests.txt": f"sha1 {digest}\npassword = 'on request'\n",
            "meant.py": f'token = "{TOKEN}"  # pragma: allowlist secret\n',
        }
    )
    (small_repository.root / "functional/count.sh").write_text("#!/bin/sh\ntrue\n", "utf-8")

    for check in ("types", "byte-compile", "yaml", "secrets", "shellcheck", "shfmt"):
        assert found(check) == [], check


def test_a_byte_that_is_no_utf_8_hides_no_secret(
    small_repository: Repository, found: Found
) -> None:
    text = b"caf\xe9\n" + f'token = "{TOKEN}"\n'.encode()
    (small_repository.root / "latin.txt").write_bytes(text)

    assert [(each.path, each.line) for each in found("secrets")] == [("latin.txt", 2)]


@pytest.mark.parametrize(
    ("host", "secret"),
    [
        ("index.company.io/simple", True),
        ("10.1.2.3:8080", True),
        ("testing.io", True),
        ("index.test/simple", False),
        ("proxy.example:80", False),
        ("127.0.0.1/x", False),
        ("example.org", False),
        ("{served}/x", False),
        ("$HOST", False),
    ],
)
def test_a_password_for_a_host_that_is_nobody_s_is_none(host: str, *, secret: bool) -> None:
    assert nobody_s(f"url = 'https://name:word@{host}'") is not secret


def test_a_secret_is_never_told(small_repository: Repository, found: Found) -> None:
    small_repository.write({"a.py": f'token = "{TOKEN}"\n'})

    (finding,) = found("secrets")

    assert TOKEN not in str(finding)
    assert "revoke it" in finding.fix


def test_fixing_mends_what_is_safe_and_leaves_the_rest(small_repository: Repository) -> None:
    small_repository.write(
        {
            "pyproject.toml": STRICT,
            "broken.py": '"""A."""\nimport os\nx = {  "a":1 }\n\n\ndef f(a): return eval(a)\n',
            "a.sh": "#!/bin/sh\nif true; then\n  ls $1\nfi\n",
        }
    )
    harness = load(small_repository.root)
    tools = Tools(harness, Sources.of(harness), Path(sys.executable))
    before = {each.found.split()[0]: each for each in tools.ruff()}
    assert before["F401"].fix == MEND
    assert before["S307"].fix != MEND

    tools.fix()

    tools = replace(tools, sources=Sources.of(harness))
    checks = tools.checks()
    wrong = {name: checks[name]() for name in ("ruff rules", "ruff format", "shfmt", "shellcheck")}
    assert wrong["ruff format"] == wrong["shfmt"] == []
    assert {each.found.split()[0] for each in wrong["ruff rules"]} >= {"S307"}
    assert "F401" not in {each.found.split()[0] for each in wrong["ruff rules"]}
    assert [each.found.split()[0] for each in wrong["shellcheck"] if each.path == "a.sh"] == [
        "SC2086"
    ]


@pytest.fixture
def broken_tools(small_repository: Repository, tmp_path: Path) -> Tools:
    """Tools that all fail in their own way: one is missing, the others tell no findings."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ruff", "mypy", "shellcheck", "python"):
        (folder / name).write_text(f"#!/bin/sh\necho {name} has crashed\nexit 3\n", "utf-8")
        (folder / name).chmod(0o755)
    harness = load(small_repository.root)
    return Tools(harness, Sources.of(harness), folder / "python")


def test_a_tool_that_fails_without_a_finding_is_one_and_hides_no_other(broken_tools: Tools) -> None:
    said: list[str] = []
    checks = {name: check for name, check in broken_tools.checks().items() if name != "pipes"}

    findings = run_checks(checks, said.append)

    assert [each.rule for each in findings] == [*[*checks][:-1], "shfmt"]
    assert all("has crashed" in each.found for each in findings if each.rule != "shfmt")
    assert findings[-1].found.startswith("no shfmt in ")
    assert "add it to the requirements of the [lint] worker" in findings[-1].fix
    assert [line for line in said if line.endswith(": ok")] == []


EXPIRED = """
[[known]]
test = "unit/sums/test_sums.py::test_sum"
reason = "it cannot add"
issue = "https://example.test/1"
owner = "the counters"
expires = 2020-01-01
"""


def test_without_a_worker_for_the_tools_the_other_rules_are_checked_all_the_same(
    small_repository: Repository,
) -> None:
    code, printed = small_repository.exacthead("lint")
    assert code == 0, printed
    assert "known failures: ok\n" in printed
    assert "not run, harness.toml has no [lint] worker" in printed
    assert printed.endswith("lint: ok\n")

    small_repository.write({"ci/known_failures.toml": EXPIRED})
    code, printed = small_repository.exacthead("lint")
    assert code == 1, printed
    assert (
        "  ci/known_failures.toml:3: known failures: unit/sums/test_sums.py::test_sum:" in printed
    )
    assert printed.endswith("lint: 1 findings\n")

    code, printed = small_repository.exacthead("lint", "--fix")
    assert code == 2, printed
    assert "declare [lint] worker in harness.toml" in printed


def test_shell_scripts_are_found_by_ending_or_shebang(small_repository: Repository) -> None:
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
    small_repository.write(files)
    (small_repository.root / "link.sh").symlink_to("nowhere")

    shell = Sources.of(load(small_repository.root)).shell

    assert shell == ("a.sh", "bash", "env", "functional/count.sh", "ünusual name")
