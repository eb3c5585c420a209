"""Pipes in the scripts of jobs: without ``pipefail`` the failure of all but the last is hidden."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError
from exacthead.lint.declared import beside
from exacthead.lint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.lint.sources import Sources

RULE = "pipes"
_SOURCING = frozenset({"source", "."})
_OPTION = "pipefail"


def check_pipes(harness: Harness, sources: Sources, shfmt: Path) -> list[Finding]:
    """Pipelines that run where nothing has set ``pipefail`` before, in the scripts of jobs.

    What a sourced script sets counts from the line that sources it; the body of a function runs
    with what is set at the end.

    Args:
        harness: the declarations.
        sources: the checkout.
        shfmt: the program, which parses shell.

    Raises:
        HarnessError: a script cannot be parsed.
    """
    started = sorted({job.script for job in harness.jobs.values()} & set(sources.paths))
    sourced: set[str] = set()
    findings: set[Finding] = set()
    for path in dict.fromkeys([*started, *beside(sources.shell, started)]):
        if path in started or path not in sourced:
            script = _Script(sources, shfmt, path)
            script.follow()
            sourced |= script.seen
            findings |= set(script.findings)
    return sorted(findings)


@dataclass
class _Script:
    """One process of bash: its script and what that sources, in the order of its commands."""

    sources: Sources
    shfmt: Path
    path: str
    safe: bool = False
    seen: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    _later: list[tuple[str, Any]] = field(default_factory=list)

    def follow(self) -> None:
        self._file(self.path)
        for path, body in self._later:  # grows while functions declare functions
            self._commands(path, body)

    def _file(self, path: str) -> None:
        if path not in self.seen:
            self.seen.add(path)
            self._commands(path, _parsed(self.sources, self.shfmt, path))

    def _commands(self, path: str, tree: Any) -> None:
        for node in _nodes(tree):
            kind = node["Type"]
            if kind == "FuncDecl":
                self._later.append((path, node["Body"]))
            elif kind == "BinaryCmd" and self._pipes(path, node):
                self._note(path, node["OpPos"]["Line"])
            elif kind == "CallExpr":
                self._call([_literal(word) for word in node.get("Args", [])])

    def _pipes(self, path: str, node: Any) -> bool:
        at = node["OpPos"]["Offset"]
        operator = self.sources.content(path)[at : at + 2]
        return operator[:1] == b"|" and operator != b"||"

    def _note(self, path: str, line: int) -> None:
        if not self.safe:
            fix = "set -o pipefail before it"
            found = "the failure of a command before the last of this pipe is hidden"
            self.findings.append(Finding(path, line, RULE, found, fix))

    def _call(self, words: list[str]) -> None:
        match words:
            case ["set", *options] if _OPTION in options:
                self.safe = options[options.index(_OPTION) - 1].startswith("-")
            case [command, name, *_] if command in _SOURCING:
                for path in (name, str(PurePosixPath(self.path).parent / name)):
                    if path in self.sources.paths:
                        self._file(path)
                        break


def _parsed(sources: Sources, shfmt: Path, path: str) -> Any:
    done = subprocess.run(
        [str(shfmt), "--language-dialect", "bash", "--to-json"],
        input=sources.content(path),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise HarnessError(f"the commands of {path}", said, "mend its syntax")
    return json.loads(done.stdout)


def _nodes(tree: Any) -> Iterator[Any]:
    """The typed nodes of a syntax tree in the order of the text; not those within functions."""
    if isinstance(tree, list):
        for each in tree:
            yield from _nodes(each)
    elif isinstance(tree, dict):
        if "Type" in tree:
            yield tree
            if tree["Type"] == "FuncDecl":
                return
        for each in tree.values():
            yield from _nodes(each)


def _literal(word: Any) -> str:
    """A word that is written out, quoted or not; empty when it holds an expansion."""
    text = ""
    for part in word["Parts"]:
        match part["Type"]:
            case "Lit" | "SglQuoted":
                text += part["Value"]
            case "DblQuoted":
                text += _literal({"Parts": part.get("Parts", [])})
            case _:
                return ""
    return text
