"""Running the items of a run: each result is kept as soon as it is there, whatever comes next."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.runs.folder import State
from exacthead.runs.item import ItemOutcome, ItemRequest, run_item
from exacthead.runs.result import ItemResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from exacthead.runs.folder import RunFolder
    from exacthead.runs.interrupt import Interrupts

_POLL_S = 0.1

_EXIT_CODES = {State.PASSED: 0, State.FAILED: 1, State.INTERRUPTED: 130}


def plain_result(request: ItemRequest, outcome: ItemOutcome) -> ItemResult:
    """The result of an item that has nothing to check beyond its own end."""
    return ItemResult(
        item_id=request.item_id,
        verdict=outcome.verdict,
        returncode=outcome.returncode,
        signal=outcome.signal,
        seconds=outcome.seconds,
        started=outcome.started,
        peak_pss_mb=outcome.peak_pss_mb,
        leftovers=outcome.leftovers,
        notes=outcome.notes,
    )


@dataclass
class Execution:
    """Running the items of one run.

    Attributes:
        folder: the run's folder.
        interrupts: entered by the caller; once asked, what runs is ended and the rest is not run.
        conclude: turns an item's outcome into its result, where its contract is looked at; called
            for every item, those that were not run included.
        parallel: how many items run at once.
        echo: gets an item's id and what its log grew by.
    """

    folder: RunFolder
    interrupts: Interrupts
    conclude: Callable[[ItemRequest, ItemOutcome], ItemResult] = plain_result
    parallel: int = 1
    echo: Callable[[str, str], object] | None = None
    _broken: bool = field(default=False, init=False)

    def run(self, requests: Sequence[ItemRequest]) -> tuple[State, list[ItemResult]]:
        """Run all items and keep their results and the run's state; one red item stops no other.

        Args:
            requests: the items, in the order in which they start.

        Returns:
            The run's state and the results, in the order of ``requests``.

        Raises:
            HarnessError: when a result cannot be kept; the items that run are ended first.
        """
        results: dict[str, ItemResult] = {}
        _check_distinct(requests)
        with ThreadPoolExecutor(self.parallel, thread_name_prefix="item") as pool:
            pending = {pool.submit(self._one, request) for request in requests}
            try:
                while pending:
                    # Short waits: the main thread must come round for a signal to be noticed.
                    done, pending = wait(pending, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                    for future in done:
                        result = future.result()
                        results[result.item_id] = result
                    if done:
                        self.folder.write_state(State.RUNNING, _kinds(results))
            except BaseException:
                self._broken = True  # the pool waits for the others, which end now
                raise
        ordered = [results[request.item_id] for request in requests]
        state = State.INTERRUPTED if self.interrupts.asked() else state_of(ordered)
        self.folder.write_state(state, _kinds(results))
        return state, ordered

    def _stopped(self) -> bool:
        return self.interrupts.asked() or self._broken

    def _one(self, request: ItemRequest) -> ItemResult:
        outcome = self._outcome(request)
        try:
            result = self.conclude(request, outcome)
        except (HarnessError, OSError) as error:
            # Whatever the item did to its own files costs no other item its verdict.
            result = plain_result(
                request, replace(outcome, verdict=Verdict(Kind.FAILED, str(error)))
            )
        request.folder.write_result(result)
        return result

    def _outcome(self, request: ItemRequest) -> ItemOutcome:
        if request.settled:
            return unstarted(request, request.settled)
        if self._stopped():
            reason = f"interrupted by {self.interrupts.name or 'an error of the harness'}"
            return not_run(request, reason)
        show = partial(self.echo, request.item_id) if self.echo else None
        try:
            return run_item(request, echo=show, stop=self._stopped)
        except HarnessError as error:
            return not_run(request, str(error))
        except OSError as error:
            lost = Verdict(Kind.CRASHED, f"the harness could not follow it to its end: {error}")
            return unstarted(request, lost)


def not_run(request: ItemRequest, reason: str) -> ItemOutcome:
    """The outcome of an item that should have been started and was not."""
    return unstarted(request, Verdict(Kind.NOT_RUN, reason))


def unstarted(request: ItemRequest, verdict: Verdict) -> ItemOutcome:
    """The outcome of an item of which there is nothing but a verdict."""
    return ItemOutcome(
        verdict=verdict,
        returncode=None,
        signal=None,
        seconds=0.0,
        peak_pss_mb=0.0,
        leftovers=(),
        notes=(),
        log=request.folder.log,
    )


def _check_distinct(requests: Sequence[ItemRequest]) -> None:
    twice = [name for name, n in Counter(each.item_id for each in requests).items() if n > 1]
    if twice:
        raise HarnessError(
            "items with distinct ids", f"more than once: {', '.join(twice)}", "mend the plan"
        )


def state_of(results: Sequence[ItemResult]) -> State:
    """The run's state from its items: passed if there are any and every required one is green."""
    if results and all(result.verdict.green for result in results if result.required):
        return State.PASSED
    return State.FAILED


def exit_code(state: State) -> int:
    """What the command that ran it exits with: 0 passed, 1 failed, 130 interrupted."""
    return _EXIT_CODES.get(state, 1)


def _kinds(results: dict[str, ItemResult]) -> dict[str, str]:
    return {item_id: str(result.verdict.kind) for item_id, result in results.items()}
