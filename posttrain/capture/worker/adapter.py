"""Between vLLM's chat completions and Gym's capture: how tokens are entered, and what came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionResponse

    from posttrain.generation.stamp import Stamp

# vLLM takes prompt token ids in a chat request here, instead of rendering the messages again. It
# is meant for a decoding engine that is handed the work of another, and goes no further.
FIELD, IDS = "kv_transfer_params", "prompt_token_ids"
VERSIONS = "weight_versions"


@dataclass(frozen=True)
class Answer:
    """One answer of the engine with what is known of how it came about.

    Attributes:
        response: of vLLM's chat service, with token ids and log-probabilities.
        stamp: what the engine's thread noted of the request.
        entered: the prompt that the engine was to be given; None where it rendered the messages.
    """

    response: ChatCompletionResponse
    stamp: Stamp
    entered: Sequence[int] | None


class ChatAdapter:
    """Gym's ``CaptureAdapter`` for answers of vLLM 0.29's own chat service in this process."""

    def enter_prefix(
        self, request_payload: dict[str, Any], prefix_ids: list[int]
    ) -> dict[str, Any]:
        """Put a parent's tokens in front of the prompt.

        Args:
            request_payload: fields of a chat request whose prompt token ids are what follows.
            prefix_ids: the parent's prompt and generated tokens.
        """
        following = request_payload[FIELD][IDS]
        return {**request_payload, FIELD: {IDS: [*prefix_ids, *following]}}

    def extract_prompt_ids(self, response_payload: Answer) -> list[int]:
        """The tokens that the answer was computed from.

        Raises:
            ValueError: the response, the engine and what was to be entered do not agree.
        """
        said = list(response_payload.response.prompt_token_ids or ())
        if not said:
            raise ValueError("the response has no prompt_token_ids")
        for what, ids in (
            ("the engine took", response_payload.stamp.prompt_token_ids),
            ("it was to be entered", response_payload.entered or said),
        ):
            if said != list(ids or ()):
                raise ValueError(
                    f"the response is for a prompt of {len(said)} tokens, but {what} one of"
                    f" {len(ids or ())} that differs"
                )
        return said

    def extract_generation(self, response_payload: Answer) -> tuple[list[int], list[float]]:
        """The generated tokens, the last one of a turn included, and their log-probabilities.

        Raises:
            ValueError: not one choice, or tokens and log-probabilities do not belong together.
        """
        choices = response_payload.response.choices
        if len(choices) != 1:
            raise ValueError(f"one choice can be captured, and there are {len(choices)}")
        (choice,) = choices
        ids = list(choice.token_ids or ())
        content = choice.logprobs.content if choice.logprobs is not None else None
        if not ids or content is None:
            raise ValueError("the response has no generated token ids or no log-probabilities")
        named = [entry.token for entry in content]
        if named != [f"token_id:{token}" for token in ids]:
            raise ValueError(f"log-probabilities of {len(named)} tokens are not of the {len(ids)}")
        return ids, [entry.logprob for entry in content]

    def extract_extras(self, response_payload: Answer) -> dict[str, Any] | None:
        """Which weights generated which tokens, when it was more than one version.

        Raises:
            ValueError: experts that were routed to, which are not captured.
        """
        if response_payload.response.choices[0].routed_experts is not None:
            raise ValueError("routed experts are not captured: start the engine without them")
        versions = response_payload.stamp.versions
        return {VERSIONS: [list(pair) for pair in versions]} if len(versions) > 1 else None
