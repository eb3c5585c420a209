"""Capture in one vLLM worker: check that it can work, then put it into the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nemo_gym.token_id_capture.staging import assert_golden_vectors, install_capture

from posttrain.capture.errors import CaptureSetupError
from posttrain.capture.staging import open_store
from posttrain.capture.worker.adapter import ChatAdapter
from posttrain.imports import serve_promptly

if TYPE_CHECKING:
    from starlette.datastructures import State
    from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat

    from posttrain.capture.settings import CaptureSettings
    from posttrain.capture.worker.chat import CapturingChat
    from posttrain.generation.core import InProcessCore


class Capture:
    """What a worker that captures holds. Nothing of vLLM is imported before :meth:`install`.

    Args:
        settings: where calls are staged.

    Raises:
        StackError: this process computes other digests than Gym publishes, or cannot reach the
            place of staged calls.
    """

    def __init__(self, settings: CaptureSettings) -> None:
        check_golden_vectors()
        self._settings = settings
        self._store = open_store(settings)
        self._chat: CapturingChat | None = None

    def install(self, state: State) -> None:
        """Capture what the server is asked to, before its first request.

        Args:
            state: of vLLM's application, with its services.

        Raises:
            CaptureSetupError: the model has no token that ends a message.
        """
        from posttrain.capture.worker.chat import CapturingChat

        chat: OpenAIServingChat = state.openai_serving_chat
        core: InProcessCore = state.engine_client.engine_core
        version = core.weight_version
        closing = closing_tokens(chat)
        self._chat = CapturingChat(chat, self._store, closing, version, self._settings)
        adapter = ChatAdapter()
        install_capture(self._chat, sink=self._store, weight_version_fn=version, adapter=adapter)
        serve_promptly()

    def close(self) -> None:
        """Give up the place of staged calls."""
        if self._chat is not None:
            self._chat.close()
        self._store.close()


def check_golden_vectors() -> None:
    """Compute the digests of Gym's published examples.

    Raises:
        CaptureSetupError: one comes out differently: records of this process would be refused.
    """
    try:
        assert_golden_vectors()
    except AssertionError as error:
        raise CaptureSetupError(
            "the digests of Gym's golden vectors",
            str(error),
            "install the worker again: its nemo-gym is changed or damaged",
        ) from error


def closing_tokens(chat: OpenAIServingChat) -> frozenset[int]:
    """The tokens with which the model, its tokenizer or its generation settings end a message.

    Raises:
        CaptureSetupError: there are none, so that no answer's end can be found.
    """
    model = chat.model_config
    named: list[Any] = [
        model.hf_config.eos_token_id,
        model.try_get_generation_config().get("eos_token_id"),
        chat.renderer.get_tokenizer().eos_token_id,
    ]
    found: set[int] = set()
    for each in named:
        if each is not None:
            found.update(each if isinstance(each, list) else [each])
    if not found:
        raise CaptureSetupError(
            f"capture with the model {model.model}",
            "neither its configuration nor its tokenizer names an end-of-sequence token",
            "name one in its config.json",
        )
    return frozenset(found)
