"""Gym's servers with capture on: the model server becomes the gate, with its ledger in files.

What :mod:`posttrain.environment` configures is taken as it is and changed here, so that a run
without capture has nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posttrain.capture.gate.bearer import VARIABLE
from posttrain.environment.configure import MODEL
from posttrain.errors import RecipeError

if TYPE_CHECKING:
    from pathlib import Path

    from posttrain.environment.servers import Configured

_AGENTS = "responses_api_agents"
# The gate's answers carry no tokens, so it must not demand them of the engine.
_TOKEN_ECHO = ("return_token_id_information", "request_prompt_and_generation_token_ids")


@dataclass(frozen=True)
class CapturedServers:
    """A set of servers whose model server captures: see ``GymServers``.

    Attributes:
        servers: the set as it is without capture; it has the server ``policy_model``.
        folder: of the ledger, an absolute path on this machine, new with each start of a run. The
            finalizer reads intents there, which no route tells.
        turns: calls of the model that one rollout may make; agents end it there.
    """

    servers: Configured
    folder: Path
    turns: int

    def __post_init__(self) -> None:
        if not self.folder.is_absolute():
            raise RecipeError(
                "the folder of the capture ledger as an absolute path",
                str(self.folder),
                "resolve it first: Gym's process has another working directory",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The servers."""
        return self.servers.names

    def configuration(self, ports: dict[str, int]) -> dict[str, Any]:
        """Gym's configuration of all servers, given each one's port."""
        configuration = {**self.servers.configuration(ports)}
        for name, kinds in configuration.items():
            if name == MODEL:
                configuration[name] = _changed(kinds, dict.fromkeys(_TOKEN_ECHO, False))
            elif _AGENTS in kinds:
                configuration[name] = _changed(kinds, {"max_steps": self.turns})
        return configuration | {
            "token_id_capture": {
                "enabled": True,
                "all_agents": True,
                "dir": str(self.folder),
                # Whoever trains rebuilds and verifies; Gym keeps no tokens to do it with.
                "rebuild_response": False,
                "external_staging": True,
                "external_staging_backend": "vllm_worker",
                # The name of the variable; the secret itself is in no configuration.
                "control_auth_token_env": VARIABLE,
            }
        }


def _changed(kinds: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """One server of Gym's three levels with other settings."""
    return {
        kind: {name: own | settings for name, own in implementations.items()}
        for kind, implementations in kinds.items()
    }
