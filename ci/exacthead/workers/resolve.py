"""Resolve: from a worker's declaration in harness.toml to its spec on this machine. No network."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from exacthead.errors import HarnessError, nearest
from exacthead.workers.build import Supplies
from exacthead.workers.index import read_indexes
from exacthead.workers.interpreter import find
from exacthead.workers.lock import exact, lock_path, read_lock, worker_inputs
from exacthead.workers.provided import Declaration, examine_provided
from exacthead.workers.spec import Spec
from exacthead.workers.swap import Swapped, swap_local_builds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from exacthead.config import Harness, Worker
    from exacthead.workers.index import Indexes

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# What building or running leaves in a package's folder; never part of its content.
_LEFTOVERS = frozenset({"__pycache__", ".git"})
_BUILD_FOLDERS = frozenset({"build", "dist"})


def resolve(
    harness: Harness,
    name: str,
    flavour: str,
    *,
    indexes: Indexes | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Spec:
    """Everything that decides the content of worker ``name``, looked up on this machine.

    Args:
        harness: the declarations.
        name: the worker.
        flavour: ``cpu`` or ``cuda``.
        indexes: where distributions come from; read from ``environ`` and its files unless given.
        environ: what ``${VAR}`` is expanded from, and where interpreters are looked for.

    Raises:
        HarnessError: the lock is missing or stale, no interpreter will do, a variable is not set,
            a local package or patch is not there, or a provided environment does not fit.
    """
    worker = harness.worker(name)
    inputs = worker_inputs(harness, name, flavour)
    environment = _expanded(name, worker.environment, environ)
    if worker.provided is not None:
        declared = Declaration(
            name=name,
            minor=worker.python,
            patch_floor=worker.patch_floor,
            below_floor_allowed=worker.below_patch_floor,
            requirements=(*inputs.requirements, *inputs.no_deps),
            probes=worker.probes,
        )
        found = examine_provided(harness.root / worker.provided, declared, environ)
        return Spec(
            name=name,
            lock="".join(f"{package}\n" for package in found.packages),
            interpreter=found.interpreter,
            flavour=flavour,
            link_mode=worker.link_mode,
            environment=environment,
            sources=("provided",),
            probes=worker.probes,
            notes=("is provided", *found.notes),
            provided=True,
        )
    lock = read_lock(lock_path(harness.root, name, flavour), inputs)
    interpreter, notes = find(
        worker.python,
        worker.patch_floor,
        below_floor_allowed=worker.below_patch_floor,
        environ=environ,
    )
    swapped = Swapped(lock)
    if flavour == "cpu":
        folders = (indexes or read_indexes(environ)).folders()
        swapped = swap_local_builds(lock, flavour, folders, interpreter, inputs.excludes)
    packages = local_packages(harness.root, worker)
    return Spec(
        name=name,
        lock=exact(swapped.lock),
        interpreter=interpreter,
        flavour=flavour,
        link_mode=worker.link_mode,
        environment=environment,
        local_packages=tuple((key, digest_folder(path)) for key, path in packages.items()),
        patches=tuple(_digest_file(path) for path in _patches(harness.root, worker)),
        sources=swapped.sources,
        probes=worker.probes,
        notes=(*notes, *swapped.notes),
    )


def build_supplies(harness: Harness, spec: Spec, indexes: Indexes) -> Supplies:
    """What a build of ``spec`` takes things from: ``store.ensure(spec, **build_supplies(...))``.

    Below its patch floor a worker is installed as if its interpreter were at the floor: else
    uv refuses the distributions that ask for it.
    """
    worker = harness.worker(spec.name)
    arguments = list(indexes.uv_arguments())
    if worker.patch_floor and Version(spec.interpreter.version) < Version(worker.patch_floor):
        arguments += ["--python-version", worker.patch_floor]
    return Supplies(
        uv_arguments=tuple(arguments),
        uv_environment=indexes.uv_environment(),
        patches=_patches(harness.root, worker),
        local_packages=local_packages(harness.root, worker),
    )


def local_packages(root: Path, worker: Worker) -> dict[str, Path]:
    """The worker's local packages, sorted: the name that each has for installers -> its folder.

    Raises:
        HarnessError: a folder is no package, or two have one name.
    """
    found: dict[str, Path] = {}
    for entry in worker.local_packages:
        folder = root / entry
        asked = f"local package {entry!r}"
        try:
            data = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
            name = canonicalize_name(data["project"]["name"])
        except (FileNotFoundError, NotADirectoryError):
            raise HarnessError(
                asked, f"no pyproject.toml in {folder}", "name the folder of a package"
            ) from None
        except (tomllib.TOMLDecodeError, KeyError) as error:
            raise HarnessError(
                asked,
                f"its pyproject.toml has no readable [project] name: {error}",
                "give it a [project] table with a name",
            ) from error
        if name in found:
            raise HarnessError(
                asked,
                f"{found[name].relative_to(root)} is called {name!r} as well",
                "keep one of the two",
            )
        found[name] = folder
    return dict(sorted(found.items()))


def package_files(folder: Path) -> Iterator[Path]:
    """The files and links of a local package, sorted, without byte code, .git and build results."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        leftover = (
            not _LEFTOVERS.isdisjoint(parts)
            or parts[0] in _BUILD_FOLDERS
            or any(part.endswith(".egg-info") for part in parts)
        )
        if not leftover and (path.is_symlink() or not path.is_dir()):
            yield path


def digest_folder(folder: Path) -> str:
    """64 hexadecimal digits of a local package: each file's relative name, mode and content.

    The folder's own name and place are not in it.
    """
    digest = hashlib.sha256()
    for path in package_files(folder):
        relative = path.relative_to(folder).as_posix()
        if path.is_symlink():
            kind, content = "link", hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        else:
            kind = "program" if os.access(path, os.X_OK) else "file"
            content = _digest_file(path)
        # Neither a kind nor a digest holds a NUL, and no file name does: no two lists meet.
        digest.update(os.fsencode(f"{relative}\0{kind}\0{content}\0"))
    return digest.hexdigest()


def _expanded(
    name: str, environment: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The worker's variables with each ``${VAR}`` replaced, sorted by name."""
    unset = [
        f"{variable}: {reference!r} is not set; {nearest(reference, _similar(reference, environ))}"
        for variable, value in environment.items()
        for reference in _VARIABLE.findall(value)
        if reference not in environ
    ]
    unset += [
        f"{variable}: {value!r} has a '${{' that is not ${{NAME}}"
        for variable, value in environment.items()
        if "${" in _VARIABLE.sub("", value)
    ]
    if unset:
        raise HarnessError(
            f"the environment of worker {name!r}",
            "\n    " + "\n    ".join(unset),
            f"set the variables, or change [workers.{name}.environment] in harness.toml",
        )
    return tuple(
        sorted(
            (variable, _VARIABLE.sub(lambda match: environ[match[1]], value))
            for variable, value in environment.items()
        )
    )


def _similar(reference: str, environ: Mapping[str, str]) -> set[str]:
    """Set variables worth naming: those that share a first letter; values are never shown."""
    return {variable for variable in environ if variable[:1] == reference[:1]}


def _patches(root: Path, worker: Worker) -> tuple[Path, ...]:
    paths = tuple(root / patch for patch in worker.patches)
    missing = [
        patch for patch, path in zip(worker.patches, paths, strict=True) if not path.is_file()
    ]
    if missing:
        raise HarnessError(
            f"patches {', '.join(worker.patches)}",
            f"no file {', '.join(missing)}",
            "name files below the repository",
        )
    return paths


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
