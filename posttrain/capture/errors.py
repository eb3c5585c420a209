"""What can go wrong with capture, besides a call that could not be captured."""

from __future__ import annotations

from posttrain.errors import StackError


class CaptureSetupError(StackError):
    """Capture was asked for and cannot work here."""


class StagingError(StackError):
    """The staging area could not do what was asked; the same may be asked again."""


class MissingRecordError(StackError):
    """Staged records that are not there; each key is named."""


class EvictedRecordError(MissingRecordError):
    """Staged records that were there and were cleared; each key that is not there is named."""


class CorruptRecordError(StackError):
    """A staged row that is not the record that its key names."""


class UnprovenPrefixError(StackError):
    """A parent's tokens that cannot provably be entered in front of a request."""


class UncapturableError(StackError):
    """A request whose tokens are not all that its answer is computed from."""
