"""The secret with which the trainer reads the gate's ledger."""

from __future__ import annotations

import secrets
from typing import NoReturn

VARIABLE = "POSTTRAIN_CAPTURE_BEARER"
_BYTES = 32


class Bearer:
    """A random secret of one run. It shows itself in no text, and is not to be pickled.

    It is handed to the gate's process by its environment alone: arguments are readable by every
    user of the machine, and configuration and logs are kept in the run's folder.
    """

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(_BYTES)

    @property
    def environment(self) -> dict[str, str]:
        """The variable that the gate's process gets."""
        return {VARIABLE: self._token}

    @property
    def header(self) -> dict[str, str]:
        """The header of a request to the gate's control routes."""
        return {"Authorization": f"Bearer {self._token}"}

    def __repr__(self) -> str:
        return "Bearer(secret)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a bearer stays in the process that made it")
