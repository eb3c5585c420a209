"""Find or fetch uv, build the locked harness environment, run nox in it. Standard library only.

Run as a script by ``noxw`` before anything is installed, and loaded by the noxfile, whose nox may
live anywhere: so this module imports nothing but the standard library, not even its own package.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
OLDEST_UV = (0, 9)


class BootstrapError(Exception):
    """Something is missing before the harness itself can run: what was asked, found, to do."""

    def __init__(self, asked: str, found: str, todo: str) -> None:
        super().__init__(asked, found, todo)

    def __str__(self) -> str:
        return "{}\n  found: {}\n  to do: {}".format(*self.args)


def cache_folder(root: Path) -> Path:
    """The folder for everything that can be made again: ``EXACTHEAD_CACHE`` or ``.cache``."""
    return Path(os.environ.get("EXACTHEAD_CACHE") or root / ".cache").resolve()


def find_uv(root: Path) -> Path:
    """The uv on PATH, if it is new enough, else the pinned one, fetched once into the cache."""
    on_path = shutil.which("uv")
    if on_path and _uv_version(on_path) >= OLDEST_UV:
        return Path(on_path)
    pinned = (root / "ci" / "locks" / "uv.txt").read_text(encoding="utf-8")
    version, hashes = _read_pin(pinned)
    uv = cache_folder(root) / "uv" / version / "uv"
    if not uv.exists():
        print(f"noxw: no uv on PATH, fetching uv {version}", file=sys.stderr, flush=True)
        _unpack_uv(_fetch(version, hashes), uv)
    return uv


def _uv_version(uv: str) -> tuple[int, ...]:
    done = subprocess.run([uv, "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"uv (\d+)\.(\d+)", done.stdout)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def _read_pin(text: str) -> tuple[str, frozenset[str]]:
    version = re.search(r"^uv==(\S+)", text, re.MULTILINE)
    if version is None:
        raise BootstrapError("a pinned uv", "no `uv==` line in ci/locks/uv.txt", "restore the file")
    return version[1], frozenset(re.findall(r"sha256:([0-9a-f]{64})", text))


def _machine_tag() -> str:
    """The end of the name of the wheel that runs here."""
    tags = {"x86_64": "manylinux2014_x86_64.whl", "aarch64": "manylinux2014_aarch64.whl"}
    machine = platform.machine()
    if sys.platform != "linux" or machine not in tags:
        raise BootstrapError(
            "a uv for this machine", f"{sys.platform} {machine}", "install uv and put it on PATH"
        )
    return tags[machine]


def _fetch(version: str, hashes: frozenset[str]) -> Path:
    fetch = load_module(HERE / "fetch.py")
    pip_config = load_module(HERE / "pip_config.py")
    config = pip_config.read_pip_config(os.environ)
    sources = fetch.indexes(config, os.environ, pip_config.default_index())
    try:
        wheel = fetch.fetch_wheel(f"uv-{version}-", hashes, _machine_tag(), sources, config.cert)
    except fetch.FetchError as error:
        raise BootstrapError(*error.args) from None
    return Path(wheel)


def load_module(path: Path) -> ModuleType:
    """Import one standard-library-only file by its path, without touching ``sys.path``."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"exacthead_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise BootstrapError(f"load {path}", "not a Python file", "restore it from git")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _unpack_uv(wheel: Path, uv: Path) -> None:
    uv.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/scripts/uv"))
        partial = uv.with_name(f"uv.{os.getpid()}")
        partial.write_bytes(archive.read(name))
    partial.chmod(0o755)
    partial.rename(uv)
    wheel.unlink()


def harness_python(root: Path) -> Path:
    """The interpreter of the harness environment, built first if its lock asks for a new one.

    The environment is named by the digest of its lock, the interpreter and uv's view of the index;
    the ``ready`` file is written last, under a lock that the kernel drops if the builder dies.
    """
    lock = root / "ci" / "locks" / "harness.txt"
    base = json.dumps([sys.implementation.cache_tag, platform.python_version(), sys.base_prefix])
    key = hashlib.sha256(lock.read_bytes() + base.encode()).hexdigest()[:24]
    home = cache_folder(root) / "harness"
    environment, ready = home / key, home / f"{key}.ready"
    python = environment / "bin" / "python"
    if ready.exists() and python.exists():
        return python
    home.mkdir(parents=True, exist_ok=True)
    with (home / f"{key}.lock").open("w") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        if not (ready.exists() and python.exists()):
            _build(find_uv(root), lock, environment)
            ready.touch()
    return python


def _build(uv: Path, lock: Path, environment: Path) -> None:
    print("noxw: building the harness environment", file=sys.stderr, flush=True)
    shutil.rmtree(environment, ignore_errors=True)
    base = getattr(sys, "_base_executable", sys.executable)
    pip_config = load_module(HERE / "pip_config.py")
    sources = pip_config.uv_arguments(pip_config.read_pip_config(os.environ))
    quiet = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}
    for command in (
        [uv, "venv", "--quiet", "--no-project", "--no-config", "--python", base, environment],
        [
            *(uv, "pip", "sync", "--quiet", "--no-config", "--require-hashes"),
            *("--compile-bytecode", "--python", environment / "bin" / "python"),
            *sources,
            lock,
        ],
    ):
        done = subprocess.run([str(part) for part in command], env=quiet, check=False)
        if done.returncode != 0:
            raise BootstrapError(
                "the harness environment",
                f"`{command[0]} {command[1]} ...` failed with exit code {done.returncode}",
                "read uv's words above; is a package index reachable?",
            )


def harness_path(root: Path) -> str:
    """PATH for the harness: it finds the same uv that its environment was built with."""
    return os.pathsep.join([str(find_uv(root).parent), os.environ.get("PATH", os.defpath)])


def main(arguments: list[str]) -> None:
    """Replace this process by nox in the harness environment."""
    root = Path(arguments[0])
    try:
        python = harness_python(root)
        path = harness_path(root)
    except BootstrapError as error:
        sys.exit(f"noxw: {error}")
    nox = [str(python), "-m", "nox", "--noxfile", str(root / "noxfile.py"), *arguments[1:]]
    os.execve(nox[0], nox, {**os.environ, "PATH": path})


if __name__ == "__main__":
    main(sys.argv[1:])
