"""All rules, one after the other, whatever the one before has found."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.lint import declared
from exacthead.lint.characters import check_characters
from exacthead.lint.commits import check_sign_off, check_whitespace
from exacthead.lint.data_files import check_data
from exacthead.lint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exacthead.config import Harness
    from exacthead.lint.sources import Sources


def without_tools(harness: Harness, sources: Sources) -> dict[str, Callable[[], list[Finding]]]:
    """The checks that need nothing but the checkout, by name."""
    today = datetime.now(tz=UTC).date()
    checks = {
        "locks": lambda: declared.check_lock_files(harness),
        "known failures": lambda: declared.check_known_failures(harness, today),
        "workflows": lambda: declared.check_workflows(harness),
        "scripts": lambda: declared.check_scripts(harness, sources),
        "contracts": lambda: declared.check_contracts(harness, sources),
        "toml, json": lambda: check_data(sources),
        "hidden characters": lambda: check_characters(sources),
        "git diff --check": lambda: check_whitespace(sources),
    }
    if since := harness.lint.signed_off_since:
        checks["sign-off"] = lambda: check_sign_off(harness.root, since)
    return checks


def run_checks(
    checks: Mapping[str, Callable[[], list[Finding]]], say: Callable[[str], None]
) -> list[Finding]:
    """Run all checks; each says how it went, and then what it found.

    Args:
        checks: by name.
        say: called with one line for each check and each finding.
    """
    findings = []
    for name, check in checks.items():
        try:
            found = check()
        except HarnessError as error:
            found = [Finding(".", 0, name, f"{error.asked}: {error.found}", error.todo)]
        say(f"{name}: {f'FAILED, {len(found)} found' if found else 'ok'}")
        for finding in found:
            say(f"  {finding}")
        findings += found
    return findings
