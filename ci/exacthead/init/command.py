"""``init``: write ci/harness.toml, a noxfile and what git ignores; nothing is overwritten."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.init.project import read_project
from exacthead.runs.files import write_text
from exacthead.suites import orphans, repository_files

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable
    from pathlib import Path

    from rich.console import Console

    from exacthead.init.project import Project

_IGNORED = ("/.cache/", "/runs/", "__pycache__/")
_SHORT = 80
_ANSWER_S = 60
NOXFILE = '''\
"""The sessions: `nox -l` lists them; `nox -s unit -- --shards 3` gives one its arguments."""

import os
import sys

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["unit"]


def add(command: str, words: str) -> None:
    def call(session: nox.Session) -> None:
        session.run(
            *(sys.executable, "-m", "exacthead", command, *session.posargs),
            env={"EXACTHEAD_PARENT": str(os.getpid())},
            external=True,
            interrupt_timeout=0.5,
            terminate_timeout=10,
        )

    call.__doc__ = words
    nox.session(call, name=command)


add("unit", "Every suite, each in its own worker.")
add("lock", "Write the lock of each worker.")
add("lint", "Every static check.")
add("reproduce", "Run one item of a run again: -- RUN/ITEM.")
'''


def init(root: Path, arguments: Namespace, console: Console) -> int:
    """Make the repository at ``root`` one that the harness can test.

    Raises:
        HarnessError: it has a harness.toml, or does not say enough of itself.
    """
    declaration = root / "ci" / "harness.toml"
    if declaration.exists():
        raise HarnessError("init", f"{declaration} is there", "edit it, or remove it first")
    project = read_project(root)
    if arguments.provided:
        project = replace(project, python=_minor_of(root, arguments.provided))
    declaration.parent.mkdir(exist_ok=True)
    write_text(declaration, harness_text(project, arguments.provided))
    harness = load(root)
    if lost := orphans(harness, repository_files(harness)):
        todo = f"add them to the paths of a suite in {declaration}"
        raise HarnessError("init", f"it wrote a suite without {', '.join(lost)}", todo)
    console.out("wrote ci/harness.toml")
    console.out(_write_noxfile(root / "noxfile.py"))
    if added := _ignore(root / ".gitignore"):
        console.out(f"added to .gitignore: {', '.join(added)}")
    for unknown in project.unknown:
        console.out(f"not known: {unknown}; add them to requirements in ci/harness.toml")
    for folder in project.not_tests:
        console.out(f"not tested, as by pytest: {folder} (project.not_tests)")
    for line in _next(provided=bool(arguments.provided)):
        console.out(line)
    return 0


def _minor_of(root: Path, python: str) -> str:
    """The minor version of an interpreter, given from the root or absolute: it is what it is."""
    asked, todo = f"init --provided {python}", "name the interpreter of an environment that runs"
    command = [str(root / python), "-I", "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(asked, str(error), todo) from error
    if done.returncode:
        raise HarnessError(asked, done.stderr.strip()[-300:] or f"exit {done.returncode}", todo)
    return done.stdout.strip()


def harness_text(project: Project, provided: str | None = None) -> str:
    """The text of a harness.toml.

    Args:
        project: what is known of the repository.
        provided: an interpreter of an environment that has the requirements, instead of one that is
            built.
    """
    lines = ["# Every key is described in Exacthead's docs/harness.md.", ""]
    lines += ["[project]", f"name = {_quoted(project.name)}"]
    lines += [_list("pythonpath", [project.pythonpath])]
    lines += [_list("test_files", project.test_files)] if project.test_files else []
    lines += [_list("not_tests", project.not_tests)] if project.not_tests else []
    if project.sources:
        lines += ["", "[coverage]", _list("sources", project.sources)]
    lines += ["", "[workers.tests]", f"python = {_quoted(project.python)}"]
    lines += [f"provided = {_quoted(provided)}"] if provided else []
    if project.unknown:
        lines += [f"# Not known: {', '.join(project.unknown)}, which its build decides."]
    lines += [_list("requirements", project.requirements), 'probes = ["pytest"]']
    lines += ["", "[suites.tests]", _list("paths", project.paths), 'worker = "tests"']
    lines += [_list("arguments", project.arguments)] if project.arguments else []
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    # JSON's strings are TOML's, but for escaped surrogates and for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _list(key: str, values: Iterable[str]) -> str:
    words = [_quoted(value) for value in values]
    line = f"{key} = [{', '.join(words)}]"
    if len(line) <= _SHORT:
        return line
    return "\n".join([f"{key} = [", *(f"    {word}," for word in words), "]"])


def _write_noxfile(path: Path) -> str:
    if path.exists():
        return "kept noxfile.py; a session of it can call: python -m exacthead unit"
    write_text(path, NOXFILE)
    return "wrote noxfile.py"


def _ignore(path: Path) -> list[str]:
    """Add what runs leave behind to what git ignores; the lines that were not there."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    missing = [line for line in _IGNORED if line not in text.splitlines()]
    if missing:
        begin = f"{text}\n" if text and not text.endswith("\n") else text
        write_text(path, begin + "".join(f"{line}\n" for line in missing))
    return missing


def _next(*, provided: bool) -> list[str]:
    steps = [] if provided else ["python -m exacthead lock   # then commit ci/locks"]
    return ["next:", *(f"  {step}" for step in [*steps, "python -m exacthead unit"])]
