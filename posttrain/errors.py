"""The stack's errors: what was asked, what was found, what to do."""

from __future__ import annotations


class StackError(Exception):
    """A failure of the stack that a person can act on.

    Args:
        asked: what the caller wanted, as a short sentence.
        found: what was there instead.
        todo: the next thing to do.
    """

    def __init__(self, asked: str, found: str, todo: str) -> None:
        super().__init__(asked, found, todo)
        self.asked = asked
        self.found = found
        self.todo = todo

    def __str__(self) -> str:
        return f"{self.asked}\n  found: {self.found}\n  to do: {self.todo}"


class RecipeError(StackError):
    """A recipe that cannot be run as written."""


class DataError(StackError):
    """A dataset row or file that cannot be used."""


class ModelError(StackError):
    """A model that is missing, or is not the revision that the recipe pins."""


class RefitError(StackError):
    """Generation does not provably serve the policy's weights."""


class WorkerError(StackError):
    """A rank, an engine or a server that died or did not answer in time."""
