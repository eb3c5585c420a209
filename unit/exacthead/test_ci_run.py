"""What ``.ci/run`` does, with stand-ins for everything that it calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
NUMA = "libnuma.so.1 (libc6,x86-64) => /lib/libnuma.so.1"
# More than a pipe holds, so that a reader that leaves early is noticed.
OTHER = "libother.so.1 (libc6) => /lib/libother.so.1"
OTHERS = f"i=0; while [ $i -lt 4000 ]; do echo '{OTHER}'; i=$((i+1)); done"


@pytest.fixture
def ci(tmp_path: Path) -> Callable[..., tuple[int, str, list[str]]]:
    """A function that runs the script: exit code, what it printed, and what it called."""
    calls = tmp_path / "calls"

    def program(path: Path, body: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(*, libraries: str, noxw: str = "exit 0") -> tuple[int, str, list[str]]:
        root, tools = tmp_path / "checkout", tmp_path / "tools"
        (root / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "run", root / ".ci" / "run")
        program(root / "noxw", f'echo "noxw $*" >>{calls}\n{noxw}')
        program(tools / "ldconfig", libraries)
        program(tools / "apt-get", f'echo "apt-get $*" >>{calls}')
        done = subprocess.run(
            [str(root / ".ci" / "run")],
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout, calls.read_text(encoding="utf-8").splitlines()

    return run


SESSIONS = ["noxw -s functional_gym_training", "noxw -s unit -- --strict", "noxw -s ci"]


def test_nothing_is_installed_on_a_machine_that_has_everything(
    ci: Callable[..., tuple[int, str, list[str]]],
) -> None:
    code, _, calls = ci(libraries=f"echo '{NUMA}'; {OTHERS}")

    assert (code, calls) == (0, SESSIONS)


def test_what_is_missing_is_installed_first(
    ci: Callable[..., tuple[int, str, list[str]]],
) -> None:
    code, _, calls = ci(libraries=OTHERS)

    assert code == 0
    assert calls == ["apt-get update -qq", "apt-get install -y -qq git libnuma1", *SESSIONS]


def test_all_sessions_run_and_each_red_one_is_named_at_the_end(
    ci: Callable[..., tuple[int, str, list[str]]],
) -> None:
    red = 'echo "said by $2"; [ "$2" != unit ] || exit 1'

    code, printed, calls = ci(libraries=f"echo '{NUMA}'", noxw=red)

    assert (code, calls) == (1, SESSIONS)
    assert printed.endswith("--- the end of unit ---\nsaid by unit\nfailed: unit\n")
