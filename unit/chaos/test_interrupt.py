"""Ctrl-C and SIGKILL at several moments of the main job, through the harness."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import TYPE_CHECKING

import pytest

from unit.chaos.tree import ENDING_S, MANY, ROOT, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from unit.chaos.tree import Training

# The harness promises five seconds; a machine that is busy elsewhere wakes processes late.
GONE_S = 8.0
LEG = "gym_training.flag_off"


@pytest.mark.parametrize("stage", ["cluster", "start_policy", "generation"])
def test_ctrl_c_ends_everything_and_the_run_folder_says_interrupted(
    noxw: Callable[[], Session], measured: Callable[[str], None], stage: str
) -> None:
    session = noxw()
    session.until(stage)

    os.killpg(session.process.pid, signal.SIGINT)
    measured(f"gone {session.seconds_until_gone(GONE_S):.1f} s after Ctrl-C")

    assert_interrupted(session)


def test_sigint_to_nox_alone_ends_everything_too(
    noxw: Callable[[], Session], measured: Callable[[str], None]
) -> None:
    session = noxw()
    session.until("generation")

    session.process.send_signal(signal.SIGINT)
    measured(f"gone {session.seconds_until_gone(GONE_S):.1f} s after SIGINT")

    assert_interrupted(session)
    kept = session.item_folder() / "artifacts" / "ray" / "session_latest" / "logs"
    assert list(kept.glob("raylet*")), "Ray's logs are kept"


def test_everything_goes_with_a_harness_that_is_killed(
    noxw: Callable[[], Session], measured: Callable[[str], None]
) -> None:
    session = noxw()
    session.until("generation")

    session.harness().kill()
    measured(f"gone {session.seconds_until_gone(GONE_S):.1f} s after SIGKILL")

    session.nothing_is_left()
    assert session.wait(GONE_S) != 0
    # The dead cannot write; whoever reads it finds its writer gone and calls it abandoned.
    assert session.state() == "running"


def test_ctrl_c_ends_a_run_without_the_harness_too(
    train: Callable[..., Training], measured: Callable[[str], None]
) -> None:
    run = train(MANY)
    run.until("generation")

    os.killpg(run.process.pid, signal.SIGINT)
    measured(f"gone {run.seconds_until_gone(ENDING_S):.1f} s after Ctrl-C")

    assert run.wait(GONE_S) == 130
    run.nothing_is_left()
    assert run.printed().endswith("posttrain: interrupted\n")
    assert run.metrics() == []


def assert_interrupted(session: Session) -> None:
    """Everything that a run owes to whoever interrupts it."""
    assert session.wait(GONE_S) == 130
    session.nothing_is_left()
    assert session.state() == "interrupted"
    folder = session.item_folder()
    result = json.loads((folder / "result.json").read_bytes())
    assert result["verdict"]["kind"] == "interrupted"
    checks = json.loads((folder / "contract.json").read_bytes())["checks"]
    assert len(checks) > 10
    assert {check["verdict"]["kind"] for check in checks} == {"not_run"}
    line = f"./noxw -s reproduce -- {session.run_folder().relative_to(ROOT)}/{LEG}"
    assert result["reproduction"] == line
    assert line in session.printed()
    assert re.search(r"(?m)^0 passed, \d+ failed, 0 skipped$", session.printed())
