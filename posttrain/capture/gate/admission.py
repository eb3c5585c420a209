"""How many rollouts may be under way before the gate, and when none is."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# Between the beginnings of two rollouts, in seconds. Gym's gate is one event loop that takes more
# than ten milliseconds for a call, and all processes of a rollout together take half as long again
# as this: a group that begins at once would hold up every other rollout's call and manifest for a
# quarter of a second, and be no sooner ready.
PACE_S = 0.04


@dataclass
class Admission:
    """Bounds what the gate's ledger and the staging area hold of rollouts in flight.

    The ledger itself refuses nobody. Rollouts begin one after the other. Belongs to one event loop.

    Attributes:
        rollouts: rollouts in flight at once.
        turns: calls of the model that each may make.
    """

    rollouts: int
    turns: int
    _in_flight: int = field(default=0, init=False)
    _next: float = field(default=0.0, init=False)  # when one may begin, by the loop's clock
    _paused: bool = field(default=False, init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition, init=False)

    def __post_init__(self) -> None:
        if self.rollouts < 1 or self.turns < 1:
            msg = f"{self.rollouts} rollouts of {self.turns} turns must be positive"
            raise ValueError(msg)

    @property
    def calls(self) -> int:
        """The most calls whose tokens can be staged by rollouts in flight."""
        return self.rollouts * self.turns

    @property
    def in_flight(self) -> int:
        """Rollouts under way now."""
        return self._in_flight

    @asynccontextmanager
    async def rollout(self) -> AsyncIterator[None]:
        """Wait for a free place and hold it while the rollout is under way."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: not self._paused and self._in_flight < self.rollouts
            )
            self._in_flight += 1
        try:
            # One after the other, so that whoever is cancelled here takes no time of others.
            async with self._turn:
                now = asyncio.get_running_loop().time()
                begin = max(now, self._next)
                await asyncio.sleep(begin - now)
                self._next = begin + PACE_S
            yield
        finally:
            await self._leave()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Let no rollout begin, wait until none is under way, and hold that."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._paused)
            self._paused = True
            try:
                await self._changed.wait_for(lambda: not self._in_flight)
            except BaseException:
                self._paused = False
                self._changed.notify_all()
                raise
        try:
            yield
        finally:
            self._paused = False
            await asyncio.shield(self._tell())

    async def _leave(self) -> None:
        # Counted at once: a cancellation while waiting for the lock must not lose the place.
        self._in_flight -= 1
        await asyncio.shield(self._tell())

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
