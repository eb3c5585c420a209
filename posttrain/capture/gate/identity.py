"""Which rollout a run of an agent is: the capture key, fresh for each attempt."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any

from posttrain.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLLOUT_ID = "_ng_rollout_id"
# Gym's own rule, and as long as a file's name leaves room for: the ledger keeps a file for each.
_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_RANDOM_BYTES = 8


def fresh_rollout_id(*parts: object) -> str:
    """An id that no attempt had before: the given parts, joined, and a random one.

    Raises:
        StackError: as :func:`check_rollout_id`.
    """
    return check_rollout_id("-".join([*map(str, parts), secrets.token_hex(_RANDOM_BYTES)]))


def check_rollout_id(rollout_id: str) -> str:
    """Return the id when Gym and the ledger's folder take it.

    Raises:
        StackError: they do not.
    """
    if _PATTERN.fullmatch(rollout_id) is None:
        raise StackError(
            "a rollout id that Gym can put in a path",
            repr(rollout_id),
            f"use at most 200 letters, digits, dots, dashes and underscores: {_PATTERN.pattern}",
        )
    return rollout_id


def captured(body: Mapping[str, Any], rollout_id: str) -> dict[str, Any]:
    """What ``/run`` is sent so that the gate keeps a ledger of the rollout under this id."""
    return {**body, ROLLOUT_ID: check_rollout_id(rollout_id)}
