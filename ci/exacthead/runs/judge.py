"""From an item's facts to its verdict (law 2: nothing that did not run, or leaked, is green)."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from exacthead.runs.echo import visible
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.runs.order import Facts

# A shell gives 128 + n when its command died by signal n.
_SHELL_SIGNALS = 128
_TAIL_BYTES = 4096
_TAIL_LINES = 5


def signal_name(returncode: int | None) -> str | None:
    """The name of the signal behind a negative return code."""
    if returncode is None or returncode >= 0:
        return None
    return _name(-returncode)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_lines(log: Path) -> str:
    """The last lines of a log that are not empty, joined by `` | ``, safe to show."""
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        text = file.read().decode("utf-8", errors="replace")
    lines = [line.strip() for line in visible(text).split("\n") if line.strip()]
    return " | ".join(line[-200:] for line in lines[-_TAIL_LINES:])


def judge(facts: Facts, log: Path, timeout_s: float, memory_limit_mb: float | None) -> Verdict:
    """The verdict on an item.

    Args:
        facts: what the supervisor saw.
        log: the item's log, quoted where it says why.
        timeout_s: the limit that was set, in seconds.
        memory_limit_mb: the limit that was set, in MiB.
    """
    verdict = _own_verdict(facts, log, timeout_s, memory_limit_mb)
    if not facts.leftovers:
        return verdict
    left = f"left behind: {'; '.join(facts.leftovers)}"
    if verdict.kind is Kind.PASSED:
        return Verdict(Kind.FAILED, f"exit code 0, but {left}")
    return Verdict(verdict.kind, f"{verdict.reason}; {left}")


def _own_verdict(
    facts: Facts, log: Path, timeout_s: float, memory_limit_mb: float | None
) -> Verdict:
    match facts.ended_by:
        case "timeout":
            return Verdict(
                Kind.TIMED_OUT, f"the leg's limit of {timeout_s:g} s; where it stood: stacks.txt"
            )
        case "memory":
            return Verdict(
                Kind.FAILED,
                f"used {facts.peak_pss_mb:.0f} MiB; its limit is {memory_limit_mb or 0:.0f} MiB",
            )
        case "interrupt" | "harness":
            return Verdict(Kind.INTERRUPTED, f"ended from outside after {facts.seconds:.1f} s")
        case "start":
            return Verdict(Kind.NOT_RUN, f"it could not be started: {facts.error}")
        case "supervisor":
            return Verdict(Kind.CRASHED, f"its supervisor died: {facts.error}")
        case _:
            return _exit_verdict(facts, log)


def _exit_verdict(facts: Facts, log: Path) -> Verdict:
    code = facts.returncode
    if code == 0:
        return Verdict(Kind.PASSED)
    said = last_lines(log)
    tail = f"; last lines: {said}" if said else "; it wrote nothing"
    memory = (
        f"; meanwhile the kernel's out-of-memory killer ended {facts.oom_kills} process(es)"
        if facts.oom_kills > 0
        else ""
    )
    if code is None:
        return Verdict(Kind.CRASHED, f"its end was not seen{memory}{tail}")
    if code < 0:
        return Verdict(Kind.CRASHED, f"ended by {_name(-code)}{memory}{tail}")
    number = code - _SHELL_SIGNALS
    if number in set(signal.Signals):
        return Verdict(
            Kind.CRASHED,
            f"exit code {code}, a shell's word for {_name(number)} in its command{memory}{tail}",
        )
    return Verdict(Kind.FAILED, f"exit code {code}{memory}{tail}")
