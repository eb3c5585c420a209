"""The static checks of the repository: formatting, rules, types, shell scripts, locks."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from exacthead.bootstrap import cache_folder
from exacthead.git import git
from exacthead.triage.check import check as check_known
from exacthead.workers.lock import check_locks
from exacthead.workflows.generate import stale

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from exacthead.config import Harness

SHFMT = ("shfmt", "--indent", "4", "--case-indent")
_SHEBANG = re.compile(rb"#!\s*(/usr)?/bin/(env\s+(-S\s+)?)?(ba|da)?sh\b")


@dataclass(frozen=True)
class Finding:
    """What one check printed when it failed."""

    check: str
    output: str


def check_declared(harness: Harness, *, say: Callable[[str], None]) -> list[Finding]:
    """Run the checks that need no tools, all of them, and return those that found something.

    Args:
        harness: the repository's declarations.
        say: called with one line a check.
    """
    checks = {
        "locks": list(map(str, check_locks(harness))),
        "workflows": stale(harness),
        "known failures": check_known(harness.root, harness, datetime.now(tz=UTC).date()),
    }
    for name, wrong in checks.items():
        say(f"{name}: {'FAILED' if wrong else 'ok'}")
    return [Finding(name, "\n".join(wrong)) for name, wrong in checks.items() if wrong]


def check_sources(
    root: Path, bin_folder: Path, *, fix: bool, say: Callable[[str], None]
) -> list[Finding]:
    """Run every tool, also after one has failed, and return those that found something.

    Args:
        root: of the checkout.
        bin_folder: the ``bin`` folder of the worker that carries the tools.
        fix: let ruff and shfmt mend what is safe before they check.
        say: called with one line a check.
    """
    scripts = shell_scripts(root)
    if fix:
        _run(root, bin_folder, ("ruff", "check", "--fix", "--quiet", "."))
        _run(root, bin_folder, ("ruff", "format", "--quiet", "."))
        if scripts:
            _run(root, bin_folder, (*SHFMT, "--write", *scripts))
    checks: dict[str, tuple[str, ...]] = {
        "ruff rules": ("ruff", "check", "--no-cache", "."),
        "ruff format": ("ruff", "format", "--no-cache", "--diff", "."),
        "types": ("mypy", "--cache-dir", str(cache_folder(root) / "mypy")),
    }
    if scripts:
        checks["shellcheck"] = ("shellcheck", "--external-sources", *scripts)
        checks["shfmt"] = (*SHFMT, "--diff", *scripts)
    findings = []
    for name, command in checks.items():
        output = _run(root, bin_folder, command)
        say(f"{name}: {'ok' if output is None else 'FAILED'}")
        if output is not None:
            findings.append(Finding(name, output))
    return findings


def shell_scripts(root: Path) -> tuple[str, ...]:
    """Tracked and new files that end in .sh or have a shell's shebang, relative to ``root``."""
    # NUL between names: git quotes odd ones otherwise.
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return tuple(sorted({name for name in listed.split("\0") if name and _is_shell(root / name)}))


def _is_shell(path: Path) -> bool:
    if not path.is_file():
        return False
    if path.suffix == ".sh":
        return True
    with path.open("rb") as file:
        first = file.readline(80)
    return _SHEBANG.match(first) is not None


def _run(root: Path, bin_folder: Path, command: tuple[str, ...]) -> str | None:
    """None when the tool is content, else all it printed, or that there is none."""
    if not (bin_folder / command[0]).exists():
        return f"no {command[0]} in {bin_folder}; add it to the requirements of the lint's worker\n"
    done = subprocess.run(
        [str(bin_folder / command[0]), *command[1:]],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode == 0 else done.stdout + done.stderr
