"""Running the items of a run: each result is kept as soon as it is there, whatever comes next."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.runs.folder import State
from exacthead.runs.gates import Gates
from exacthead.runs.item import ItemOutcome, ItemRequest, run_item
from exacthead.runs.packing import DEVICES, Capacity, Packing
from exacthead.runs.result import ItemResult
from exacthead.runs.watch import Nobody, Watch
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

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


def _as_it_is(result: ItemResult) -> ItemResult:
    return result


@dataclass
class Execution:
    """Running the items of one run.

    Attributes:
        folder: the run's folder.
        interrupts: entered by the caller; once asked, what runs is ended and the rest is not run.
        conclude: turns an item's outcome into its result, where its contract is looked at; called
            for every item, those that were not run included, one after the other.
        clean: takes out of a result what must not be kept or shown.
        capacity: what there is for items that run at once.
        watch: is told of items that begin, of what their logs grow by, and of their ends.
        gates: which items wait for which.
        fail_fast: once a required item is red no further one begins; what runs goes on to its end.
        kept: results of items that have run already, in the same run.
    """

    folder: RunFolder
    interrupts: Interrupts
    conclude: Callable[[ItemRequest, ItemOutcome], ItemResult] = plain_result
    clean: Callable[[ItemResult], ItemResult] = _as_it_is
    capacity: Capacity = field(default_factory=Capacity)
    watch: Watch = field(default_factory=Nobody)
    gates: Gates = field(default_factory=partial(Gates, {}))
    fail_fast: bool = False
    kept: Sequence[ItemResult] = ()
    _broken: bool = field(default=False, init=False)
    # What judges results need not be safe to use by several threads.
    _concluding: Lock = field(default_factory=Lock, init=False)
    _results: dict[str, ItemResult] = field(default_factory=dict, init=False)
    # The first of this execution; what was settled before or stands from before ends nothing.
    _red: ItemResult | None = field(default=None, init=False)

    def run(self, requests: Sequence[ItemRequest]) -> tuple[State, list[ItemResult]]:
        """Run all items and keep their results and the run's state; one red item stops no other.

        Items start in their order, but one that has to wait, for its gates or for what it asks of
        the machine, lets others pass.

        Args:
            requests: the items.

        Returns:
            The run's state and the results: those kept, then those of ``requests`` in their order.

        Raises:
            HarnessError: when a result cannot be kept; the items that run are ended first.
        """
        _check_distinct(requests)
        self._results = {result.item_id: result for result in self.kept}
        self.folder.write_state(State.RUNNING, _kinds(self._results))
        waiting, packing = list(requests), Packing(self.capacity)
        with ThreadPoolExecutor(self.capacity.jobs, thread_name_prefix="item") as pool:
            running: dict[Future[ItemResult], str] = {}
            try:
                while waiting or running:
                    running |= self._begin(pool, packing, waiting)
                    # Short waits: the main thread must come round for a signal to be noticed.
                    done, _ = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                    for future in done:
                        packing.give_back(running.pop(future))
                        result = future.result()
                        self._results[result.item_id] = result
                        if result.required and not result.verdict.green:
                            self._red = self._red or result
                    if done:
                        self.folder.write_state(State.RUNNING, _kinds(self._results))
            except BaseException:
                self._broken = True  # the pool waits for the others, which end now
                for request in waiting:
                    pool.submit(self._one, request)
                raise
        ordered = [*self.kept, *(self._results[request.item_id] for request in requests)]
        state = State.INTERRUPTED if self.interrupts.asked() else state_of(ordered)
        self.folder.write_state(state, _kinds(self._results))
        return state, ordered

    def _begin(
        self, pool: ThreadPoolExecutor, packing: Packing, waiting: list[ItemRequest]
    ) -> dict[Future[ItemResult], str]:
        """Start what can start now, settle what never will; both are taken from ``waiting``."""
        begun: dict[Future[ItemResult], str] = {}
        verdicts = {name: result.verdict for name, result in self._results.items()}
        for request in tuple(waiting):
            name, reason = request.item_id, self._halted()
            if packing.full and not reason:
                break  # whatever is further behind has its turn when a place is free
            if not reason and not request.settled:
                if self.gates.waiting(name, verdicts):
                    continue
                reason = self.gates.closed(name, verdicts)
            if reason or request.settled:
                waiting.remove(request)
                self._results[name] = self._one(request, reason)
                verdicts[name] = self._results[name].verdict
                continue
            given = packing.take(name, request.asked)
            if given is not None:
                waiting.remove(request)
                begun[pool.submit(self._one, _with_devices(request, given))] = name
        return begun

    def _stopped(self) -> bool:
        return self.interrupts.asked() or self._broken

    def _halted(self) -> str:
        """Why nothing begins any more; empty while items do."""
        if self._stopped():
            return f"interrupted by {self.interrupts.name or 'an error of the harness'}"
        red = self._red if self.fail_fast else None
        return f"--fail-fast: {red.item_id} is {red.verdict.kind}" if red else ""

    def _one(self, request: ItemRequest, reason: str = "") -> ItemResult:
        outcome = self._outcome(request, reason)
        try:
            with self._concluding:
                result = self.conclude(request, outcome)
        except (HarnessError, OSError) as error:
            # Whatever the item did to its own files costs no other item its verdict.
            result = plain_result(
                request, replace(outcome, verdict=Verdict(Kind.FAILED, str(error)))
            )
        result = self.clean(result)
        request.folder.write_result(result)
        self.watch.end(result)
        return result

    def _outcome(self, request: ItemRequest, reason: str) -> ItemOutcome:
        if request.settled:
            return unstarted(request, request.settled)
        if reason := reason or (self._halted() if self._stopped() else ""):
            return not_run(request, reason)
        self.watch.begin(request.item_id)
        try:
            show = partial(self.watch.write, request.item_id)
            return run_item(request, echo=show, stop=self._stopped)
        except HarnessError as error:
            return not_run(request, str(error))
        except OSError as error:
            lost = Verdict(Kind.CRASHED, f"the harness could not follow it to its end: {error}")
            return unstarted(request, lost)


def _with_devices(request: ItemRequest, devices: tuple[str, ...]) -> ItemRequest:
    """The request with the accelerators that it was given, if it was given any."""
    if not devices:
        return request
    return replace(request, environment={**request.environment, DEVICES: ",".join(devices)})


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
