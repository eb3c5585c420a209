"""Hold a contract against what a leg recorded: one verdict for each check, whatever happened."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from exacthead.contracts import series
from exacthead.contracts.checks import observe
from exacthead.contracts.points import AbsentError, UnmetError
from exacthead.errors import HarnessError
from exacthead.runs import files
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.contracts.model import AnyCheck, Contract


@dataclass(frozen=True)
class CheckResult:
    """One check with its verdict.

    Attributes:
        metric: the metrics that it reads, joined by a comma; empty for a check on the whole file.
        observed: what was recorded, for people.
        bound: what was demanded, for people.
    """

    name: str
    kind: str
    metric: str
    verdict: Verdict
    observed: str
    bound: str


@dataclass(frozen=True)
class ContractResult:
    """Every check of a contract, in its order, with its verdict."""

    contract: str
    checks: tuple[CheckResult, ...]

    def __post_init__(self) -> None:
        if not self.checks:
            # Law 2: a contract that checked nothing would be green.
            msg = f"the contract {self.contract!r} has no result"
            raise ValueError(msg)

    def of_kind(self, kind: Kind) -> tuple[CheckResult, ...]:
        """The checks whose verdict is of ``kind``."""
        return tuple(check for check in self.checks if check.verdict.kind is kind)

    @property
    def verdict(self) -> Verdict:
        """Passed only when each check passed; else the first reason and how many there are."""
        failed, not_run = self.of_kind(Kind.FAILED), self.of_kind(Kind.NOT_RUN)
        if failed:
            count = f"{len(failed)} of {len(self.checks)} checks failed"
            first = f"first {failed[0].name!r}: {failed[0].verdict.reason}"
            return Verdict(Kind.FAILED, f"{count}; {first}")
        if not_run:
            return Verdict(Kind.NOT_RUN, not_run[0].verdict.reason)
        return Verdict(Kind.PASSED)


def evaluate(
    contract: Contract, metrics_path: Path, *, reason_if_missing: str | None = None
) -> ContractResult:
    """Hold each check of ``contract`` against the metrics file of a leg that was started.

    Args:
        contract: the checks.
        metrics_path: the metrics.jsonl of the leg; it may be missing, empty or broken.
        reason_if_missing: what befell the leg (``the leg crashed: signal 9``), as the reason of the
            checks for which something was not recorded; None when its script ended by itself.

    Returns:
        A passed or failed verdict for each check. A check that cannot be evaluated failed. Of a
        broken file the lines before the first broken one are evaluated, but nothing passes.
    """
    recording = series.read(metrics_path)
    return ContractResult(
        contract.name,
        tuple(_result(check, recording, reason_if_missing) for check in contract.checks),
    )


def not_run(contract: Contract, reason: str) -> ContractResult:
    """The result of a leg that was never started, because of ``reason``."""
    verdict = Verdict(Kind.NOT_RUN, reason)
    return ContractResult(
        contract.name, tuple(_named(check, verdict, "nothing") for check in contract.checks)
    )


def _result(check: AnyCheck, recording: series.Recording, reason: str | None) -> CheckResult:
    def failed(why: str, observed: str, *, absent: bool) -> CheckResult:
        cause = f"{reason}; {why}" if absent and reason else why
        return _named(check, Verdict(Kind.FAILED, cause), observed)

    if recording.state in {series.State.MISSING, series.State.EMPTY}:
        return failed(recording.problem, "nothing", absent=True)
    broken = recording.state is series.State.BROKEN
    try:
        observed = observe(check, recording.metrics)
    except AbsentError as error:
        why = f"{recording.problem}; {error.message}" if broken else error.message
        return failed(why, error.observed, absent=True)
    except UnmetError as error:
        return failed(error.message, error.observed, absent=False)
    if broken:
        why = f"{recording.problem}; the lines before it satisfy the check, but are not the whole"
        return failed(why, observed, absent=True)
    return _named(check, Verdict(Kind.PASSED), observed)


def _named(check: AnyCheck, verdict: Verdict, observed: str) -> CheckResult:
    metric = ", ".join(check.metrics)
    return CheckResult(check.name, check.kind, metric, verdict, observed, check.bound)


def write_json(result: ContractResult, path: Path) -> None:
    """Write ``result`` as the run folder's contract.json; the file appears whole or not at all.

    Raises:
        HarnessError: the disk is full, or the folder cannot be written to.
    """
    verdict = result.verdict
    data = {
        "contract": result.contract,
        "verdict": verdict.kind,
        "reason": verdict.reason,
        "checks": [asdict(check) for check in result.checks],
    }
    files.write_json(path, data)


def read_json(path: Path) -> ContractResult:
    """Read what :func:`write_json` wrote.

    Raises:
        HarnessError: the file is missing or holds something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        checks = tuple(_check_result(check) for check in data["checks"])
        return ContractResult(data["contract"], checks)
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = f"{type(error).__name__}: {error}"
        todo = "run the leg again; its contract.json is missing or damaged"
        raise HarnessError(f"read {path}", found, todo) from error


def _check_result(data: dict[str, Any]) -> CheckResult:
    verdict = Verdict(Kind(data["verdict"]["kind"]), data["verdict"]["reason"])
    return CheckResult(**{**data, "verdict": verdict})
