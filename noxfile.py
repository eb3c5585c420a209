"""The sessions: each hands its arguments to `python -m exacthead` in the harness's environment.

`nox -l` lists them; `nox -s NAME -- --help` shows a session's options. Works from any nox: nothing
but nox is imported before that environment has been found or built, and a nox whose Python is too
old for it is told so.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
# Ctrl-C at a terminal reaches the harness too; a SIGINT to nox alone does not, so that nox soon
# passes the wish on. A harness that has it already takes it once more and goes on ending.
INTERRUPT_S = 0.5
# Time for the harness to end its items and to write down that it was interrupted.
PATIENCE_S = 10.0

nox.options.default_venv_backend = "none"
nox.options.sessions = ["unit"]


def exacthead(session: nox.Session, *arguments: str) -> None:
    """Run one harness command; Ctrl-C leaves it the time it needs to clean up."""
    sys.path.insert(0, str(ROOT / "ci"))
    from exacthead import bootstrap
    from exacthead.errors import HarnessError

    try:
        python, environment = bootstrap.harness_python(ROOT), bootstrap.harness_environment(ROOT)
    except HarnessError as error:
        session.error(str(error))
    ran = session.run(
        str(python),
        *("-m", "exacthead", *arguments, *session.posargs),
        env=environment,
        external=True,
        interrupt_timeout=INTERRUPT_S,
        terminate_timeout=PATIENCE_S,
    )
    if ran is None:
        session.error("nothing was run: nox was told to install only")


@nox.session
def functional_gym_training(session: nox.Session) -> None:
    """The main job: one proven training step on a NeMo Gym environment."""
    exacthead(session, "functional", "gym_training")


@nox.session
def functional_gym_training_split(session: nox.Session) -> None:
    """The same step with generation beside training, the weights by broadcast."""
    exacthead(session, "functional", "gym_training_split")


@nox.session
def functional_single_controller(session: nox.Session) -> None:
    """Five steps of the single controller over TransferQueue: flag off, and with token capture."""
    exacthead(session, "functional", "single_controller")


@nox.session
def functional_single_controller_chaos(session: nox.Session) -> None:
    """The single controller with token capture made to fail for real, one leg a fault; long."""
    exacthead(session, "functional", "single_controller_chaos")


@nox.session
def functional_verifier_acceptance(session: nox.Session) -> None:
    """Gym's verifiers alone: every answer gets the verdict that is expected of it."""
    exacthead(session, "functional", "verifier_acceptance")


@nox.session
def functional_rollout_acceptance(session: nox.Session) -> None:
    """Rollouts through vLLM and Gym without training: tokens, log-probs, turns, stops."""
    exacthead(session, "functional", "rollout_acceptance")


@nox.session
def functional_learning(session: nox.Session) -> None:
    """Sixty steps on questions of arithmetic, from wrong answers to right ones; some minutes."""
    exacthead(session, "functional", "learning")


@nox.session
def plan(session: nox.Session) -> None:
    """Show what would run, where, with which workers and images, and why; runs nothing."""
    exacthead(session, "plan")


@nox.session
def run(session: nox.Session) -> None:
    """Run what `plan` shows for the same options (-- --level L1 --only-failed-of RUN ...)."""
    exacthead(session, "run")


@nox.session
def unit(session: nox.Session) -> None:
    """Every unit suite, each in its own worker (-- --suite NAME for one)."""
    exacthead(session, "unit")


@nox.session
def chaos(session: nox.Session) -> None:
    """The main job made to fail for real: dead and hanging processes, full disks, Ctrl-C."""
    exacthead(session, "unit", "--suite", "chaos")


@nox.session
def foreign(session: nox.Session) -> None:
    """Exacthead in two real repositories that are not ours, against plain pytest."""
    exacthead(session, "unit", "--suite", "foreign")


@nox.session
def impact(session: nox.Session) -> None:
    """Run unit suites slowly, to learn which tests run which code (for unit -- --changed-since)."""
    exacthead(session, "impact")


@nox.session
def record(session: nox.Session) -> None:
    """Take the times of a run into the recorded durations: -- RUN."""
    exacthead(session, "record")


@nox.session
def workers(session: nox.Session) -> None:
    """Build all workers or the named ones; also --list, --verify, --explain A B, --gc SIZE."""
    exacthead(session, "workers")


@nox.session
def images(session: nox.Session) -> None:
    """Build the head's images; also --verify REF, --explain, --export, --push, --pull, --gc GB."""
    exacthead(session, "images")


@nox.session
def lock(session: nox.Session) -> None:
    """Write the lock of each worker and flavour (-- --check: only say which are stale)."""
    exacthead(session, "lock")


@nox.session
def lint(session: nox.Session) -> None:
    """Every static check, each finding with file, line and fix (-- --fix mends what is safe)."""
    exacthead(session, "lint")


@nox.session
def workflows(session: nox.Session) -> None:
    """Generate the files of CI services (-- --check: only say which are stale)."""
    exacthead(session, "workflows")


@nox.session
def merge(session: nox.Session) -> None:
    """Merge run folders of one plan into one run: -- --plan plan.json FOLDER..."""
    exacthead(session, "merge")


@nox.session
def retry(session: nox.Session) -> None:
    """Run what was not green in a run once more, and merge both: -- RUN."""
    exacthead(session, "retry")


@nox.session
def trust(session: nox.Session) -> None:
    """Say which commit may run: an outside pull request's only where it is vouched for."""
    exacthead(session, "trust")


@nox.session
def dashboard(session: nox.Session) -> None:
    """Write the history of all runs as static pages: runs/dashboard, or -- --out FOLDER."""
    exacthead(session, "dashboard")


@nox.session
def reproduce(session: nox.Session) -> None:
    """Replay one item of a run: -- RUN/ITEM."""
    exacthead(session, "reproduce")


@nox.session
def ci(session: nox.Session) -> None:
    """The sessions that harness.toml lists under [ci]."""
    import tomllib  # came with Python 3.11

    declared = tomllib.loads((ROOT / "ci" / "harness.toml").read_text(encoding="utf-8"))
    for name in declared.get("ci", {}).get("sessions", []):
        session.notify(name)
