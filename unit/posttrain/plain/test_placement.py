"""Device arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.config import Recipe, load_recipe
from posttrain.errors import RecipeError
from posttrain.placement import Placement, Seat, check_machine, check_transport, plan_devices

GYM_TRAINING = Path(__file__).parents[3] / "functional/recipes/gym_training.yaml"
GIVEN = ["run.dir=r", "interpreters.policy=p", "interpreters.generation=g", "interpreters.gym=y"]
RECIPE = load_recipe(GYM_TRAINING, GIVEN).recipe


def recipe(
    *,
    ranks: int = 2,
    workers: int = 2,
    parallel: int = 1,
    colocated: bool = True,
    cpus: int = 2,
    accelerators: int = 0,
) -> Recipe:
    return RECIPE.model_copy(
        update={
            "cluster": RECIPE.cluster.model_copy(
                update={"cpus": cpus, "accelerators": accelerators}
            ),
            "policy": RECIPE.policy.model_copy(update={"ranks": ranks}),
            "generation": RECIPE.generation.model_copy(
                update={"workers": workers, "tensor_parallel": parallel, "colocated": colocated}
            ),
        }
    )


def test_the_gym_training_recipe_shares_two_cpus() -> None:
    placement = plan_devices(RECIPE)
    assert placement == Placement(
        "CPU",
        2,
        (
            Seat("policy/0", (0,), 0.5),
            Seat("policy/1", (1,), 0.5),
            Seat("generation/0", (0,), 0.5),
            Seat("generation/1", (1,), 0.5),
        ),
    )
    assert placement.bundles == [{"CPU": 1.0}, {"CPU": 1.0}]
    assert placement.options(placement.seat("policy/1")) == {"num_cpus": 0.5, "num_gpus": 0.0}


def test_the_split_recipe_gives_the_rank_and_the_engine_a_cpu_each() -> None:
    split = load_recipe(GYM_TRAINING.with_name("gym_training_split.yaml"), GIVEN).recipe
    assert plan_devices(split) == Placement(
        "CPU", 2, (Seat("policy/0", (0,), 1.0), Seat("generation/0", (1,), 1.0))
    )
    check_transport(split)


def test_shared_memory_is_refused_where_generation_may_be_on_another_machine() -> None:
    with pytest.raises(RecipeError, match="another machine") as caught:
        check_transport(recipe(colocated=False))
    assert "broadcast" in caught.value.todo
    check_transport(recipe(colocated=True))
    for transport in ("broadcast", "http"):
        for colocated in (True, False):
            asked = recipe(colocated=colocated)
            refit = asked.refit.model_copy(update={"transport": transport})
            check_transport(asked.model_copy(update={"refit": refit}))


def test_split_engines_follow_the_ranks_and_take_whole_accelerators() -> None:
    placement = plan_devices(recipe(parallel=2, colocated=False, accelerators=6))
    assert placement.bundles == [{"GPU": 1.0}] * 6
    assert placement.seat("policy/1") == Seat("policy/1", (1,), 1.0)
    assert placement.seat("generation/0") == Seat("generation/0", (2, 3), 1.0)
    assert placement.seat("generation/1") == Seat("generation/1", (4, 5), 1.0)
    assert placement.options(placement.seat("generation/1")) == {"num_cpus": 0.0, "num_gpus": 1.0}


def test_a_colocated_tensor_parallel_engine_spans_the_devices_of_its_ranks() -> None:
    placement = plan_devices(recipe(ranks=3, workers=1, parallel=2, accelerators=4))
    assert placement.devices == 3
    assert placement.seat("generation/0") == Seat("generation/0", (0, 1), 0.5)


def test_too_few_accelerators_for_a_split_are_refused_with_the_sum_in_words() -> None:
    with pytest.raises(RecipeError) as caught:
        plan_devices(recipe(parallel=2, colocated=False, accelerators=2))
    assert caught.value.found == (
        "2 policy ranks + 2 generation workers x 2 tensor parallel = 6 accelerators,"
        " cluster.accelerators is 2"
    )
    assert "raise cluster.accelerators" in caught.value.todo


def test_too_few_cpus_for_a_split_are_refused_with_the_sum_in_words() -> None:
    with pytest.raises(RecipeError) as caught:
        plan_devices(recipe(ranks=1, workers=2, parallel=2, colocated=False, cpus=4))
    assert caught.value.found == (
        "1 policy rank + 2 generation workers x 2 tensor parallel = 5 CPUs, cluster.cpus is 4"
    )


def test_too_few_cpus_for_colocation_are_refused_with_the_maximum_in_words() -> None:
    with pytest.raises(RecipeError) as caught:
        plan_devices(recipe(ranks=1, workers=3))
    assert caught.value.found == (
        "colocated, the larger of 1 policy rank and 3 generation workers x 1 tensor parallel"
        " = 3 CPUs, cluster.cpus is 2"
    )
    assert "raise cluster.cpus" in caught.value.todo


def test_many_cpus_do_not_make_up_for_missing_accelerators() -> None:
    with pytest.raises(RecipeError, match=r"cluster\.accelerators is 1"):
        plan_devices(recipe(cpus=64, accelerators=1))


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(1, 6), st.integers(1, 4), st.booleans(), st.integers(0, 40))
def test_no_device_is_ever_overbooked(
    ranks: int, workers: int, parallel: int, colocated: bool, accelerators: int
) -> None:
    asked = recipe(
        ranks=ranks,
        workers=workers,
        parallel=parallel,
        colocated=colocated,
        cpus=40,
        accelerators=accelerators,
    )
    engines = workers * parallel
    needed = max(ranks, engines) if colocated else ranks + engines
    if accelerators and needed > accelerators:
        with pytest.raises(RecipeError, match=f"= {needed} accelerators?, .* is {accelerators}"):
            plan_devices(asked)
        return
    placement = plan_devices(asked)
    assert placement.devices == needed
    assert placement.resource == ("GPU" if accelerators else "CPU")
    taken = [0.0] * needed
    for seat in placement.seats:
        for bundle in seat.bundles:
            taken[bundle] += seat.fraction
    assert max(taken) <= 1.0
    assert min(taken) > 0.0
    assert [seat.actor for seat in placement.seats] == [
        *(f"policy/{rank}" for rank in range(ranks)),
        *(f"generation/{worker}" for worker in range(workers)),
    ]
    assert {len(seat.bundles) for seat in placement.seats[ranks:]} == {parallel}


def test_a_runner_that_has_enough_is_accepted() -> None:
    check_machine(recipe(), cpus=2, accelerators=0)


def test_a_runner_that_is_short_is_refused_with_every_number() -> None:
    with pytest.raises(RecipeError) as caught:
        check_machine(recipe(cpus=4, accelerators=2), cpus=2, accelerators=1)
    assert caught.value.found == (
        "it asks for 4 CPUs (cluster.cpus), the runner has 2"
        " and for 2 accelerators (cluster.accelerators), the runner has 1"
    )


def test_a_runner_that_is_short_of_one_thing_is_told_only_that() -> None:
    with pytest.raises(RecipeError) as caught:
        check_machine(recipe(cpus=2, accelerators=1), cpus=2, accelerators=0)
    assert caught.value.found == (
        "it asks for 1 accelerator (cluster.accelerators), the runner has 0"
    )
