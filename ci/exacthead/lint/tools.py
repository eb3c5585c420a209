"""The checks that need a worker with tools, which are called as programs."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from exacthead.bootstrap import cache_folder
from exacthead.errors import HarnessError
from exacthead.lint.finding import Finding
from exacthead.lint.inside import parse, secret_scan
from exacthead.lint.pipes import check_pipes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.lint.sources import Sources

SHFMT = ("shfmt", "--indent", "4", "--case-indent")
NEED_TOOLS = ("ruff", "types", "byte-compile", "yaml", "secrets", "shellcheck", "shfmt", "pipes")
MEND = "nox -s lint -- --fix"
# The file and the first line of each hunk of a unified diff.
_HUNK = re.compile(r"(?m)^(?:--- (?P<path>.+?)(?:\.orig)?(?:\t.*)?|@@ -(?P<line>\d+).*)$")
_LOCK = "ci/locks/"
_SHOWN = 500


@dataclass(frozen=True)
class Tools:
    """The tools of a worker, called at the root of a checkout.

    Attributes:
        harness: its declarations.
        sources: its files.
        python: the interpreter of the worker; the tools lie beside it.
    """

    harness: Harness
    sources: Sources
    python: Path

    @property
    def root(self) -> Path:
        """Of the checkout."""
        return self.harness.root

    def fix(self) -> None:
        """Let ruff and shfmt mend what is safe to mend."""
        self._run(("ruff", "check", "--fix", "--quiet", "."))
        self._run(("ruff", "format", "--quiet", "."))
        if self.sources.shell:
            self._run((*SHFMT, "--write", *self.sources.shell))

    def checks(self) -> dict[str, Callable[[], list[Finding]]]:
        """Each check by its name."""
        checks = {
            "ruff rules": self.ruff,
            "ruff format": self.ruff_format,
            "types": self.types,
            "byte-compile": lambda: self._inside("byte-compile", parse, (".py", ".pyi")),
        }
        if self.sources.named(".yml", ".yaml"):
            checks["yaml"] = lambda: self._inside("yaml", parse, (".yml", ".yaml"))
        checks["secrets"] = lambda: self._inside("secrets", secret_scan, None)
        if self.sources.shell:
            checks |= {"shellcheck": self.shellcheck, "shfmt": self.shfmt, "pipes": self.pipes}
        return checks

    def ruff(self) -> list[Finding]:
        """The rules of the linter."""
        return self._read("ruff rules", ("ruff", "check", "--output-format=json", "."), _ruff)

    def ruff_format(self) -> list[Finding]:
        """Python files that the formatter would change, with the first line of each."""
        return self._read("ruff format", ("ruff", "format", "--diff", "."), _diff("ruff format"))

    def types(self) -> list[Finding]:
        """Errors of the type checker, its notes with them."""
        cache = str(cache_folder(self.root) / "mypy")
        return self._read("types", ("mypy", "--output=json", "--cache-dir", cache), _mypy)

    def shellcheck(self) -> list[Finding]:
        """Findings in shell scripts."""
        command = ("shellcheck", "--external-sources", "--format=json1", *self.sources.shell)
        return self._read("shellcheck", command, _shellcheck)

    def shfmt(self) -> list[Finding]:
        """Shell scripts that the formatter would change."""
        return self._read("shfmt", (*SHFMT, "--diff", *self.sources.shell), _diff("shfmt"))

    def pipes(self) -> list[Finding]:
        """Pipes whose failure is hidden."""
        try:
            return check_pipes(self.harness, self.sources, self._tool("shfmt"))
        except HarnessError as error:
            return [Finding(".", 0, "pipes", f"{error.asked}: {error.found}", error.todo)]

    def _inside(self, rule: str, program: Any, endings: tuple[str, ...] | None) -> list[Finding]:
        """What a program says of the files with these endings; of all texts but locks if None."""
        if endings is None:
            paths = [path for path in self.sources.texts if not path.startswith(_LOCK)]
        else:
            paths = list(self.sources.named(*endings))
        command = (str(self.python), "-I", str(program.__file__))
        return self._read(rule, command, _inside, stdin=json.dumps(paths))

    def _read(
        self,
        rule: str,
        command: tuple[str, ...],
        read: Callable[[str, Path], Iterable[Finding]],
        stdin: str = "",
    ) -> list[Finding]:
        """The findings of a tool; that it is missing, or failed and told none, is one as well."""
        done = self._run(command, stdin)
        if isinstance(done, Finding):
            return [done]
        try:
            findings = list(read(done.stdout, self.root))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            findings = []
            done.returncode = done.returncode or 1
        if done.returncode and not findings:
            # Its end says most: tracebacks are long.
            words = " ".join((done.stdout + done.stderr).split())[-_SHOWN:] or "nothing"
            return [_broken(rule, f"exit code {done.returncode}, it said: {words}")]
        return sorted(set(findings))

    def _run(
        self, command: tuple[str, ...], stdin: str = ""
    ) -> subprocess.CompletedProcess[str] | Finding:
        tool = self._tool(command[0])
        if not tool.exists():
            return _broken(command[0], f"no {command[0]} in {tool.parent}")
        return subprocess.run(
            [str(tool), *command[1:]],
            cwd=self.root,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )

    def _tool(self, name: str) -> Path:
        return self.python.parent / name


def _broken(rule: str, found: str) -> Finding:
    fix = "mend what it names, or add it to the requirements of the [lint] worker and lock that"
    return Finding(".", 0, rule, found, fix)


def _ruff(said: str, root: Path) -> Iterator[Finding]:
    for each in json.loads(said):
        safe = (each["fix"] or {}).get("applicability") == "safe"
        fix = MEND if safe else (each["fix"] or {}).get("message") or f"mend it: {each['url']}"
        path = _below(each["filename"], root)
        found = f"{each['code']} {each['message']}"
        yield Finding(path, each["location"]["row"], "ruff rules", found, fix)


def _diff(rule: str) -> Callable[[str, Path], Iterator[Finding]]:
    """A reader of unified diffs: each file once, at its first change."""

    def read(said: str, root: Path) -> Iterator[Finding]:
        path = ""
        for hunk in _HUNK.finditer(said):
            if hunk["path"]:
                path = _below(hunk["path"], root)
            elif path:
                line = int(hunk["line"])
                yield Finding(path, line, rule, "it is not formatted from here on", MEND)
                path = ""

    return read


def _mypy(said: str, root: Path) -> Iterator[Finding]:
    for line in filter(None, said.splitlines()):
        each = json.loads(line)
        if each["severity"] == "error":
            found = f"{each['message']} [{each['code']}]"
            fix = each["hint"] or "mend the type, or the declaration"
            yield Finding(_below(each["file"], root), max(each["line"], 0), "types", found, fix)


def _shellcheck(said: str, root: Path) -> Iterator[Finding]:
    for each in json.loads(said)["comments"]:
        found = f"SC{each['code']} {each['message']}"
        fix = f"see the shellcheck wiki, SC{each['code']}"
        yield Finding(_below(each["file"], root), each["line"], "shellcheck", found, fix)


def _inside(said: str, root: Path) -> Iterator[Finding]:
    fixes = {"secrets": "revoke it, take it out of the history; or `# pragma: allowlist secret`"}
    for path, line, rule, found in json.loads(said):
        yield Finding(_below(path, root), line, rule, found, fixes.get(rule, "mend its syntax"))


def _below(path: str, root: Path) -> str:
    there = PurePath(path)
    return str(there.relative_to(root) if there.is_relative_to(root) else there)
