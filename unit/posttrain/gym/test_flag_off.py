"""Without capture, Gym is configured and engines are asked byte by byte as before it existed.

`fixtures/recorded/flag_off.json` was written by the commit before the package `posttrain.capture`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.data import Row
from posttrain.environment.configure import GymConfig
from posttrain.environment.conversations import CONVERSATION_AGENT, ConversationServers
from posttrain.rollout.collect import Agent, collect, collect_as
from posttrain.rollout.conversation import to_conversation

if TYPE_CHECKING:
    from posttrain.environment.servers import GymServers

FIXTURE = Path(__file__).resolve().parents[3] / "fixtures/recorded/flag_off.json"
BEFORE: dict[str, Any] = json.loads(FIXTURE.read_text(encoding="utf-8"))


def test_gyms_configuration() -> None:
    math = GymConfig(
        model="policy",
        engine_urls=("http://127.0.0.1:8001/v1", "http://127.0.0.1:8002/v1"),
        sampling={"temperature": 0.7, "top_p": 0.9, "top_k": 20, "max_tokens": 32},
    )
    for name, servers in (("math", math), ("conversations", ConversationServers(math))):
        ports = {each: 9000 + place for place, each in enumerate(servers.names)}
        assert json.dumps(servers.configuration(ports)) == BEFORE["configuration"][name]


def test_requests_to_the_engine(
    agent: Agent, everything: GymServers, engine: Any, rows: list[Row]
) -> None:
    collect(replace(agent, concurrency=1), rows, samples_per_row=2, seed="flag off")
    raw = {
        **rows[0].raw,
        "agent_ref": {"type": "responses_api_agents", "name": CONVERSATION_AGENT},
        "follow_ups": [rows[1].raw["responses_create_params"]["input"][0]["content"]],
        "expected_answer": "7",
    }
    url = everything.url(CONVERSATION_AGENT)
    talker = Agent(url, CONVERSATION_AGENT, deadline_s=300.0, concurrency=1)
    collect_as(to_conversation, talker, [Row(0, raw)], seed="flag off")
    assert [json.dumps(request) for request in engine.requests] == BEFORE["requests"]
