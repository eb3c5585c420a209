"""What can go wrong between a sender and a receiver, in the same words for every transport."""

from __future__ import annotations

from posttrain.errors import RefitError

_LOGS = "read the logs of the policy's rank 0 and of the engines"


def silent(asked: str, patience_s: float) -> RefitError:
    """Somebody did not go on in time."""
    return RefitError(asked, f"nothing in {patience_s:g} s", f"{_LOGS}, or raise timeouts.refit_s")


def ended(asked: str, found: str) -> RefitError:
    """Somebody ended while others count on it."""
    return RefitError(asked, found, _LOGS)


def unreachable(asked: str, found: str) -> RefitError:
    """There is no way to somebody."""
    return RefitError(asked, found, "check refit.transport and the network between both sides")
