"""Only an explicit, right answer from every worker is a successful refit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RefitError
from posttrain.refit.acknowledgement import (
    Acknowledgement,
    Served,
    check_acknowledgements,
    check_sampled_with,
)

WORKERS = ["generation-0", "generation-1"]
NAMES = ("a.weight", "b.weight")
CHECKSUM = "c" * 64


def good(worker: str, **changes: Any) -> Acknowledgement:
    return replace(
        Acknowledgement(worker, ok=True, names=NAMES, checksum=CHECKSUM, weight_version=1),
        **changes,
    )


def check(acks: list[Any], workers: list[str] = WORKERS) -> int:
    return check_acknowledgements(acks, workers, NAMES, CHECKSUM, 1)


def test_one_right_answer_from_each_worker_is_counted() -> None:
    assert check([good("generation-1"), good("generation-0")]) == 2


@pytest.mark.parametrize(
    "acks",
    [[], [None, None], [True, True], ["2"], [2], [1.5], [0], ["generation-0", "generation-1"]],
)
def test_what_is_no_acknowledgement_never_counts(acks: list[Any]) -> None:
    with pytest.raises(RefitError):
        check(acks)


@pytest.mark.parametrize(
    ("acks", "words"),
    [
        ([good("generation-0")], "no acknowledgement from generation-1"),
        ([good("generation-0"), None], "None is no acknowledgement"),
        ([good("generation-0")] * 2, "generation-0 answered 2 times"),
        ([good("generation-0"), good("stranger")], "stranger is not an expected worker"),
        ([good("generation-0"), good("generation-1", ok=False)], "generation-1 did not load"),
        ([good("generation-0"), good("generation-1", ok=1)], "ok is 1"),
        ([good("generation-0"), good("generation-1", names=NAMES[:1])], "did not load b.weight"),
        (
            [good("generation-0"), good("generation-1", names=(*NAMES, "x"))],
            "generation-1 loaded x, which was not sent",
        ),
        (
            [good("generation-0"), good("generation-1", names=(*NAMES, "b.weight"))],
            "generation-1 loaded b.weight more than once",
        ),
        ([good("generation-0"), good("generation-1", checksum="d" * 64)], "generation-1 serves"),
        (
            [good("generation-0"), good("generation-1", weight_version=2)],
            "generation-1 states weight version 2, not 1",
        ),
        # The answer to an earlier refit, again: a step that changed nothing has its checksum too.
        (
            [good("generation-0", weight_version=0), good("generation-1", weight_version=0)],
            "generation-0 states weight version 0, not 1",
        ),
        (
            [good("generation-0", weight_version=True), good("generation-1")],
            "generation-0 states weight version True",
        ),
    ],
)
def test_a_wrong_answer_is_named(acks: list[Any], words: str) -> None:
    with pytest.raises(RefitError) as refusal:
        check(acks)
    assert words in str(refusal.value)


def test_a_refit_of_no_workers_or_no_names_or_no_checksum_is_refused() -> None:
    with pytest.raises(RefitError):
        check([], [])
    with pytest.raises(RefitError, match="no names were sent"):
        check_acknowledgements([good("w", names=())], ["w"], [], CHECKSUM, 1)
    with pytest.raises(RefitError):
        check_acknowledgements([good("w", checksum="")], ["w"], NAMES, "", 1)


answers = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=3),
    st.builds(
        Acknowledgement,
        worker=st.sampled_from([*WORKERS, "stranger"]),
        ok=st.sampled_from([True, True, True, False, 1, None]),
        names=st.sampled_from([NAMES, NAMES, NAMES[::-1], NAMES[:1], (*NAMES, "x")]),
        checksum=st.sampled_from([CHECKSUM, CHECKSUM, "d" * 64]),
        weight_version=st.sampled_from([1, 1, 2]),
    ),
)


@given(st.lists(answers, max_size=4))
def test_success_is_exactly_one_right_answer_from_each_worker(acks: list[Any]) -> None:
    right = (
        all(isinstance(ack, Acknowledgement) for ack in acks)
        and sorted(ack.worker for ack in acks) == WORKERS
        and all(ack.ok is True and sorted(ack.names) == list(NAMES) for ack in acks)
        and all(ack.checksum == CHECKSUM for ack in acks)
        and all(ack.weight_version == 1 for ack in acks)
    )
    if right:
        assert check(acks) == len(WORKERS)
    else:
        with pytest.raises(RefitError):
            check(acks)


@given(st.permutations(range(5)))
def test_the_order_of_answers_does_not_matter(order: list[int]) -> None:
    workers = [f"generation-{index}" for index in range(5)]
    assert check([good(workers[index]) for index in order], workers) == 5


def serving(checksum: str = CHECKSUM, version: int = 3) -> Served:
    return Served(version, checksum)


def test_a_batch_counts_when_every_worker_sampled_it_with_the_policys_weights() -> None:
    assert check_sampled_with(dict.fromkeys(WORKERS, serving()), CHECKSUM, [3, 3, 3]) == 3


def test_samples_may_be_behind_by_as_much_as_the_caller_says() -> None:
    served = dict.fromkeys(WORKERS, serving())
    assert check_sampled_with(served, CHECKSUM, [3, 1, 2], 2) == 3
    for versions in ([3, 0], [3, 4], [3, None]):
        with pytest.raises(RefitError, match=f"1 of 2 samples are of version {versions[1]}"):
            check_sampled_with(served, CHECKSUM, versions, 2)


@pytest.mark.parametrize(
    ("served", "versions", "words"),
    [
        ([serving(), serving("d" * 64)], [3], "generation-1 serves 'd"),
        ([serving(""), serving()], [3], "generation-0 serves ''"),
        ([], [3], "1 of 1 samples are of version 3"),
        ([serving()], [], "1 workers, 0 samples"),
        ([serving(), serving()], [3, 2, 2], "2 of 3 samples are of version 2, the workers serve 3"),
        ([serving(), serving()], [3, None], "1 of 2 samples are of version None"),
        ([serving(), serving(version=4)], [3, 4], "version 3, the workers serve 3, 4"),
        ([serving(version=4)], [3], "1 of 1 samples are of version 3, the workers serve 4"),
    ],
)
def test_a_batch_that_other_weights_sampled_is_never_trained_on(
    served: list[Served], versions: list[int | None], words: str
) -> None:
    by_name = {f"generation-{number}": each for number, each in enumerate(served)}
    with pytest.raises(RefitError, match=words):
        check_sampled_with(by_name, CHECKSUM, versions)


def test_no_checksum_is_no_proof_of_equal_weights() -> None:
    with pytest.raises(RefitError):
        check_sampled_with({WORKERS[0]: serving("")}, "", [3])
