"""Find or fetch uv, build the locked harness environment, run nox in it. Standard library only.

``noxw`` imports this before anything is installed, and the noxfile inside whatever nox there is: so
it, and what it imports of this package, needs nothing but the standard library, and can be imported
by an older Python than the oldest one, to say so.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from exacthead.errors import HarnessError
from exacthead.fetch import Pin, fetch_wheel
from exacthead.pip_config import default_index
from exacthead.workers.index import read_indexes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

OLDEST_PYTHON = (3, 11)
OLDEST_UV = (0, 9)
REFUSED = 2
INTERRUPTED = 130
_DEADLINE_S = 900.0
_WHEELS = {"x86_64": "manylinux2014_x86_64.whl", "aarch64": "manylinux2014_aarch64.whl"}


def main(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by nox in the harness environment.

    Args:
        arguments: the repository's root, then nox's own arguments.

    Raises:
        SystemExit: 2 with a message when the environment cannot be had, 130 when interrupted.
    """
    root = Path(arguments[0])
    try:
        python = harness_python(root)
        path = harness_path(root)
    except HarnessError as error:
        _say(str(error))
        raise SystemExit(REFUSED) from None
    except KeyboardInterrupt:
        _say("interrupted; the next call builds the harness environment anew")
        raise SystemExit(INTERRUPTED) from None
    nox = [str(python), "-I", "-m", "nox", "--noxfile", str(root / "noxfile.py"), *arguments[1:]]
    os.execve(nox[0], nox, {**os.environ, "PATH": path})  # noqa: S606 - no shell is wanted


def cache_folder(root: Path) -> Path:
    """The folder for everything that can be made again: ``EXACTHEAD_CACHE`` or ``.cache``."""
    return Path(os.environ.get("EXACTHEAD_CACHE") or root / ".cache").resolve()


def harness_python(root: Path) -> Path:
    """The interpreter of the harness environment, built first if there is none for its lock.

    The environment is named by the digest of its lock and the interpreter it is built on. Its
    record is written last, under a lock that the builder and its children hold: whoever is killed
    leaves nothing that looks ready.

    Raises:
        HarnessError: it cannot be built, or another process builds it for too long.
    """
    if sys.version_info < OLDEST_PYTHON:
        raise HarnessError(
            "a nox that runs on Python 3.11 or newer",
            f"{platform.python_version()} at {sys.executable}",
            "call ./noxw, which looks for a newer Python",
        )
    lock = root / "ci" / "locks" / "harness.txt"
    base = json.dumps([sys.implementation.cache_tag, platform.python_version(), sys.base_prefix])
    key = hashlib.sha256(_read(lock) + base.encode()).hexdigest()[:24]
    home = cache_folder(root) / "harness"
    environment, record = home / key, home / f"{key}.json"
    if not _intact(environment, record):
        try:
            home.mkdir(parents=True, exist_ok=True)
            with _claimed(home / f"{key}.lock") as claim:
                if not _intact(environment, record):
                    record.unlink(missing_ok=True)
                    _build(find_uv(root), lock, environment, claim)
                    record.write_text(json.dumps(_packages(environment)), encoding="utf-8")
        except OSError as error:
            raise HarnessError(
                f"the harness environment in {home}",
                str(error),
                "make room there, or point EXACTHEAD_CACHE at a folder that can be written to",
            ) from error
    return environment / "bin" / "python"


def harness_environment(root: Path) -> dict[str, str | None]:
    """What to change in a process's variables (None: take away) for ``python -m exacthead``."""
    inherited = {name: None for name in os.environ if name.startswith("PYTHON")}
    return {
        **inherited,
        "PATH": harness_path(root),
        "PYTHONPATH": str(root / "ci"),
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",
        # Byte code of first-party code, kept out of the tree; without it each start compiles.
        "PYTHONPYCACHEPREFIX": str(cache_folder(root) / "pycache"),
        # Whoever ends nox ends the run as well, see exacthead.stop.
        "EXACTHEAD_PARENT": str(os.getpid()),
    }


def harness_path(root: Path) -> str:
    """PATH for the harness: the caller's, after the folder of a uv that had to be fetched."""
    path = os.environ.get("PATH", os.defpath)
    return path if _uv_on_path() else os.pathsep.join([str(find_uv(root).parent), path])


def find_uv(root: Path) -> Path:
    """The uv on PATH, if it is new enough, else the pinned one, fetched once into the cache.

    Raises:
        HarnessError: it cannot be fetched, or is not the one that is pinned.
    """
    found = _uv_on_path()
    if found:
        return found
    return pinned_uv(root).path


@dataclass(frozen=True)
class PinnedUv:
    """The uv that is pinned in the repository: version and program."""

    version: str
    path: Path


def pinned_uv(root: Path, home: Path | None = None) -> PinnedUv:
    """The uv that ``ci/locks/uv.txt`` pins, fetched once into the cache of ``home``, or ``root``.

    Raises:
        HarnessError: as :func:`find_uv`.
    """
    pin = uv_pin(root)
    uv = cache_folder(home or root) / "uv" / pin.version / "uv"
    if not uv.exists():
        _say(f"fetching {pin.version} of uv, as it is pinned")
        indexes = read_indexes(os.environ)
        default = None if indexes.default_index or indexes.no_index else default_index()
        _unpack(fetch_wheel(pin, indexes, default), uv)
    return PinnedUv(pin.version, uv)


def _uv_on_path() -> Path | None:
    uv = shutil.which("uv")
    if uv is None:
        return None
    try:
        done = subprocess.run(
            [uv, "--version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None  # a file that does not run is no uv
    version = re.match(r"uv (\d+)\.(\d+)", done.stdout)
    new = version is not None and tuple(map(int, version.groups())) >= OLDEST_UV
    return Path(uv).absolute() if new else None


def uv_pin(root: Path) -> Pin:
    """The uv that ``ci/locks/uv.txt`` pins.

    Raises:
        HarnessError: the file is gone or pins none, or there is no uv for this machine.
    """
    path = root / "ci" / "locks" / "uv.txt"
    text = _read(path).decode()
    version = re.search(r"^uv==(\S+)", text, re.MULTILINE)
    hashes = re.findall(r"sha256:([0-9a-f]{64})", text)
    if version is None or not hashes:
        raise HarnessError(f"a pinned uv in {path}", "no `uv==` line with hashes", "restore it")
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _WHEELS:
        raise HarnessError(
            "a uv for this machine", f"{sys.platform} {machine}", "install uv and put it on PATH"
        )
    return Pin("uv", version[1], _WHEELS[machine], frozenset(hashes))


def _unpack(wheel: bytes, uv: Path) -> None:
    uv.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        names = [name for name in archive.namelist() if name.endswith("/scripts/uv")]
        if not names:
            raise HarnessError("uv in its wheel", "no scripts/uv in it", "install uv on PATH")
        partial = uv.with_name(f"uv.{os.getpid()}")
        partial.write_bytes(archive.read(names[0]))
    partial.chmod(0o755)
    partial.replace(uv)


def _build(uv: Path, lock: Path, environment: Path, claim: int) -> None:
    _say("building the harness environment")
    shutil.rmtree(environment, ignore_errors=True)
    # A virtual environment's own interpreter would make one that dies with it; and started without
    # a PATH, Python does not know its path.
    base = getattr(sys, "_base_executable", "") or str(Path("/proc/self/exe").resolve())
    indexes = read_indexes(os.environ)
    variables = indexes.uv_environment()
    python = environment / "bin" / "python"
    create: list[str | Path] = [uv, "venv", "--quiet", "--no-project", "--python", base]
    create.append(environment)
    _run(create, variables, claim)
    install: list[str | Path] = [uv, "pip", "sync", "--quiet", "--require-hashes"]
    install += ["--compile-bytecode", "--python", python, *indexes.uv_arguments(), lock]
    _run(install, variables, claim)


def _run(command: Sequence[str | Path], variables: Mapping[str, str], claim: int) -> None:
    words = [str(part) for part in command]
    # The child holds the claim too: a builder that is killed must not leave an orphan that writes
    # into what the next one builds.
    done = subprocess.run(words, env=dict(variables), check=False, pass_fds=(claim,))
    if done.returncode != 0:
        raise HarnessError(
            "the harness environment",
            f"`uv {words[1]} ...` left with exit code {done.returncode}",
            "read uv's own words above; is a package index reachable?",
        )


@contextmanager
def _claimed(path: Path) -> Iterator[int]:
    """Hold the lock file ``path``; waiters name its holder, and give up at a deadline."""
    deadline = time.monotonic() + _DEADLINE_S
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        told = False
        while not _locked(descriptor):
            holder = path.read_text(encoding="utf-8") or "unknown"
            if time.monotonic() > deadline:
                raise HarnessError(
                    "the harness environment",
                    f"process {holder} holds {path} for more than {_DEADLINE_S:g} s",
                    "wait for that process or end it",
                )
            if not told:
                _say(f"waiting for process {holder}, which builds the harness environment")
                told = True
            time.sleep(0.1)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _intact(environment: Path, record: Path) -> bool:
    """Whether the environment was finished, still has its packages, and its interpreter."""
    if not record.exists() or not (environment / "bin" / "python").exists():
        return False
    try:
        return bool(json.loads(record.read_bytes()) == _packages(environment))
    except ValueError:
        return False  # not whole: its writer was killed


def _packages(environment: Path) -> list[str]:
    found = environment.glob("lib/python3*/site-packages/[!_]*")
    return sorted(path.name for path in found)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise HarnessError(
            f"read {path}", error.strerror or str(error), "restore it from git"
        ) from error


def _say(line: str) -> None:
    sys.stderr.write(f"noxw: {line}\n")
    sys.stderr.flush()
