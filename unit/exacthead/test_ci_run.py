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
PACKAGES = "git libnuma1 docker.io tini mmdebstrap skopeo docker-registry chromium"


@pytest.fixture
def ci(tmp_path: Path) -> Callable[..., tuple[int, str, list[str]]]:
    """A function that runs the script: exit code, what it printed, and what it called."""
    calls = tmp_path / "calls"

    def program(path: Path, body: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(
        *, lacks: str = "", docker: str = "exit 0", noxw: str = "exit 0"
    ) -> tuple[int, str, list[str]]:
        root, tools = tmp_path / "checkout", tmp_path / "tools"
        (root / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "run", root / ".ci" / "run")
        program(root / "noxw", f'echo "noxw $*" >>{calls}\n{noxw}')
        program(tools / "dpkg", f'shift; for each; do [ "$each" != "{lacks}" ] || exit 1; done')
        program(tools / "apt-get", f'echo "apt-get $*" >>{calls}')
        program(tools / "docker", docker)
        program(tools / "dockerd", f'echo "dockerd $*" >>{calls}\necho "no iptables"\nexit 1')
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


def test_a_machine_that_has_everything_gets_nothing_and_its_engine_is_used(
    ci: Callable[..., tuple[int, str, list[str]]],
) -> None:
    code, _, calls = ci()

    assert (code, calls) == (0, SESSIONS)


def test_what_is_missing_is_installed_first(
    ci: Callable[..., tuple[int, str, list[str]]],
) -> None:
    code, _, calls = ci(lacks="libnuma1")

    install = f"apt-get install -y -qq --no-install-recommends {PACKAGES}"
    assert code == 0
    assert calls == ["apt-get update -qq", install, *SESSIONS]


def test_an_engine_that_does_not_start_says_why_and_keeps_nothing_from_running(
    ci: Callable[..., tuple[int, str, list[str]]],
) -> None:
    code, printed, calls = ci(docker="exit 1")

    assert (code, calls) == (0, ["dockerd ", *SESSIONS])
    assert "no iptables" in printed


def test_all_sessions_run_and_each_red_one_is_named_at_the_end(
    ci: Callable[..., tuple[int, str, list[str]]],
) -> None:
    red = 'echo "said by $2"; [ "$2" != unit ] || exit 1'

    code, printed, calls = ci(noxw=red)

    assert (code, calls) == (1, SESSIONS)
    assert printed.endswith("--- the end of unit ---\nsaid by unit\nfailed: unit\n")
