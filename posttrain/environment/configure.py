"""What the three Gym servers are configured to be, as Gym's own global configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from posttrain.errors import RecipeError

HOST = "127.0.0.1"
AGENT = "math_simple_agent"
VERIFIER = "math_with_judge"
MODEL = "policy_model"
NAMES = (AGENT, VERIFIER, MODEL)

# Gym turns a verifier that runs out of time into the reward 0.0, which nobody can tell from a wrong
# answer. A limit that is never reached leaves the decision to the deadline of the rollout's call.
_NEVER_S = 86_400.0

# The policy recomputes log-probabilities of a distribution that only the recipe shapes. Filters,
# penalties, biases and grammars that a row might ask for would make the engine's another one.
UNSHAPED: dict[str, float | int | bool | list[str] | None] = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "min_tokens": 0,
    "logit_bias": None,
    "bad_words": [],
    "allowed_token_ids": None,
    "structured_outputs": None,
    "response_format": None,
    "thinking_token_budget": None,
    "use_beam_search": False,
}

# Gym reads this table in every server but contacts the head server only from processes that were
# not given their configuration; there is none here, and port 0 is no address.
HEAD: dict[str, Any] = {"head_server": {"host": HOST, "port": 0}}

MATH_WITHOUT_JUDGE: dict[str, Any] = {
    "domain": "math",
    # Gym wants a judge to be named even where none is asked.
    "judge_model_server": {"type": "responses_api_models", "name": MODEL},
    "judge_responses_create_params": {"input": []},
    "should_use_judge": False,
    "library_verifier_timeout_seconds": _NEVER_S,
}


@dataclass(frozen=True)
class GymConfig:
    """One math environment in front of a set of engines.

    Attributes:
        model: the model's name as the engines serve it.
        engine_urls: base URLs of the OpenAI-compatible engines, ``http://host:port/v1``. Gym picks
            one for each rollout by the digest of its session.
        sampling: what every request to an engine asks for, whatever the dataset row says
            (``temperature``, ``top_p``, ``top_k``, ``max_tokens``), over :data:`UNSHAPED`.
    """

    model: str
    engine_urls: tuple[str, ...]
    sampling: dict[str, float | int] = field(default_factory=lambda: {"temperature": 0.0})

    def __post_init__(self) -> None:
        if not self.engine_urls:
            raise RecipeError(
                "Gym's model server", "no engine to generate with", "give at least one engine URL"
            )
        if "temperature" not in self.sampling:
            raise RecipeError(
                "Gym's model server",
                "sampling without a temperature, so that each engine's own default would rule",
                "set the temperature that the policy's log-probabilities are computed at",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The servers."""
        return NAMES

    def configuration(self, ports: dict[str, int]) -> dict[str, Any]:
        """As :func:`global_config`."""
        return global_config(self, ports)


def server(name: str, port: int, kind: str, implementation: str, **settings: Any) -> dict[str, Any]:
    """One server of a configuration, in Gym's three levels.

    Args:
        name: what other servers and the trainer call it.
        port: where it listens.
        kind: Gym's package: ``resources_servers``, ``responses_api_agents``, ...
        implementation: Gym's module in that package.
        settings: of the implementation.
    """
    common = {"entrypoint": "app.py", "host": HOST, "port": port}
    return {name: {kind: {implementation: common | settings}}}


def global_config(config: GymConfig, ports: dict[str, int]) -> dict[str, Any]:
    """The configuration that Gym reads from ``NEMO_GYM_CONFIG_DICT``.

    Args:
        config: the environment.
        ports: the port of each server in :data:`NAMES`.

    Returns:
        JSON-ready data in Gym's three levels: server name, kind of server, implementation.
    """
    model_reference = {"type": "responses_api_models", "name": MODEL}
    return HEAD | {
        **server(
            MODEL,
            ports[MODEL],
            "responses_api_models",
            "vllm_model",
            base_url=list(config.engine_urls),
            api_key="unused",
            model=config.model,
            return_token_id_information=True,
            request_prompt_and_generation_token_ids=True,
            # A longer prompt than the engine can take is an error, not an empty answer.
            propagate_context_overflow_errors=True,
            uses_reasoning_parser=False,
            sampling_overrides=UNSHAPED | config.sampling,
        ),
        **server(
            VERIFIER, ports[VERIFIER], "resources_servers", "math_with_judge", **MATH_WITHOUT_JUDGE
        ),
        **server(
            AGENT,
            ports[AGENT],
            "responses_api_agents",
            "simple_agent",
            resources_server={"type": "resources_servers", "name": VERIFIER},
            model_server=model_reference,
        ),
    }
