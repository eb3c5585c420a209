from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from exacthead.runs.packing import Asked, Capacity, Packing
from exacthead.tables import Runner

ITEMS = st.lists(
    st.builds(
        Asked,
        cpus=st.integers(1, 6),
        memory_gb=st.floats(0.1, 12),
        accelerators=st.integers(0, 3),
    ),
    max_size=12,
)
CAPACITIES = st.builds(
    Capacity,
    jobs=st.integers(1, 5),
    cpus=st.integers(1, 8),
    memory_gb=st.floats(1, 16),
    devices=st.integers(0, 4).map(lambda count: tuple(map(str, range(count)))),
)


@given(items=ITEMS, capacity=CAPACITIES, ends=st.randoms(use_true_random=False))
def test_what_runs_at_once_never_asks_for_more_than_there_is_and_all_get_their_turn(
    items: list[Asked], capacity: Capacity, ends: st.DataObject
) -> None:
    packing = Packing(capacity)
    waiting = {str(number): asked for number, asked in enumerate(items)}
    running: dict[str, tuple[Asked, tuple[str, ...]]] = {}
    while waiting or running:
        for name in tuple(waiting):
            given_to = packing.take(name, waiting[name])
            if given_to is not None:
                running[name] = waiting.pop(name), given_to
        # Also where one asks for more than all there is: then it runs, and alone.
        assert running
        if len(running) > 1:
            assert len(running) <= capacity.jobs
            assert sum(asked.cpus for asked, _ in running.values()) <= capacity.cpus
            used = sum(asked.memory_gb for asked, _ in running.values())
            assert used <= capacity.memory_gb + 1e-5
        devices = [name for _, given_to in running.values() for name in given_to]
        assert len(devices) == len(set(devices))
        assert set(devices) <= set(capacity.devices)
        for asked, given_to in running.values():
            assert len(given_to) == min(asked.accelerators, len(capacity.devices))
        gone = ends.choice(sorted(running))  # type: ignore[attr-defined]
        del running[gone]
        packing.give_back(gone)


def test_a_small_item_passes_one_that_has_to_wait() -> None:
    packing = Packing(Capacity(jobs=3, cpus=2, memory_gb=4))
    assert packing.take("half", Asked(1, 1)) == ()
    assert packing.take("whole", Asked(2, 1)) is None
    assert packing.take("other half", Asked(1, 3)) == ()
    assert packing.take("none", Asked(1, 0.1)) is None
    packing.give_back("half")
    packing.give_back("other half")
    assert packing.take("whole", Asked(2, 1)) == ()


def test_fractions_of_memory_add_up() -> None:
    packing = Packing(Capacity(jobs=3, memory_gb=0.3))
    assert [packing.take(name, Asked(1, 0.1)) for name in "abc"] == [(), (), ()]


def test_accelerators_are_those_that_the_harness_may_see_and_each_goes_to_one_item() -> None:
    runner = Runner(cpus=8, memory_gb=64, accelerators=3)
    capacity = Capacity.of(runner, 4, {"CUDA_VISIBLE_DEVICES": "5, GPU-7,2,9"})
    assert capacity.devices == ("5", "GPU-7", "2")
    assert Capacity.of(runner, 4, {}).devices == ("0", "1", "2")

    packing = Packing(capacity)
    assert packing.take("a", Asked(accelerators=2)) == ("5", "GPU-7")
    assert packing.take("b", Asked(accelerators=2)) is None
    assert packing.take("c", Asked(accelerators=1)) == ("2",)
    packing.give_back("a")
    assert packing.take("b", Asked(accelerators=2)) == ("5", "GPU-7")


def test_without_limits_only_the_number_of_items_counts() -> None:
    assert (Capacity().jobs, Capacity().cpus, Capacity().memory_gb) == (1, math.inf, math.inf)
