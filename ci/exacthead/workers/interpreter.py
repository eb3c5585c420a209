"""Interpreters: the best Python of an asked minor version on this machine, or one downloaded."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from exacthead.errors import HarnessError
from exacthead.workers.index import read_indexes
from exacthead.workers.spec import Interpreter
from exacthead.workers.uv import run_uv

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Folders that interpreters lie in without being on anybody's PATH; patterns below the root.
SYSTEM_FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/*/bin", "/opt/python/*/bin")

# Run by each candidate: what a file's name says of an interpreter is not to be trusted.
QUESTION = """
import json, platform, sys, sysconfig
print(json.dumps({
    "implementation": sys.implementation.name,
    "version": platform.python_version(),
    "abi": sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag,
    "platform": sysconfig.get_platform(),
    "base": getattr(sys, "_base_executable", None) or sys.executable,
}))
"""
_ANSWER_TIMEOUT_S = 30.0
_FREE_THREADED = re.compile(r"-\d+t")


class NotAnInterpreterError(Exception):
    """A candidate did not answer; the message says what it did instead."""


@dataclass(frozen=True)
class Search:
    """Where interpreters were looked for, and each one found or refused, in words."""

    found: tuple[Interpreter, ...]
    places: tuple[str, ...]
    refused: tuple[str, ...]


def find(
    minor: str,
    patch_floor: str | None,
    *,
    below_floor_allowed: bool,
    environ: Mapping[str, str] = os.environ,
    system_folders: Sequence[str] = SYSTEM_FOLDERS,
) -> tuple[Interpreter, tuple[str, ...]]:
    """Find the CPython of ``minor`` that a worker is built on.

    Of all that are installed the highest patch release wins. Below ``patch_floor`` it is used only
    when that is allowed by name; then nothing is downloaded, and a note says so. Where none will
    do, uv is asked to download one.

    Args:
        minor: ``3.13``.
        patch_floor: the lowest full version that will do, or None.
        below_floor_allowed: whether an installed one below the floor is better than none.
        environ: where ``PATH``, ``HOME``, ``PYENV_ROOT`` and uv's settings are read.
        system_folders: patterns of further folders to look into.

    Returns:
        The interpreter and notes that the report must show.

    Raises:
        HarnessError: naming what was looked for and every place that was looked at.
    """
    search = look(minor, environ, system_folders)
    floor = Version(patch_floor) if patch_floor else None
    best = max(search.found, key=lambda found: Version(found.version), default=None)
    if best is not None:
        if floor is None or Version(best.version) >= floor:
            return best, ()
        if below_floor_allowed:
            return best, (f"runs on {best.version}, below its patch floor {floor}",)
    downloaded, refusal = _download(minor, floor, environ)
    if downloaded is not None:
        return downloaded, ()
    raise _none(minor, patch_floor, search, refusal)


def accept(
    interpreter: Interpreter, patch_floor: str | None, *, below_floor_allowed: bool
) -> tuple[str, ...]:
    """The notes that a report must show of an interpreter that was chosen elsewhere.

    Raises:
        HarnessError: it is below the floor, and that is not allowed.
    """
    if patch_floor is None or Version(interpreter.version) >= Version(patch_floor):
        return ()
    if not below_floor_allowed:
        raise HarnessError(
            f"an interpreter of at least {patch_floor}",
            f"{interpreter.version} at {interpreter.path}",
            "use a base with a newer one, or allow this one by name with below_patch_floor = true",
        )
    return (f"runs on {interpreter.version}, below its patch floor {patch_floor}",)


def look(minor: str, environ: Mapping[str, str], system_folders: Sequence[str]) -> Search:
    """Ask every candidate of ``minor`` on this machine what it is; uv's own finds come first."""
    found: dict[Path, Interpreter] = {}
    places, refused = [], []
    for place, paths in _candidates(minor, environ, system_folders):
        places.append(place)
        for path in paths:
            try:
                interpreter = examine(path)
            except NotAnInterpreterError as error:
                refused.append(f"{path}: {error}")
                continue
            if not interpreter.version.startswith(f"{minor}."):
                continue
            if interpreter.implementation != "cpython" or _FREE_THREADED.search(interpreter.abi):
                refused.append(
                    f"{path}: {interpreter.implementation} {interpreter.abi}, not plain CPython"
                )
            else:
                found.setdefault(interpreter.path, interpreter)
    return Search(tuple(found.values()), tuple(places), tuple(dict.fromkeys(refused)))


def examine(path: Path) -> Interpreter:
    """Run the interpreter at ``path`` and return what it says of itself.

    A virtual environment's interpreter answers for the one it was made from.

    Raises:
        NotAnInterpreterError: it does not run, or does not answer as Python does.
    """
    try:
        state = path.stat()
    except OSError as error:
        raise NotAnInterpreterError(error.strerror) from error
    return _examine(path, state.st_mtime_ns, state.st_size)


@functools.cache
def _examine(path: Path, _mtime_ns: int, _size: int) -> Interpreter:
    # Neither the caller's Python settings nor his site-packages have a say in the answer.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", QUESTION],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWER_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAnInterpreterError(str(error)) from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [""]
        raise NotAnInterpreterError(f"exit code {done.returncode} {said[0]}".rstrip())
    try:
        answer = json.loads(done.stdout)
        Version(answer["version"])
    except (json.JSONDecodeError, InvalidVersion) as error:
        raise NotAnInterpreterError(f"not the answer of a released Python: {error}") from error
    return Interpreter(
        path=Path(answer["base"]).resolve(),
        implementation=answer["implementation"],
        version=answer["version"],
        abi=answer["abi"],
        platform=answer["platform"],
    )


def _candidates(
    minor: str, environ: Mapping[str, str], system_folders: Sequence[str]
) -> Iterator[tuple[str, list[Path]]]:
    """Each place in words, with the files there that could be a Python of ``minor``."""
    name = f"python{minor}"
    pyenv = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/")) / ".pyenv")
    # A shim is a script that starts whichever version pyenv has switched on, or fails; uv would
    # start every one of them.
    folders = [Path(folder) for folder in environ.get("PATH", "").split(os.pathsep) if folder]
    # The shims also say where pyenv is, to a process whose HOME is not the user's.
    shims = [folder for folder in folders if _is_shims(folder)]
    pyenvs = dict.fromkeys([pyenv, *(folder.parent for folder in shims)])
    folders = [folder for folder in folders if folder not in shims]
    uv = read_indexes(environ).uv_environment() | {
        "UV_PYTHON_SEARCH_PATH": os.pathsep.join(map(str, folders)),
        "UV_PYTHON_DOWNLOADS": "never",
    }
    yield "uv (uv python list)", list(_known_to_uv(minor, tuple(sorted(uv.items()))))
    for root in pyenvs:
        versions = (root / "versions").glob(f"{minor}*/bin/{name}")
        yield f"pyenv's versions under {root}", sorted(versions)
    yield f"{name} on PATH", [folder / name for folder in folders if (folder / name).exists()]
    for pattern in system_folders:
        folders = sorted(Path("/").glob(pattern.lstrip("/")))
        yield pattern, [folder / name for folder in folders if (folder / name).exists()]


def _is_shims(folder: Path) -> bool:
    return folder.name == "shims" and (folder.parent / "versions").is_dir()


@functools.cache
def _known_to_uv(minor: str, environment: tuple[tuple[str, str], ...]) -> tuple[Path, ...]:
    listed = run_uv(
        ["python", "list", minor, "--only-installed", "--output-format", "json"],
        dict(environment),
        asked=f"the list of Pythons {minor} that uv knows",
        todo="see what is wrong with the uv on PATH",
        timeout_s=60.0,
    )
    return tuple(Path(entry["path"]) for entry in json.loads(listed) if entry["path"])


def _download(
    minor: str, floor: Version | None, environ: Mapping[str, str]
) -> tuple[Interpreter | None, str]:
    """Let uv download one: the interpreter, or None and why not."""
    wanted = f">={floor},<3.{floor.minor + 1}" if floor else minor
    environment = read_indexes(environ).uv_environment()
    asked = f"uv python install {wanted!r}"
    try:
        run_uv(
            ["python", "install", wanted, "--no-bin"],
            environment,
            asked=asked,
            todo="reach the network",
        )
        path = run_uv(
            ["python", "find", wanted, "--managed-python", "--no-project"],
            environment,
            asked=asked,
            todo="reach the network",
        ).strip()
        _known_to_uv.cache_clear()
        return examine(Path(path)), ""
    except HarnessError as error:
        return None, f"{asked}: {error.found}"
    except NotAnInterpreterError as error:
        return None, f"{asked}: what it brought does not run: {error}"


def _none(minor: str, patch_floor: str | None, search: Search, refusal: str) -> HarnessError:
    least = f" (at least {patch_floor})" if patch_floor else ""
    found = [f"{one.version} at {one.path}, below the floor" for one in search.found]
    found += [f"refused {reason}" for reason in search.refused]
    found += [f"looked at {place}" for place in search.places]
    todo = f"install it: `uv python install {minor}`, pyenv, or `apt-get install python{minor}`"
    if search.found:
        todo += "; or allow the older one by name with below_patch_floor = true"
    return HarnessError(
        f"an interpreter for Python {minor}{least}",
        "none\n    " + "\n    ".join([*found, refusal]),
        todo,
    )
