"""Gym's deterministic verifiers: those that need no model, no network and no package of their own.

A verifier is a resources server. ``VERIFIERS`` says which ones there are and with what settings;
:class:`VerifierServers` is what :class:`~posttrain.environment.servers.GymServers` starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from posttrain.environment.configure import HEAD, MATH_WITHOUT_JUDGE, server

# The settings of each verifier, by the name of Gym's module.
VERIFIERS: dict[str, dict[str, Any]] = {
    # Compares the boxed answers with the expected one, symbolically, in a child process.
    "math_with_judge": MATH_WITHOUT_JUDGE,
    # Finds the letter of an option, in the last box or by another rule that the row names.
    "mcqa": {"domain": "knowledge"},
    # Compares the text after `Answer:`, or in a box; a number that is close gets 0.98.
    "string_match": {"domain": "knowledge"},
    # Compares function calls and their JSON arguments, in any order.
    "xlam_fc": {"domain": "agent"},
}


@dataclass(frozen=True)
class VerifierServers:
    """A server for each of the named verifiers.

    Attributes:
        names: keys of :data:`VERIFIERS`, each once.
    """

    names: tuple[str, ...]

    def configuration(self, ports: dict[str, int]) -> dict[str, Any]:
        """Gym's configuration of these servers, given each one's port."""
        configured = dict(HEAD)
        for name in self.names:
            settings = VERIFIERS[name]
            configured |= server(name, ports[name], "resources_servers", name, **settings)
        return configured
