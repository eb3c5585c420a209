"""How a call to the gate's control routes can fail; each is the cause of a placeholder."""

from __future__ import annotations

from typing import ClassVar

from posttrain.errors import WorkerError


class GateError(WorkerError):
    """The gate gave no manifest.

    Attributes:
        cause: its name in `posttrain.capture.finalize.causes`.
    """

    cause: ClassVar[str]


class UnauthorizedGateError(GateError):
    """The gate does not know the bearer."""

    cause = "gate_unauthorized"


class UnreachableGateError(GateError):
    """Nobody answers at the gate's address, or the connection broke."""

    cause = "gate_unreachable"


class LateGateError(GateError):
    """The gate did not answer within the deadline."""

    cause = "gate_late"


class MalformedManifestError(GateError):
    """The gate answered something else than the manifest of this rollout."""

    cause = "manifest_malformed"
