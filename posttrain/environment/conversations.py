"""Gym's servers for rollouts of several turns, beside those of the math environment.

The environment asks the follow-up questions of a row (``follow_ups``), whatever the model says, and
gives the reward 1 when the last answer contains the row's ``expected_answer``. So any model, also
one that calls no tools, has a conversation of a known number of turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posttrain.environment.configure import AGENT, MODEL, server

if TYPE_CHECKING:
    from posttrain.environment.configure import GymConfig

CONVERSATION_AGENT = "conversation_agent"
CONVERSATION = "conversation"
# What rows can be meant for.
AGENTS = (AGENT, CONVERSATION_AGENT)
# Calls of the model in one rollout; an environment that is not at its end by then is an error.
MAX_TURNS = 8


@dataclass(frozen=True)
class ConversationServers:
    """The math environment and the conversation environment in front of the same engines.

    Attributes:
        math: the former, which has the model server that both use.
    """

    math: GymConfig

    @property
    def names(self) -> tuple[str, ...]:
        """The servers."""
        return (*self.math.names, CONVERSATION_AGENT, CONVERSATION)

    def configuration(self, ports: dict[str, int]) -> dict[str, Any]:
        """Gym's configuration of all servers, given each one's port."""
        return (
            self.math.configuration(ports)
            | server(
                CONVERSATION,
                ports[CONVERSATION],
                "resources_servers",
                "example_multi_turn_gymnasium",
                domain="other",
            )
            | server(
                CONVERSATION_AGENT,
                ports[CONVERSATION_AGENT],
                "responses_api_agents",
                "gymnasium_agent",
                resources_server={"type": "resources_servers", "name": CONVERSATION},
                model_server={"type": "responses_api_models", "name": MODEL},
                max_steps=MAX_TURNS,
            )
        )
