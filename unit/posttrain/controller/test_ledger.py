"""Admission and bookkeeping, as a state machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from posttrain.controller.ledger import Ledger, Limits, Phase
from posttrain.controller.words import Prompt
from posttrain.data import Row

if TYPE_CHECKING:
    from posttrain.controller.words import Reservation


def prompt(number: int) -> Prompt:
    return Prompt(number, Row(number % 3, {}), "seed")


@pytest.mark.parametrize(
    ("rollouts", "groups", "staleness", "admitted"),
    [
        (8, None, 0, 2),
        (8, None, 1, 4),
        (7, None, 1, 3),
        (2, None, 1, 1),
        (8, 1, 2, 1),
        (80, None, 2, 6),
        # No more than the run's three steps can train.
        (80, None, 9, 6),
    ],
)
def test_admission_keeps_rollouts_groups_window_and_what_is_left_to_train(
    rollouts: int, groups: int | None, staleness: int, admitted: int
) -> None:
    ledger = Ledger(Limits(2, 2, rollouts, groups, staleness, 3))
    number = 0
    while ledger.admits():
        ledger.reserve(prompt(number))
        number += 1
    assert number == admitted
    assert ledger.in_flight == ledger.take_counts().in_flight == 2 * admitted


def test_what_is_retried_needs_no_room_in_the_window_but_a_slot() -> None:
    ledger = Ledger(Limits(2, 1, 2, None, 0, 1))
    first = ledger.reserve(prompt(0))
    assert not ledger.admits()
    ledger.failed(first, again=True)
    assert ledger.admits()
    assert not ledger.wants_prompt()
    again = ledger.retry()
    assert again is not None
    assert (again.prompt, again.attempt) == (first.prompt, 1)
    assert not set(again.ids) & set(first.ids)
    assert not ledger.admits()
    assert ledger.retry() is None


def test_a_group_moves_on_only() -> None:
    ledger = Ledger(Limits(1, 1, 9, None, 5, 5))
    group = ledger.reserve(prompt(0))
    with pytest.raises(ValueError, match="is in flight, not being committed"):
        ledger.committed(group)
    with pytest.raises(ValueError, match="is in flight, not committed"):
        ledger.trained([group], [0])
    ledger.committing(group)
    ledger.committed(group)
    with pytest.raises(ValueError, match="is committed, not in flight or being committed"):
        ledger.failed(group, again=True)
    ledger.trained([group], [0])
    assert ledger.phase(group) is None
    assert ledger.owner(group.ids[0]) is None
    with pytest.raises(ValueError, match="is over"):
        ledger.dropped(group, stale=True)


class Groups(RuleBasedStateMachine):
    """Any order of what may happen to groups."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(Limits(2, 2, 6, None, 1, 4))
        self.taken = self.trained = self.dropped = self.waiting = 0

    def some(self, data: st.DataObject, *phases: Phase) -> Reservation | None:
        groups = self.ledger.groups(*phases)
        return data.draw(st.sampled_from(groups)) if groups else None

    @precondition(lambda self: self.ledger.admits())
    @rule()
    def reserve(self) -> None:
        if self.ledger.retry() is not None:
            self.waiting -= 1
            return
        assert self.taken - self.trained - self.dropped < 2 * 2
        self.ledger.reserve(prompt(self.taken))
        self.taken += 1

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        if group := self.some(data, Phase.RUNNING):
            self.ledger.committing(group)
            self.ledger.committed(group)

    @rule(data=st.data(), again=st.booleans())
    def fail(self, data: st.DataObject, again: bool) -> None:
        if group := self.some(data, Phase.RUNNING):
            self.ledger.failed(group, again=again)
            self.waiting += again
            self.dropped += not again

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        if group := self.some(data, *Phase):
            self.ledger.dropped(group, stale=True)
            self.dropped += 1

    @rule(data=st.data())
    def train(self, data: st.DataObject) -> None:
        if group := self.some(data, Phase.COMMITTED):
            self.ledger.trained([group], [0])
            self.trained += 1

    @rule()
    def advance(self) -> None:
        for old in self.ledger.advance(self.ledger.version + 1):
            assert old.version < self.ledger.version - 1
            self.ledger.dropped(old, stale=True)
            self.dropped += 1

    @invariant()
    def outstanding_is_what_was_taken_and_is_not_over(self) -> None:
        assert self.ledger.outstanding == self.taken - self.trained - self.dropped
        assert self.ledger.in_flight <= 6
        alive = self.ledger.groups(*Phase)
        assert len(alive) == self.ledger.outstanding - self.waiting
        assert not any(self.ledger.stale(group) for group in alive)
        counts = self.ledger.counts
        assert (counts.trained, counts.dropped) == (self.trained, self.dropped)


TestGroups = Groups.TestCase
