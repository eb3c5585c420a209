"""Locks: one file of pinned, hashed requirements per worker and flavour, without any address.

A lock's header has the digest of what it was computed from, so that a stale one is told without
resolving anything; the comments below each pin say who asks for it.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from exacthead.config import Harness

# The harness's own environment: one lock for every Python and platform it runs on.
HARNESS = "harness"
HARNESS_PYTHON = "3.11"
# The pin of uv itself, kept by hand: noxw reads it before uv, and so this module, can run.
BOOTSTRAP = "uv"
# Workers that hold this group talk to each other through one Ray cluster; objects of these
# distributions are pickled in one and loaded in another.
CLUSTER_GROUP = "cluster"
CLUSTER_SHARED = ("torch", "ray", "numpy", "transformers", "safetensors", "omegaconf")

# In the comments of a lock: the requirements of the declaration itself, as opposed to those of
# another distribution.
ASKED = "(declared)"

INPUTS = "# inputs: sha256:"
_ADDRESSES = ("://", " @ ", "--index-url", "--extra-index-url", "--find-links", "--index")
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)===?(?P<version>[^\s;\\=]+)")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")


@dataclass(frozen=True)
class Inputs:
    """What a lock is computed from. ``platform`` is None for a lock of every platform."""

    requirements: tuple[str, ...]
    no_deps: tuple[str, ...]
    overrides: tuple[str, ...]
    excludes: tuple[str, ...]
    python: str
    platform: str | None

    @property
    def digest(self) -> str:
        """64 hexadecimal digits of the content, which the lock's header repeats."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def worker_inputs(harness: Harness, name: str, flavour: str) -> Inputs:
    """What the lock of worker ``name`` in ``flavour`` is computed from; order has no meaning.

    ``python`` is the patch floor where there is one: the requirements resolve only from there on.

    Raises:
        HarnessError: the worker has no such flavour.
    """
    worker = harness.worker(name)
    extra = {str(key): value for key, value in worker.flavours.items()}.get(flavour)
    if extra is None:
        raise HarnessError(
            f"worker {name!r} in flavour {flavour!r}",
            f"it has {', '.join(sorted(worker.flavours))}",
            f"declare [workers.{name}.flavours.{flavour}] or ask for another flavour",
        )
    grouped = [item for group in worker.groups for item in harness.groups[group]]
    return Inputs(
        requirements=_sorted([*grouped, *worker.requirements, *extra.requirements]),
        no_deps=_sorted(worker.no_deps),
        overrides=_sorted([*worker.overrides, *extra.overrides]),
        excludes=_sorted([*worker.excludes, *extra.excludes]),
        python=worker.patch_floor or worker.python,
        platform=extra.platform,
    )


def harness_inputs(root: Path) -> Inputs:
    """What the lock of the harness's own environment is computed from: ``ci/pyproject.toml``."""
    project = tomllib.loads((root / "ci" / "pyproject.toml").read_text(encoding="utf-8"))
    return Inputs(
        requirements=_sorted(project["project"]["dependencies"]),
        no_deps=(),
        overrides=(),
        excludes=(),
        python=HARNESS_PYTHON,
        platform=None,
    )


def lock_path(root: Path, name: str, flavour: str | None = None) -> Path:
    """Where a lock lies; ``flavour`` is None for the harness's own."""
    return root / "ci" / "locks" / (f"{name}-{flavour}.txt" if flavour else f"{name}.txt")


def read_lock(path: Path, inputs: Inputs) -> str:
    """The text of the lock at ``path``.

    Raises:
        HarnessError: it is missing, stale against ``inputs``, or not fully pinned and hashed.
    """
    problems = _problems(path, inputs)
    if problems:
        raise HarnessError(
            f"the lock {path.parent.name}/{path.name}",
            "; ".join(problems),
            "run `nox -s lock` and commit what it writes",
        )
    return path.read_text(encoding="utf-8")


def exact(text: str) -> str:
    """``text`` of a lock without comments, each pin by ``===``.

    By PEP 440 ``==2.13.0`` allows ``2.13.0+cpu``: uv would take such a build from a folder that
    offers one, and then refuse it, since its hash is not in the lock.
    """
    return re.sub(r"(?m)^([A-Za-z0-9][\w.-]*)==(?!=)", r"\1===", body(text))


def body(text: str) -> str:
    """``text`` of a lock without comments and blank lines."""
    lines = [line for line in text.splitlines() if line.strip() and line.strip()[0] != "#"]
    return "".join(f"{line}\n" for line in lines)


def entries(text: str) -> dict[str, str]:
    """The requirements of a lock: normalised name -> its lines, comments below it included."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isspace():
            match = _PIN.match(line)
            name = canonicalize_name(match["name"]) if match else line.strip()
        found[name] = found.get(name, "") + line
    return found


def pins(text: str) -> dict[str, str]:
    """Normalised name -> exact version, of every pinned requirement of a lock."""
    matches = ((name, _PIN.match(lines)) for name, lines in entries(text).items())
    return {name: match["version"] for name, match in matches if match}


def wanted_by(text: str) -> dict[str, frozenset[str]]:
    """Normalised name -> who asks for it: names of distributions, :data:`ASKED` for the inputs."""
    return {
        name: frozenset(
            parent
            for line in lines.splitlines()
            if line.strip().startswith("#")
            for parent in [line.strip("# ").removeprefix("via").strip()]
            if parent
        )
        for name, lines in entries(text).items()
    }


def check_locks(harness: Harness) -> list[str]:
    """Every problem of the checked-in locks, as sentences; empty when all is well. No network."""
    problems = []
    expected = {lock_path(harness.root, HARNESS): harness_inputs(harness.root)}
    for name, worker in harness.workers.items():
        if worker.provided is None:
            for flavour in worker.flavours:
                inputs = worker_inputs(harness, name, flavour)
                expected[lock_path(harness.root, name, flavour)] = inputs
    for path, inputs in expected.items():
        problems += [f"{path.name}: {problem}" for problem in _problems(path, inputs)]
    for path in sorted((harness.root / "ci" / "locks").glob("*.txt")):
        if path.stem == BOOTSTRAP:
            problems += [f"{path.name}: {problem}" for problem in _faults(path)]
        elif path not in expected:
            problems.append(f"{path.name}: no worker has this lock; remove it")
    return problems + _cluster_problems(harness) + _npm_problems(harness.root)


def _problems(path: Path, inputs: Inputs) -> list[str]:
    if not path.exists():
        return ["missing"]
    text = path.read_text(encoding="utf-8")
    recorded = [line for line in text.splitlines() if line.startswith(INPUTS)]
    stale = recorded != [INPUTS + inputs.digest]
    why = ["stale: its inputs in harness.toml or ci/pyproject.toml have changed"] if stale else []
    return why + _faults(path)


def _faults(path: Path) -> list[str]:
    """What is wrong with the text of a lock, whatever it was made from."""
    text = path.read_text(encoding="utf-8")
    problems = [
        f"line {number} holds an address: {line.strip()!r}"
        for number, line in enumerate(text.splitlines(), start=1)
        if any(address in line for address in _ADDRESSES)
    ]
    for name, lines in entries(text).items():
        if not _PIN.match(lines):
            problems.append(f"{name!r} is not pinned to one version")
        elif not _HASH.search(lines):
            problems.append(f"{name} has no sha256 hash")
    return problems


def _cluster_problems(harness: Harness) -> list[str]:
    members = {
        name: worker
        for name, worker in harness.workers.items()
        if CLUSTER_GROUP in worker.groups and worker.provided is None
    }
    problems = []
    minors = {name: worker.python for name, worker in members.items()}
    if len(set(minors.values())) > 1:
        problems.append(f"one Ray cluster needs one Python: {_listed(minors)}")
    for flavour in sorted({flavour for worker in members.values() for flavour in worker.flavours}):
        paths = {name: lock_path(harness.root, name, flavour) for name in members}
        locked = {
            name: pins(path.read_text(encoding="utf-8"))
            for name, path in paths.items()
            if path.exists()
        }
        for shared in CLUSTER_SHARED:
            versions = {name: pin[shared] for name, pin in locked.items() if shared in pin}
            if len(set(versions.values())) > 1:
                problems.append(
                    f"one Ray cluster needs one {shared} ({flavour}): {_listed(versions)}"
                )
    return problems


def _npm_problems(root: Path) -> list[str]:
    problems = []
    for path in sorted(root.rglob("package-lock.json")):
        relative = path.relative_to(root)
        if "node_modules" in relative.parts or relative.parts[0].startswith("."):
            continue
        packages = json.loads(path.read_text(encoding="utf-8")).get("packages", {})
        problems += [
            f"{relative}: {name or 'the root'} holds an address ('resolved'); "
            "run npm with omit-lockfile-registry-resolved=true"
            for name, package in packages.items()
            if "resolved" in package
        ]
    return problems


def _sorted(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(items)))


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
