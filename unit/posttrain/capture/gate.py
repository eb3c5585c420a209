"""What Gym's model server does for a rollout, as far as the worker can see it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nemo_gym.token_id_capture.staging import (
    CallRecord,
    CaptureAdmission,
    CommitCoords,
    LinearizedRow,
    RolloutReceipt,
    verify_and_linearize,
)

from unit.posttrain.capture.gate_light import post

if TYPE_CHECKING:
    from nemo_gym.token_id_capture.staging import StagingSource

QUESTION = "What is 2 + 2? Put the answer, and only the answer, inside \\boxed{}."
AGAIN = "And now 3 + 3?"

Message = dict[str, Any]


def user(content: str) -> Message:
    return {"role": "user", "content": content}


@dataclass
class Call:
    """One answered call: what was said so far, and what the worker says of its capture."""

    admission: CaptureAdmission
    messages: list[Message]
    answer: dict[str, Any]
    coords: CommitCoords
    ancestors: list[Call] = field(default_factory=list)

    @property
    def content(self) -> str:
        return str(self.answer["choices"][0]["message"]["content"])

    @property
    def chain(self) -> list[Call]:
        return [*self.ancestors, self]

    def continued(self, *contents: str) -> list[Message]:
        """The conversation with the answer and what a user says to it."""
        said = {"role": "assistant", "content": self.content}
        return [*self.messages, said, *(user(content) for content in contents)]


class Gate:
    """One rollout's calls.

    Args:
        base_url: of the worker.
        sampling: fields of every request.
    """

    def __init__(self, base_url: str, **sampling: Any) -> None:
        self.base_url = base_url
        self.rollout = f"rollout-{uuid.uuid4().hex}"
        self.sampling = {"model": "policy", "max_tokens": 24, "temperature": 0.0} | sampling

    def admission(self, parent: Call | None, **changes: Any) -> CaptureAdmission:
        values: dict[str, Any] = {
            "rollout_id": self.rollout,
            "model_call_id": f"call-{uuid.uuid4().hex}",
            "mode": "text",
        }
        if parent is not None:
            values |= {
                "mode": "token_in",
                "parent_call_id": parent.coords.model_call_id,
                "prev_len": parent.coords.cum_len,
                "staging_chain": [str(each.coords.staging_key) for each in parent.chain],
                "parent_chain_hash": parent.coords.chain_hash,
            }
        return CaptureAdmission(**(values | changes))

    def body(
        self, messages: list[Message], admission: CaptureAdmission, **changes: Any
    ) -> dict[str, Any]:
        """What Gym sends to vLLM for a call that is to be captured."""
        body = self.sampling | {
            "messages": messages,
            "ng_capture": admission.model_dump(mode="json"),
            "logprobs": True,
            "top_logprobs": 0,
            "return_tokens_as_token_ids": True,
            "stream": False,
        }
        if admission.mode == "token_in":
            body["required_prefix_token_ids"] = []
        return body | changes

    def ask(
        self,
        messages: list[Message],
        parent: Call | None = None,
        admission: CaptureAdmission | None = None,
        **changes: Any,
    ) -> Call:
        """Make a call that is answered, whatever becomes of its capture."""
        admitted = admission or self.admission(parent)
        code, answer = post(self.base_url, self.body(messages, admitted, **changes))
        assert code == 200, answer
        coords = CommitCoords.model_validate(answer.pop("ng_commit_coords"))
        assert (coords.rollout_id, coords.model_call_id, coords.parent_call_id) == (
            admitted.rollout_id,
            admitted.model_call_id,
            admitted.parent_call_id,
        )
        return Call(admitted, messages, answer, coords, parent.chain if parent else [])

    def row(self, terminal: Call, source: StagingSource) -> LinearizedRow:
        """The training row of a rollout, verified as the trainer does it."""
        records = [_manifest_row(call) for call in terminal.chain]
        receipt = RolloutReceipt(
            rollout_id=self.rollout,
            manifest=records,
            terminal_model_call_id=terminal.coords.model_call_id,
            terminal_selection="declared",
        )
        return verify_and_linearize(receipt, source.fetch([each.staging_key for each in records]))


def _manifest_row(call: Call) -> CallRecord:
    fields = call.coords.model_dump(exclude={"rollout_id", "disposition"})
    return CallRecord(**fields, mode=call.admission.mode, response_id=call.answer["id"])
