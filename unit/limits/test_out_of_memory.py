"""The kernel's out-of-memory killer, for real, and a kill that is none of its."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from unit.exacthead.units.small import Suite

FILE = "tests/test_memory.py"
HUNGRY = """
    import os, signal

    def test_first(): pass
    def test_hungry():
        print("it begins", flush=True)
        held = []
        for _ in range(64):
            held.append(b"x" * (16 << 20))
    def test_middle(): pass
    def test_shot(): os.kill(os.getpid(), signal.SIGKILL)
    def test_last(): pass
"""
FIRST, HUNGRY_ONE, MIDDLE, SHOT, LAST = (
    f"{FILE}::test_{name}" for name in ("first", "hungry", "middle", "shot", "last")
)
SHOT_REASON = "crashed(its process was ended by SIGKILL in the middle of the test)"


def test_a_test_that_takes_more_memory_than_there_is_is_told_from_one_that_is_shot(
    suite: Callable[[Mapping[str, str]], Suite], small_group: Path
) -> None:
    here = suite({FILE: HUNGRY})

    ran = here.run(here.order((FIRST, HUNGRY_ONE, MIDDLE, SHOT, LAST)), group=small_group)

    verdicts = ran.verdicts
    told = verdicts.pop(HUNGRY_ONE)
    assert verdicts == {FIRST: "passed", MIDDLE: "passed", SHOT: SHOT_REASON, LAST: "passed"}
    found = re.fullmatch(
        r"crashed\(its process was ended by the kernel's out-of-memory killer \(1 kill in its "
        r"control group; memory limit 192 MiB, (\d+) MiB used at most\) in the middle of "
        r"the test\)",
        told,
    )
    assert found, told
    assert 100 < int(found[1]) <= 192
    assert "it begins" in ran.results[HUNGRY_ONE].attempts[0].causes[0].text
    assert ran.reading.complete
    assert ran.code == 1


def test_a_kill_without_the_kernels_word_is_an_ordinary_one(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite({FILE: HUNGRY})

    ran = here.run(here.order((FIRST, SHOT, LAST)))

    assert ran.verdicts == {FIRST: "passed", SHOT: SHOT_REASON, LAST: "passed"}
