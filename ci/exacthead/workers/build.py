"""Build: the stages that turn a spec into a worker's folder."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from exacthead.errors import HarnessError
from exacthead.workers.distributions import disputed
from exacthead.workers.lock import entries
from exacthead.workers.uv import find_uv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exacthead.workers.command import Commands
    from exacthead.workers.local import LocalPackage
    from exacthead.workers.spec import Spec

_INSIDE = Path(__file__).with_name("inside.py")


class Supplies(TypedDict, total=False):
    """Where a build takes things from; what they are is in the spec and its key.

    Attributes:
        uv_arguments: more arguments for ``uv pip`` (index, find-links, ``--python-version``).
        uv_environment: more variables for uv; all other UV_* and PIP_* are dropped.
        patches: files of unified diffs against site-packages, ``-p1``, in the order of the spec.
        local_packages: packages to build, by the name that the spec gives them.
    """

    uv_arguments: Sequence[str]
    uv_environment: Mapping[str, str]
    patches: Sequence[Path]
    local_packages: Mapping[str, LocalPackage]


@dataclass(frozen=True)
class Probed:
    """What the probes found: the interpreter's real file and the files of the probed modules."""

    interpreter: Path
    modules: tuple[Path, ...]


@dataclass(frozen=True)
class Build:
    """One build of one spec.

    Attributes:
        spec: what to build.
        root: the worker's final folder; it must not exist.
        supplies: where from.
        commands: how commands are run.
        environment: the clean part of the caller's, before the spec's own variables.
        notes: what a report must say of the result.
    """

    spec: Spec
    root: Path
    supplies: Supplies
    commands: Commands
    environment: Mapping[str, str]
    notes: list[str] = field(default_factory=list)

    @property
    def python(self) -> Path:
        """The worker's interpreter."""
        return self.root / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """The folder that distributions are installed in."""
        (found,) = self.root.glob("lib/python*/site-packages")
        return found

    @property
    def worker_environment(self) -> dict[str, str]:
        """The environment of commands that run in the worker."""
        return {**self.environment, **dict(self.spec.environment)}

    @property
    def uv_environment(self) -> dict[str, str]:
        """The environment of uv, which reads no configuration file but what it is told here."""
        told = {**self.supplies.get("uv_environment", {}), "UV_NO_CONFIG": "1"}
        return {**self.worker_environment, **told}

    def create(self) -> None:
        """Make the virtual environment and put the lock in it."""
        with self.commands.stage("venv"):
            command = ["venv", "--no-project", "--no-python-downloads"]
            command += ["--python", str(self.spec.interpreter.path), str(self.root)]
            self._uv(command)
            self._requirements.write_text(self.spec.lock, encoding="utf-8")

    def install(self) -> None:
        """Install the lock, then the local packages.

        A file of several distributions is that of the last of them by name, in every build.
        """
        with self.commands.stage("sync"):
            if "falling back to full copy" in self._sync():
                self.notes.append(
                    "files are copies: the store is on another file system than uv's cache, "
                    f"so that {self.spec.link_mode} is not possible"
                )
            self._settle()
            self._install_local_packages()

    def refetch(self, name: str, folder: Path) -> Path | None:
        """Install one distribution as the lock has it, past uv's cache, into an environment alone.

        Returns:
            That environment, below ``folder``; None where the lock does not name the distribution.
        """
        lines = entries(self.spec.lock).get(name)
        if lines is None:
            return None
        root = folder / name
        past = ["--cache-dir", str(folder / ".cache")]
        venv = ["venv", "--no-project", "--no-python-downloads", *past]
        self._uv([*venv, "--python", str(self.spec.interpreter.path), str(root)])
        requirements = root / "requirements.txt"
        requirements.write_text(lines, encoding="utf-8")
        sync = ["pip", "sync", "--require-hashes", *past, *self._pip_arguments(root)]
        self._uv([*sync, str(requirements)])
        return root

    def patch(self) -> set[str]:
        """Apply the spec's patches in site-packages; git writes new files, never into hard links.

        Returns:
            The files that they touch, relative to the worker.
        """
        patches = self.supplies.get("patches", ())
        digests = tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in patches)
        if digests != self.spec.patches:
            raise HarnessError(
                f"worker {self.spec.name!r} with patches {_listed(self.spec.patches)}",
                f"patch files with digests {_listed(digests)}",
                "give the files that the spec was made from, in its order",
            )
        touched: set[str] = set()
        if not patches:
            return touched
        site = self.site_packages
        # Else git takes a repository around the store for its own and skips every path.
        ceiling = {"GIT_CEILING_DIRECTORIES": str(site.parent.resolve())}
        environment = {**self.worker_environment, **ceiling}
        with self.commands.stage("patch"):
            for path in patches:
                command = ["git", "apply", "-p1", "--numstat", "--apply", str(path.resolve())]
                said = self.commands.run(command, environment, cwd=site)
                # One line for each file: lines added, lines deleted, path.
                touched |= {line.rsplit("\t", 1)[1] for line in said.splitlines() if "\t" in line}
        place = site.relative_to(self.root)
        return {(place / path).as_posix() for path in touched}

    def compile(self) -> None:
        """Byte-compile everything: without it the first import of vLLM takes twice as long.

        Invalidation is by timestamp, so that an edit in a worker is run and not hidden behind
        stale byte code; :mod:`exacthead.workers.verify` then shows it as damage.
        """
        with self.commands.stage("compile"):
            command = [str(self.python), "-I", "-m", "compileall", "-j", "0", "-q"]
            command += ["--invalidation-mode", "timestamp", str(self.site_packages)]
            code, said = self.commands.attempt(command, self.worker_environment)
            # Distributions ship files that are not for this Python; each is named in the log.
            if code not in {0, 1} or (code == 1 and "*** Error" not in said) or "[Errno" in said:
                raise self.commands.failure(command, f"exit code {code}", said)

    def probe(self) -> Probed:
        """Import every probe in one fresh process and check that it is what the spec says."""
        with (
            self.commands.stage("probes"),
            tempfile.TemporaryDirectory(prefix="exacthead-probe-") as empty,
        ):
            answer = Path(empty) / "answer.json"
            command = [str(self.python), "-I", str(_INSIDE), str(answer), *self.spec.probes]
            self.commands.run(command, self.worker_environment, cwd=Path(empty))
            facts = json.loads(answer.read_text(encoding="utf-8"))
        self._check(facts["version"], facts["prefix"], facts["base_prefix"], facts["path"])
        modules = [Path(file) for file in facts["modules"].values() if file]
        return Probed(Path(facts["interpreter"]), tuple(modules))

    @property
    def _requirements(self) -> Path:
        return self.root / "requirements.txt"

    def _uv(self, arguments: Sequence[str]) -> str:
        environment = self.uv_environment
        return self.commands.run([find_uv(environment), *arguments], environment)

    def _sync(self) -> str:
        """Install what is missing of the lock; from uv's cache alone where that is enough."""
        command = ["pip", "sync", "--require-hashes", *self._pip_arguments()]
        if not self.spec.lock.strip():
            command.append("--allow-empty-requirements")
        command.append(str(self._requirements))
        environment = self.uv_environment
        # Far quicker than with the network.
        offline = [find_uv(environment), *command, "--offline"]
        code, said = self.commands.attempt(offline, environment)
        if code == 0:
            return said
        self.commands.remark("not all of it is in uv's cache; once more with the network")
        return self._uv(command)

    def _settle(self) -> None:
        """Install anew, as the last, who is to have a file that uv's threads left to another."""
        for name, recorded in disputed(self.root).items():
            others = [path for path, digest in recorded.items() if self._digest(path) != digest]
            if others:
                self.commands.remark(f"{name} once more, for {_listed(others)}")
                self._uv(["pip", "uninstall", "--python", str(self.python), name])
                self._sync()

    def _digest(self, path: str) -> str:
        file = self.root / path
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""

    def _pip_arguments(self, root: Path | None = None) -> list[str]:
        python = (root or self.root) / "bin" / "python"
        place = ["--python", str(python), "--link-mode", self.spec.link_mode]
        return [*place, *self.supplies.get("uv_arguments", ())]

    def _install_local_packages(self) -> None:
        names = [name for name, _ in self.spec.local_packages]
        packages = self.supplies.get("local_packages", {})
        if set(names) != set(packages):
            raise HarnessError(
                f"worker {self.spec.name!r} with local packages {_listed(names)}",
                f"folders for {_listed([*packages])}",
                "give a folder for each local package of the spec, and for no other",
            )
        for name, digest in self.spec.local_packages:
            self._install_local_package(name, digest, packages[name])

    def _install_local_package(self, name: str, digest: str, package: LocalPackage) -> None:
        """Build from a copy: its content is the spec's, whatever is edited in the folder now."""
        with tempfile.TemporaryDirectory(prefix="exacthead-local-") as place:
            copy = Path(place) / name
            found = package.copy(copy)
            if found != digest:
                raise HarnessError(
                    f"worker {self.spec.name!r} with local package {name!r} of digest {digest}",
                    f"{package.folder} has digest {found}: it was changed after the plan was made",
                    "ask again, and leave the folder alone meanwhile",
                )
            # --reinstall refreshes: else uv may take an earlier build of the folder from its cache.
            command = ["pip", "install", "--no-deps", "--reinstall", *self._pip_arguments()]
            self._uv([*command, str(copy)])

    def _check(self, version: str, prefix: str, base_prefix: str, path: list[str]) -> None:
        if version != self.spec.interpreter.version:
            raise self._unhealthy(
                f"Python {self.spec.interpreter.version}", f"reports Python {version}"
            )
        if Path(prefix).resolve() != self.root.resolve():
            raise self._unhealthy(f"prefix {self.root}", f"reports prefix {prefix}")
        foreign = [
            item
            for item in path
            if not any(Path(item).is_relative_to(home) for home in (prefix, base_prefix))
        ]
        if foreign:
            raise self._unhealthy("an import path of its own", f"also imports from {foreign}")

    def _unhealthy(self, expected: str, found: str) -> HarnessError:
        return HarnessError(
            f"a healthy worker {self.spec.name!r} with {expected}",
            f"it {found}",
            f"read {self.commands.log}; mend the spec's interpreter or lock",
        )


def _listed(items: Sequence[str]) -> str:
    return ", ".join(items) or "none"
