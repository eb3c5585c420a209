"""BuildKit: a client that can ask for it, one build, and whether that really worked.

The SDK for Python knows only the old builder, which has no secrets; a ``docker`` program without
its plugin ``buildx`` refuses BuildKit unless it is older than version 23, which has it built in.
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.environ import clean_environment
from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.images.engine import Engine

# The first version whose BuildKit is in a plugin only.
_APART = 23
_SYSTEM = ("/usr/bin/docker", "/usr/local/bin/docker")
DEADLINE_S = 3600.0
_ANSWER_S = 30
_SHOWN = 15
# All forms that BuildKit knows, and at the file's beginning it skips a byte order mark:
# https://github.com/moby/buildkit/blob/master/frontend/dockerfile/parser/directives.go
_SYNTAX = re.compile(rb"\s*(#|//)\s*syntax\s*=", re.IGNORECASE)


@dataclass(frozen=True)
class BuildOrder:
    """One build.

    Attributes:
        dockerfile: the file.
        context: the folder that its steps can look into.
        target: the stage.
        arguments: build arguments.
        secrets: files that steps may read, by id; they get into no layer.
        fresh: whether earlier builds count for nothing.
        deadline_s: seconds after which it is ended.
    """

    dockerfile: Path
    context: Path
    target: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Path] = field(default_factory=dict)
    fresh: bool = False
    deadline_s: float = DEADLINE_S


@cache
def find_client(path: str) -> tuple[str, ...]:
    """How BuildKit is asked for on this machine: the command's first words.

    Args:
        path: a PATH.

    Raises:
        HarnessError: no ``docker`` program here can; each is named with its reason.
    """
    refused = []
    folders = [folder for folder in path.split(os.pathsep) if folder]
    programs = [str(Path(folder, "docker")) for folder in folders]
    for program in dict.fromkeys([*programs, *_SYSTEM]):
        if not shutil.which(program):
            continue
        if _says([program, "buildx", "version"]):
            return (program, "buildx", "build", "--load")
        version = _says([program, "--version"])
        major = re.search(r"version (\d+)\.", version)
        if major and int(major[1]) < _APART:
            return (program, "build")
        refused.append(f"{program}: {version.strip() or 'does not run'}, without buildx")
    raise HarnessError(
        "a docker program that can ask for BuildKit",
        "\n    ".join(["", *refused]) if refused else "no docker program on PATH",
        "apt-get install docker.io (Debian 12's has BuildKit built in), or docker-buildx",
    )


def build(engine: Engine, order: BuildOrder, log: Path) -> str:
    """Build one stage; returns the id of the image.

    What the build prints goes to ``log``. Only the exit code, and the image that the engine then
    has, say that it worked: a line of success may stand before an error.

    Raises:
        HarnessError: it failed, with the end of what it printed.
    """
    asked = f"build {order.dockerfile.name}, stage {order.target}"
    check_dockerfile(order.dockerfile)
    command = [*find_client(os.environ.get("PATH", os.defpath))]
    command += ["--file", str(order.dockerfile), "--target", order.target]
    command += ["--network", "host", "--progress", "plain"]
    command += ["--no-cache"] if order.fresh else []
    for name, value in sorted(order.arguments.items()):
        command += ["--build-arg", f"{name}={value}"]
    for name, path in sorted(order.secrets.items()):
        command += ["--secret", f"id={name},src={path}"]
    with tempfile.TemporaryDirectory() as folder, log.open("ab") as file:
        written = Path(folder) / "id"
        try:
            done = subprocess.run(
                [*command, "--iidfile", str(written), str(order.context)],
                env={
                    **clean_environment(os.environ),
                    "DOCKER_HOST": engine.host,
                    "DOCKER_BUILDKIT": "1",
                    "BUILDKIT_PROGRESS": "plain",
                },
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                check=False, timeout=order.deadline_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            found = f"not done after {order.deadline_s:g} s"
            raise HarnessError(asked, found, f"read {log}") from error
        image = written.read_text(encoding="ascii").strip() if written.exists() else ""
    if done.returncode != 0 or not image:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        said = "\n    ".join(lines[-_SHOWN:])
        raise HarnessError(asked, f"exit code {done.returncode}:\n    {said}", _todo(said, log))
    if engine.image(image) is None:
        raise HarnessError(asked, f"the engine has no image {image} after it", f"read {log}")
    return image


def check_dockerfile(path: Path) -> None:
    """Refuse a Dockerfile that would fetch its own reader from a registry.

    Raises:
        HarnessError: it is not there, or has a ``# syntax=`` line.
    """
    try:
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
    except OSError as error:
        raise HarnessError(
            f"the Dockerfile {path}", str(error.strerror), "mend `dockerfile` of the image"
        ) from error
    first = next((line for line in lines if line.strip() and not line.startswith(b"#!")), b"")
    for number, line in enumerate(lines, 1):
        # A file that begins as JSON is one whose reader has a name in it.
        if _SYNTAX.match(line) or (line is first and line.lstrip().startswith(b"{")):
            raise HarnessError(
                f"the Dockerfile {path}",
                f"line {number} is {line.decode(errors='replace').strip()!r}, which every build"
                " would pull from a registry",
                "remove the line: the builder's own syntax is enough",
            )


def _todo(said: str, log: Path) -> str:
    if "no space left on device" in said.lower():
        return "make room for the engine (docker system df), then ask again"
    if "buildkit" in said.lower() and "not" in said.lower():
        return "use an engine that has BuildKit (docker 18.09 or newer)"
    return f"mend what it says; all of it is in {log}"


def _says(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
