"""What harness.toml declares against what is there: locks, known failures, scripts, contracts."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from exacthead.contracts.load import load as load_contract
from exacthead.contracts.possible import contradictions
from exacthead.errors import HarnessError
from exacthead.lint.finding import Finding
from exacthead.triage.check import check as check_known
from exacthead.triage.known import FILE as KNOWN
from exacthead.workers.lock import check_locks
from exacthead.workflows.generate import stale

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.lint.sources import Sources

DECLARATION = "ci/harness.toml"
_LOCKS = "ci/locks"
_CONTRACT = ".contract.toml"
_LINE = re.compile(r"^line (\d+) ")


def check_lock_files(harness: Harness) -> list[Finding]:
    """Locks that are missing, stale, edited, or not pinned as they must be."""
    findings = []
    for problem in check_locks(harness):
        name, _, said = problem.partition(": ")
        path = f"{_LOCKS}/{name}" if name.endswith(".txt") else DECLARATION
        found = said if name.endswith(".txt") else problem
        line = _LINE.match(found)
        number = int(line[1]) if line else 0
        findings.append(Finding(path, number, "locks", found, "run nox -s lock and commit it"))
    return findings


def check_known_failures(harness: Harness, today: date) -> list[Finding]:
    """Entries that have expired or name nothing."""
    path = str(KNOWN)
    findings = []
    for problem in check_known(harness.root, harness, today):
        said = problem.removeprefix(f"{path}: ")
        line = _line_of(harness.root / path, f'"{said.partition(": ")[0]}"')
        fix = "mend the fault, renew the entry or remove it"
        findings.append(Finding(path, line, "known failures", said, fix))
    return findings


def check_workflows(harness: Harness) -> list[Finding]:
    """Files of CI services that are not what harness.toml asks for."""
    fix = "run nox -s workflows and commit it"
    return [Finding(path, 0, "workflows", found, fix) for path, found in stale(harness).items()]


def check_scripts(harness: Harness, sources: Sources) -> list[Finding]:
    """Jobs without their script, scripts beside those of jobs that none of them comes to."""
    findings = [
        Finding(
            DECLARATION,
            _table(harness.root, "jobs", name),
            "scripts",
            f"job {name} has no script {job.script}",
            "restore it, mend the job or remove it",
        )
        for name, job in harness.jobs.items()
        if not (harness.root / job.script).is_file()
    ]
    started = {job.script for job in harness.jobs.values()}
    reached = reachable(sources, started)
    findings += [
        Finding(
            path,
            0,
            "scripts",
            "no job starts it, and none of their scripts names it",
            f"declare a job for it in {DECLARATION}, or remove it",
        )
        for path in beside(sources.shell, started)
        if path not in reached
    ]
    return findings


def check_contracts(harness: Harness, sources: Sources) -> list[Finding]:
    """Contracts that cannot be read or met, and those that no leg has and no other one extends."""
    findings = []
    for name, job in harness.jobs.items():
        for path in sorted({job.contract, *(job.contract_of(leg) for leg in job.legs)}):
            try:
                found_in = contradictions(load_contract(harness.root / path))
                findings += [
                    Finding(
                        path,
                        _line_of(harness.root / path, f'"{each.second}"'),
                        "contracts",
                        str(each),
                        "mend one of them",
                    )
                    for each in found_in
                ]
            except HarnessError as error:
                line = 0 if (harness.root / path).is_file() else _table(harness.root, "jobs", name)
                where = DECLARATION if line else path
                findings.append(Finding(where, line, "contracts", error.found, error.todo))
    asked = {job.contract_of(leg) for job in harness.jobs.values() for leg in job.legs}
    jobs = {job.script for job in harness.jobs.values()}
    found = beside(sources.named(_CONTRACT), jobs)
    reached = _closure(sources, asked, {path: PurePosixPath(path).name for path in found})
    findings += [
        Finding(path, 0, "contracts", "no leg has it, none extends it", "name it, or remove it")
        for path in found
        if path not in reached
    ]
    return sorted(set(findings))


def beside(paths: Iterable[str], scripts: Iterable[str]) -> list[str]:
    """Those of ``paths`` that lie in the folders of the scripts of jobs, or below."""
    folders = {PurePosixPath(script).parent for script in scripts} - {PurePosixPath()}
    return [
        path
        for path in paths
        if any(PurePosixPath(path).is_relative_to(folder) for folder in folders)
    ]


def reachable(sources: Sources, started: Iterable[str]) -> set[str]:
    """The scripts that are started, and the shell scripts that they name, and so on."""
    return _closure(sources, started, {path: PurePosixPath(path).name for path in sources.shell})


def _closure(sources: Sources, first: Iterable[str], known: dict[str, str]) -> set[str]:
    """The files that ``first`` lead to: those whose names stand in a file that is reached."""
    reached: set[str] = set()
    todo = [path for path in first if path in sources.paths]
    while todo:
        path = todo.pop()
        if path in reached:
            continue
        reached.add(path)
        text = sources.content(path).decode(errors="replace")
        todo += [other for other, name in known.items() if _names(text, name)]
    return reached


def _names(text: str, name: str) -> bool:
    """Whether a file is named outside of the comments that are lines of their own."""
    pattern = re.compile(rf"(?m)^(?!\s*#).*(?<![\w.-]){re.escape(name)}(?![\w-])")
    return pattern.search(text) is not None


def _table(root: Path, *keys: str) -> int:
    """The line of a table's header in harness.toml; 0 where it is written in another way."""
    quoted = r"\.".join(rf'"?{re.escape(key)}"?' for key in keys)
    text = (root / DECLARATION).read_text(encoding="utf-8")
    found = re.search(rf"(?m)^\[\s*{quoted}\s*[\].]", text)
    return text.count("\n", 0, found.start()) + 1 if found else 0


def _line_of(path: Path, words: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return next((number for number, line in enumerate(lines, 1) if words in line), 0)
