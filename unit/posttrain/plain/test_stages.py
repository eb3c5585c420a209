"""Stages: recorded times, progress, deadlines."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from posttrain.errors import StackError, WorkerError
from posttrain.stages import Stages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Long against any deadline here, so that only an interruption ends it.
FOREVER_S = 600.0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def stages(log: Path) -> Iterator[Stages]:
    with log.open("w", encoding="utf-8") as stream:
        yield Stages(stream)


def within(stages: Stages, name: str, deadline_s: float, work: Callable[[], object]) -> None:
    with stages.stage(name, deadline_s):
        work()


def nothing() -> None:
    pass


def wait_so_that_it_shows_in_the_stacks() -> None:
    time.sleep(FOREVER_S)


def test_a_stage_is_recorded_under_its_metric_and_taken_once(stages: Stages, log: Path) -> None:
    within(stages, "refit", 60, nothing)
    timings = stages.take_timings()
    assert list(timings) == ["timing/refit"]
    assert timings["timing/refit"] > 0
    assert stages.take_timings() == {}
    assert "refit: starts, deadline 60 s\n" in log.read_text()
    assert "refit: done after " in log.read_text()


def test_repeats_of_a_stage_add_up(stages: Stages) -> None:
    for _ in range(2):
        within(stages, "refit", 60, lambda: time.sleep(0.02))
    # Twice what one sleep takes at least.
    assert stages.take_timings()["timing/refit"] >= 0.04


def test_a_stage_that_no_metric_declares_is_refused(stages: Stages) -> None:
    with pytest.raises(StackError, match="did you mean 'timing/refit'"):
        within(stages, "refti", 60, nothing)


def test_a_stage_over_its_deadline_is_interrupted_with_stacks_and_its_name(log: Path) -> None:
    calls: list[str] = []
    with log.open("w", encoding="utf-8") as stream:
        stages = Stages(stream, on_overrun=lambda: calls.append("others dump too"))
        with pytest.raises(WorkerError) as caught:
            within(stages, "training", 0.05, wait_so_that_it_shows_in_the_stacks)
    assert caught.value.asked == "finish the stage 'training' within 0.05 s"
    assert caught.value.found.startswith("still at work after ")
    assert "timeouts" in caught.value.todo
    assert list(stages.take_timings()) == ["timing/training"]
    text = log.read_text()
    assert "training: over its deadline of 0.05 s" in text
    assert "wait_so_that_it_shows_in_the_stacks" in text
    assert "training: failed after" in text
    assert calls == ["others dump too"]


def test_an_outer_deadline_interrupts_an_inner_stage(stages: Stages) -> None:
    def inner() -> None:
        within(stages, "training", FOREVER_S, lambda: time.sleep(FOREVER_S))

    with pytest.raises(WorkerError, match="the stage 'step'"):
        within(stages, "step", 0.05, inner)
    assert set(stages.take_timings()) == {"timing/step", "timing/training"}


def test_an_outer_deadline_stays_armed_after_an_inner_stage(stages: Stages) -> None:
    def inner_and_more() -> None:
        within(stages, "training", FOREVER_S, nothing)
        time.sleep(FOREVER_S)

    with pytest.raises(WorkerError, match="the stage 'step'"):
        within(stages, "step", 0.2, inner_and_more)


def test_the_outer_deadline_holds_when_the_inner_stage_hangs_in_its_clean_up(
    stages: Stages,
) -> None:
    def inner() -> None:
        with stages.stage("training", 0.05):
            try:
                time.sleep(FOREVER_S)
            finally:
                time.sleep(FOREVER_S)

    with pytest.raises(WorkerError, match="the stage 'step'"):
        within(stages, "step", 0.3, inner)


def test_an_overrun_that_the_block_swallows_is_raised_when_it_ends(stages: Stages) -> None:
    def swallow() -> None:
        with contextlib.suppress(WorkerError):
            time.sleep(FOREVER_S)

    with pytest.raises(WorkerError, match="the stage 'refit'"):
        within(stages, "refit", 0.05, swallow)


def test_a_waiting_event_loop_is_interrupted(stages: Stages) -> None:
    with pytest.raises(WorkerError, match="the stage 'generation'"):
        within(stages, "generation", 0.05, lambda: asyncio.run(asyncio.sleep(FOREVER_S)))


def test_a_main_thread_that_joins_another_is_interrupted(stages: Stages) -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        with pytest.raises(WorkerError, match="the stage 'start'"):
            within(stages, "start", 0.05, thread.join)
    finally:
        release.set()
        thread.join()


def test_a_stage_of_another_thread_dumps_stacks_and_fails_when_it_ends(log: Path) -> None:
    errors: list[WorkerError] = []
    rung = threading.Event()

    def work(stages: Stages) -> None:
        try:
            within(stages, "start_gym", 0.05, rung.wait)
        except WorkerError as error:
            errors.append(error)

    with log.open("w", encoding="utf-8") as stream:
        thread = threading.Thread(target=work, args=[Stages(stream, on_overrun=rung.set)])
        thread.start()
        thread.join()
    assert [error.asked for error in errors] == ["finish the stage 'start_gym' within 0.05 s"]
    assert "start_gym: over its deadline" in log.read_text()


def test_threads_record_their_stages_side_by_side(stages: Stages) -> None:
    both_inside = threading.Barrier(2)
    names = ("start_gym", "start_policy")

    def start_both() -> None:
        threads = [
            threading.Thread(target=within, args=[stages, name, 60, both_inside.wait])
            for name in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    within(stages, "start", 60, start_both)
    assert set(stages.take_timings()) == {"timing/start", *(f"timing/{name}" for name in names)}


def test_an_error_of_the_block_passes_unchanged_and_is_timed(stages: Stages, log: Path) -> None:
    with pytest.raises(KeyError, match="mine"):
        within(stages, "refit", 60, lambda: {}["mine"])
    assert list(stages.take_timings()) == ["timing/refit"]
    assert "refit: failed after" in log.read_text()


def test_no_alarm_and_no_handler_are_left_behind(stages: Stages) -> None:
    before = signal.getsignal(signal.SIGALRM)
    handlers = []
    within(stages, "step", 60, lambda: handlers.append(signal.getsignal(signal.SIGALRM)))
    with pytest.raises(WorkerError):
        within(stages, "refit", 0.05, lambda: time.sleep(FOREVER_S))
    assert handlers[0] != before
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_overrun_that_library_code_wraps_in_its_own_error_still_names_the_stage() -> None:
    def wrapping() -> None:
        # What Cython does with an exception that a signal handler raises inside it.
        try:
            time.sleep(30)
        except WorkerError as error:
            msg = "returned a result with an exception set"
            raise SystemError(msg) from error

    with (
        pytest.raises(WorkerError, match=r"'refit' within 0\.05 s"),
        Stages(sys.__stderr__).stage("refit", 0.05),
    ):
        wrapping()


def test_a_stage_of_a_task_is_cancelled_at_its_deadline_and_others_go_on(
    stages: Stages, log: Path
) -> None:
    async def overrun() -> None:
        async with stages.awaited("refit", 0.05):
            await asyncio.sleep(FOREVER_S)

    async def both() -> list[object]:
        return await asyncio.gather(overrun(), asyncio.sleep(0.2, "mine"), return_exceptions=True)

    late, other = asyncio.run(both())
    assert isinstance(late, WorkerError)
    assert late.asked == "finish the stage 'refit' within 0.05 s"
    assert other == "mine"
    assert "refit: over its deadline" in log.read_text()
    assert list(stages.take_timings()) == ["timing/refit"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_stage_of_a_task_that_is_cancelled_from_outside_did_not_overrun(
    stages: Stages, log: Path
) -> None:
    async def cancelled() -> None:
        async with stages.awaited("refit", 60):
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert "over its deadline" not in log.read_text()
    assert "refit: failed after" in log.read_text()


def test_a_timeout_of_the_block_itself_is_not_the_stages(stages: Stages) -> None:
    async def own() -> None:
        async with stages.awaited("refit", 60):
            raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        asyncio.run(own())
