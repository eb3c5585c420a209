"""Resolve: from a worker's declaration in harness.toml to its spec on this machine. No network."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from packaging.version import Version

from exacthead.errors import HarnessError, nearest
from exacthead.workers.build import Supplies
from exacthead.workers.index import read_indexes
from exacthead.workers.interpreter import accept, find
from exacthead.workers.local import digest_file, local_packages
from exacthead.workers.lock import exact, lock_path, read_lock, worker_inputs
from exacthead.workers.provided import Declaration, examine_provided
from exacthead.workers.spec import Spec
from exacthead.workers.swap import Swapped, swap_local_builds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.tables import Worker
    from exacthead.workers.index import Indexes
    from exacthead.workers.spec import Interpreter

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def resolve(  # noqa: PLR0913 - all that decides a spec
    harness: Harness,
    name: str,
    flavour: str,
    *,
    indexes: Indexes | None = None,
    environ: Mapping[str, str] = os.environ,
    interpreter: Interpreter | None = None,
) -> Spec:
    """Everything that decides the content of worker ``name``, looked up on this machine.

    Args:
        harness: the declarations.
        name: the worker.
        flavour: ``cpu`` or ``cuda``.
        indexes: where distributions come from; read from ``environ`` and its files unless given.
        environ: what ``${VAR}`` is expanded from, and where interpreters are looked for.
        interpreter: the one that it is built on, where that is not of this machine.

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
    allowed = worker.below_patch_floor
    if interpreter is None:
        interpreter, notes = find(
            worker.python, worker.patch_floor, below_floor_allowed=allowed, environ=environ
        )
    else:
        notes = accept(interpreter, worker.patch_floor, below_floor_allowed=allowed)
    swapped = Swapped(lock)
    if flavour == "cpu":
        folders = (indexes or read_indexes(environ)).folders()
        swapped = swap_local_builds(lock, flavour, folders, interpreter, inputs.excludes)
    packages = local_packages(harness, worker)
    return Spec(
        name=name,
        lock=exact(swapped.lock),
        interpreter=interpreter,
        flavour=flavour,
        link_mode=worker.link_mode,
        environment=environment,
        local_packages=tuple((key, each.digest()) for key, each in packages.items()),
        patches=tuple(digest_file(path) for path in _patches(harness.root, worker)),
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
        local_packages=local_packages(harness, worker),
    )


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
