"""The sessions: each hands its arguments to `python -m exacthead` in the locked harness environment.

`nox -l` lists them; `nox -s NAME -- --help` shows a session's options. Works from any nox: nothing
but nox is imported before that environment has been found or built.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import nox

ROOT = Path(__file__).parent
nox.options.default_venv_backend = "none"
nox.options.sessions = ["unit"]


def exacthead(session: nox.Session, *arguments: str, silent: bool = False) -> str:
    """Run one harness command; Ctrl-C leaves it the time it needs to clean up."""
    path = ROOT / "ci" / "exacthead" / "bootstrap.py"
    spec = spec_from_file_location("exacthead_bootstrap", path)
    bootstrap = module_from_spec(spec)
    spec.loader.exec_module(bootstrap)
    return session.run(
        str(bootstrap.harness_python(ROOT)),
        *("-m", "exacthead", *arguments, *session.posargs),
        env={"PYTHONPATH": str(ROOT / "ci"), "PATH": bootstrap.harness_path(ROOT)},
        external=True,
        silent=silent,
        interrupt_timeout=8.0,
        terminate_timeout=8.0,
    )


@nox.session
def functional_gym_training(session: nox.Session) -> None:
    """The main job: one proven training step on a NeMo Gym environment."""
    exacthead(session, "functional", "gym_training")


@nox.session
def unit(session: nox.Session) -> None:
    """Every unit suite, each in its own worker (-- --suite NAME for one)."""
    exacthead(session, "unit")


@nox.session
def workers(session: nox.Session) -> None:
    """Build all workers or the named ones; also --list, --verify, --explain A B, --gc SIZE."""
    exacthead(session, "workers")


@nox.session
def lock(session: nox.Session) -> None:
    """Write the lock of each worker and flavour (-- --check: only say which are stale)."""
    exacthead(session, "lock")


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting, lint rules, types, shell scripts, locks (-- --fix mends what is safe)."""
    exacthead(session, "lint")


@nox.session
def reproduce(session: nox.Session) -> None:
    """Replay one item of a run: -- RUN/ITEM."""
    exacthead(session, "reproduce")


@nox.session
def ci(session: nox.Session) -> None:
    """The sessions that harness.toml lists under [ci]."""
    for name in exacthead(session, "ci", silent=True).split():
        session.notify(name)
