"""Provided workers: an environment that the user names instead of having one built.

A container or a machine without an index has its own Python. It is never changed: it is asked what
it holds, that is compared with the worker's declaration, and its package list goes into the
provenance.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from exacthead.environ import clean_environment
from exacthead.errors import HarnessError
from exacthead.workers.spec import Interpreter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Writes one JSON object a line, so that a crash shows how far it came.
_QUESTION = """
import importlib, json, platform, sys, sysconfig
from importlib import metadata

with open(sys.argv[1], "w", encoding="utf-8", buffering=1) as answer:
    def say(**facts):
        print(json.dumps(facts), file=answer)

    say(
        implementation=sys.implementation.name,
        version=platform.python_version(),
        abi=sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag,
        platform=sysconfig.get_platform(),
        packages=sorted({(d.metadata["Name"], d.version) for d in metadata.distributions()}),
    )
    for name in sys.argv[2:]:
        say(importing=name)
        try:
            importlib.import_module(name)
        except BaseException as error:
            say(failed=f"{type(error).__name__}: {error}")
        else:
            say(failed=None)
"""
_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Declaration:
    """What a provided worker must hold.

    Attributes:
        name: the worker.
        minor: the Python minor version.
        patch_floor: the lowest full version, or None; ``below_floor_allowed`` turns it into a note.
        requirements: version ranges, as in a requirements file; extras are not looked at.
        probes: modules that must import.
    """

    name: str
    minor: str
    patch_floor: str | None
    below_floor_allowed: bool
    requirements: tuple[str, ...]
    probes: tuple[str, ...]


@dataclass(frozen=True)
class Provided:
    """What a provided worker is: its interpreter (``path`` as the user named it), its packages.

    ``packages`` are ``name==version``, normalised and sorted.
    """

    interpreter: Interpreter
    packages: tuple[str, ...]
    notes: tuple[str, ...] = ()


def examine_provided(
    python: Path, declared: Declaration, environ: Mapping[str, str], timeout_s: float = _TIMEOUT_S
) -> Provided:
    """Run the interpreter ``python`` and check it against the declaration.

    Args:
        python: the interpreter of the environment.
        declared: what it must hold.
        environ: the caller's environment, of which only a clean part is used.
        timeout_s: seconds for the start and all probes together.

    Raises:
        HarnessError: it does not run, or with every mismatch at once.
    """
    asked = f"the provided worker {declared.name!r}, {python}"
    facts, said, end = _ask(python, declared.probes, environ, timeout_s)
    if facts is None:
        raise HarnessError(asked, end, "name the interpreter of an environment that runs")
    installed: dict[str, str] = {
        canonicalize_name(name): version for name, version in facts["packages"]
    }
    version = Version(facts["version"])
    problems, notes = _version_problems(declared, version)
    problems += _requirement_problems(declared.requirements, installed, facts)
    problems += _probe_problems(declared.probes, said, end)
    if problems:
        raise HarnessError(
            asked,
            "\n    " + "\n    ".join(problems),
            "change the environment, or the worker's declaration in harness.toml",
        )
    interpreter = Interpreter(
        path=python.absolute(),
        implementation=facts["implementation"],
        version=facts["version"],
        abi=facts["abi"],
        platform=facts["platform"],
    )
    packages = tuple(f"{name}=={version}" for name, version in sorted(installed.items()))
    return Provided(interpreter, packages, notes)


def _ask(
    python: Path, probes: Sequence[str], environ: Mapping[str, str], timeout_s: float
) -> tuple[dict[str, Any] | None, list[dict[str, Any]], str]:
    """The facts (None when it said nothing), what it said of each probe, and how it ended."""
    with tempfile.TemporaryDirectory(prefix="exacthead-provided-") as folder:
        answer = Path(folder) / "answer.jsonl"
        try:
            done = subprocess.run(
                [python, "-I", "-c", _QUESTION, str(answer), *probes],
                env=clean_environment(environ),
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired:
            end = f"it did not end within {timeout_s:g} s"
        except OSError as error:
            return None, [], f"it does not run: {error.strerror}"
        else:
            last = (done.stderr.strip().splitlines() or [""])[-1]
            end = f"exit code {done.returncode}: {last}" if done.returncode else ""
        text = answer.read_text(encoding="utf-8") if answer.exists() else ""
    # The last line may be torn; only what ends with a line end is one.
    lines = [json.loads(line) for line in text.split("\n")[:-1]]
    return (
        (lines[0] if lines else None),
        lines[1:],
        end or f"it said {'no more' if lines else 'nothing'}",
    )


def _version_problems(declared: Declaration, version: Version) -> tuple[list[str], tuple[str, ...]]:
    problems = []
    notes: tuple[str, ...] = ()
    if f"{version.major}.{version.minor}" != declared.minor:
        problems.append(f"Python {version}, declared is {declared.minor}")
    elif declared.patch_floor and version < Version(declared.patch_floor):
        words = f"runs on {version}, below its patch floor {declared.patch_floor}"
        if declared.below_floor_allowed:
            notes = (words,)
        else:
            problems.append(words)
    return problems, notes


def _requirement_problems(
    requirements: Iterable[str], installed: Mapping[str, str], facts: Mapping[str, Any]
) -> list[str]:
    major, minor = facts["version"].split(".")[:2]
    environment = {
        "python_version": f"{major}.{minor}",
        "python_full_version": facts["version"],
        "extra": "",
    }
    problems = []
    for line in requirements:
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate(environment):
            continue
        found = installed.get(canonicalize_name(requirement.name))
        if found is None:
            problems.append(f"{requirement.name} is not installed, declared is {line!r}")
        elif not requirement.specifier.contains(found, prereleases=True):
            problems.append(f"{requirement.name} {found}, declared is {line!r}")
    return problems


def _probe_problems(probes: Sequence[str], said: list[dict[str, Any]], end: str) -> list[str]:
    """Every probe that did not import, up to the first of which nobody knows."""
    # What it said is, for each probe in turn, that it was asked and what came of it.
    answers = said[1::2]
    problems = [
        f"probe {name}: {answer['failed']}"
        for name, answer in zip(probes, answers, strict=False)
        if answer["failed"]
    ]
    if len(answers) < len(probes):
        how = "it died there" if len(said) > 2 * len(answers) else "it was never asked"
        problems.append(f"probe {probes[len(answers)]}: {how} ({end})")
    return problems
