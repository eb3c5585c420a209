"""uv, the one tool that locks and installs: where it is, and how it is called."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def find_uv(environment: Mapping[str, str]) -> str:
    """The path of the ``uv`` that PATH of ``environment`` names first.

    Raises:
        HarnessError: there is none.
    """
    found = shutil.which("uv", path=environment.get("PATH", ""))
    if found is None:
        raise HarnessError(
            "uv, which locks and installs the workers",
            "no uv on PATH",
            "call ./noxw, which brings its own, or install uv",
        )
    return found


def run_uv(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    asked: str,
    todo: str,
    timeout_s: float = 900.0,
) -> str:
    """Run ``uv`` to its end and return its standard output.

    Args:
        arguments: what follows ``uv``.
        environment: the whole environment of the call; nothing else is inherited.
        asked: what the call is for, in the words of an error.
        todo: what a person does when it fails.
        timeout_s: seconds after which it is ended.

    Raises:
        HarnessError: uv failed or did not end; with the last lines that it wrote.
    """
    try:
        done = subprocess.run(
            [find_uv(environment), *arguments],
            env=dict(environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise HarnessError(asked, f"uv did not end within {timeout_s:g} s", todo) from error
    if done.returncode != 0:
        said = "\n    ".join(done.stderr.strip().splitlines()[-20:])
        raise HarnessError(asked, f"uv left with exit code {done.returncode}:\n    {said}", todo)
    return done.stdout
