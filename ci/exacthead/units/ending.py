"""What the end of a pytest process means: whose fault it is, and whether the rest can go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.units.death import ORDINARY, how_it_ended, last_line, what_pytest_says
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from exacthead.units.pytest_process import PytestProcess


@dataclass(frozen=True)
class Cut:
    """Why the driver itself ended a process.

    Attributes:
        kind: ``timed_out`` or ``interrupted``.
        reason: in one line.
        test: what was in flight then; empty for nothing.
        file: what was being collected then; empty for nothing.
        text: where it stood.
    """

    kind: Kind
    reason: str
    test: str
    file: str
    text: str = ""


@dataclass(frozen=True)
class Ending:
    """The meaning of one end.

    Attributes:
        kind: what became of the process; passed when it ended as it should.
        reason: in one line; empty when it ended as it should.
        test: the test that was in flight; it takes the blame.
        file: the file that was being collected; it takes the blame.
        fault: nobody takes the blame, so that the end is a fault by itself.
        hopeless: another process would end the same way.
        stopped: why pytest wants no further test to run; empty when it does.
    """

    kind: Kind = Kind.PASSED
    reason: str = ""
    test: str = ""
    file: str = ""
    fault: bool = False
    hopeless: bool = False
    stopped: str = ""


def meaning(process: PytestProcess, returncode: int, cut: Cut | None) -> Ending:
    """Judge the end of a process all of whose events have been read."""
    if cut is not None:
        return Ending(
            kind=cut.kind,
            reason=cut.reason,
            test=cut.test,
            file=cut.file,
            fault=not (cut.test or cut.file) and cut.kind is not Kind.INTERRUPTED,
            hopeless=not (cut.test or cut.file or process.ready),
        )
    if process.broken:
        return Ending(Kind.FAILED, "an error came out of a test", stopped=process.stopped)
    if process.uncollectable and process.file:
        return Ending(Kind.FAILED, process.uncollectable, file=process.file)
    how = how_it_ended(returncode, process.kills.since(process.since))
    if process.finished is None:
        return _crash(process, how)
    return _announced(process, process.finished, returncode, how)


def _announced(process: PytestProcess, code: int, returncode: int, how: str) -> Ending:
    """An end that pytest announced, which is not yet one that is as it should be."""
    reason, hopeless = "", False
    if code != returncode:
        reason = f"{how} after pytest was done (with exit code {code})"
    elif code not in ORDINARY and not process.stopped:
        said = last_line(process.trouble or process.log_end())
        reason = f"{what_pytest_says(code)}: {said}"
        hopeless = not process.ready
    elif not (process.asked or process.stopped):
        reason = "pytest ended without asking for a test; does another plugin run them?"
        hopeless = True
    elif code == 1 and not process.failures:
        reason = "pytest's exit code is 1 though no test failed"
    if not reason:
        return Ending(stopped=process.stopped)
    kind = Kind.CRASHED if code != returncode else Kind.FAILED
    return Ending(kind, reason, fault=True, hopeless=hopeless, stopped=process.stopped)


def _crash(process: PytestProcess, how: str) -> Ending:
    """An end that nothing announced."""
    if process.test:
        return Ending(Kind.CRASHED, f"{how} in the middle of the test", test=process.test)
    if process.file:
        reason = f"{how} while it collected this"
        return Ending(Kind.CRASHED, reason, file=process.file)
    if not process.ready:
        said = last_line(process.log_end())
        reason = f"{how} before it collected a file{': ' + said if said else ''}"
        return Ending(Kind.CRASHED, reason, fault=True, hopeless=True)
    after = f" after {process.last_test}" if process.last_test else ""
    # A fixture that failed at the end of the session has been told as such.
    reason = f"{how}, outside of any test{after}"
    return Ending(Kind.CRASHED, reason, fault=not process.told_fault)
