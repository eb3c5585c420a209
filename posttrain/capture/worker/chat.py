"""vLLM's chat service, which stages the tokens of a request that asks for it before it answers."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from nemo_gym.token_id_capture.staging import ActiveCall, CaptureAdmission
from pydantic import ValidationError
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionResponse

from posttrain.capture.worker.adapter import FIELD, IDS, Answer
from posttrain.capture.worker.prefix import resolve
from posttrain.capture.worker.rendering import renderings, settle
from posttrain.capture.worker.splice import tail
from posttrain.generation.stamp import stamped

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection

    from fastapi import Request
    from nemo_gym.token_id_capture.staging import (
        CommitCoords,
        RolloutTokenCapture,
        StagingSource,
    )
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
    from vllm.entrypoints.serve.engine.protocol import ErrorResponse

    from posttrain.capture.settings import CaptureSettings

    Served: TypeAlias = AsyncGenerator[str, None] | ChatCompletionResponse | ErrorResponse

T = TypeVar("T")
# Gym's names on the wire (nemo_gym.token_id_capture.sink, which a worker does not need).
ADMISSION, COORDS = "ng_capture", "ng_commit_coords"


class CapturingChat:
    """The serving layer that Gym's ``install_capture`` wants: it puts itself before vLLM's own.

    A request without ``ng_capture`` goes straight on. One with it is answered as it would be
    without, whatever becomes of its capture; only the answer's ``ng_commit_coords`` tell. What
    cannot be captured by its nature is refused: a stream, and an ``ng_capture`` that cannot be
    read.

    Args:
        chat: vLLM's service; its ``create_chat_completion`` is replaced on this instance.
        source: where continuations find what their ancestors staged.
        closing: token ids that can end a message.
        served_version: of the weights; only for calls that cannot be captured.
        settings: deadline and number of threads.
    """

    def __init__(
        self,
        chat: OpenAIServingChat,
        source: StagingSource,
        closing: Collection[int],
        served_version: Callable[[], int],
        settings: CaptureSettings,
    ) -> None:
        self._chat = chat
        self._serve = chat.create_chat_completion
        self._source = source
        self._closing = frozenset(closing)
        self._served_version = served_version
        self._deadline_s = settings.deadline_s
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="capture")
        self._capture: RolloutTokenCapture | None = None

    def install_token_capture(self, capture: RolloutTokenCapture) -> None:
        """Begin to capture; Gym calls it."""
        self._capture = capture
        self._chat.create_chat_completion = self.create_chat_completion

    def close(self) -> None:
        """Begin nothing more; what is being staged is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def create_chat_completion(
        self, request: ChatCompletionRequest, raw_request: Request | None = None
    ) -> Served:
        """Answer a request, and capture it when it asks for that."""
        wanted = (request.model_extra or {}).get(ADMISSION)
        if wanted is None or self._capture is None:
            return await self._serve(request, raw_request)
        try:
            admission = CaptureAdmission.model_validate(wanted)
        except ValidationError as error:
            return self._refused(f"{ADMISSION} is not a capture admission of this Gym: {error}")
        if request.stream:
            return self._refused(f"{ADMISSION} asks for capture, which takes no streams")
        return await self._captured(self._capture, admission, request, raw_request)

    def _refused(self, message: str) -> ErrorResponse:
        return self._chat.create_error_response(message, param=ADMISSION)

    async def _captured(
        self,
        capture: RolloutTokenCapture,
        admission: CaptureAdmission,
        request: ChatCompletionRequest,
        raw_request: Request | None,
    ) -> Served:
        entered: list[int] | None = None
        prefix: list[int] | None = None
        problem = ""
        try:
            settle(request)
            if admission.mode == "token_in":
                prefix, entered = await self._enter(capture, admission, request)
        except Exception as error:  # noqa: BLE001 - a source is anybody's code, and no failure
            # of capture may fail the answer
            problem = _described(error)
        asked = (request.return_token_ids, request.logprobs)
        request.return_token_ids = request.logprobs = True
        request.top_logprobs = request.top_logprobs or 0
        with stamped() as stamp:
            response = await self._serve(request, raw_request)
        if not isinstance(response, ChatCompletionResponse):
            return response
        answer = Answer(response, stamp, entered)
        coords = await self._coords(capture, admission, answer, prefix, problem)
        _withhold(response, *asked)
        setattr(response, COORDS, coords.model_dump(mode="json"))
        return response

    async def _enter(
        self,
        capture: RolloutTokenCapture,
        admission: CaptureAdmission,
        request: ChatCompletionRequest,
    ) -> tuple[list[int], list[int]]:
        """Have vLLM compute a continuation from its parent's tokens.

        Returns:
            The parent's tokens, and the whole prompt that begins with them.
        """
        adapter = capture.adapter
        if adapter is None:
            raise TypeError("capture was installed without an adapter")
        prefix, rendered = await asyncio.gather(
            self._thread(lambda: resolve(admission, self._source)),
            renderings(self._chat, request),
        )
        following = tail(prefix, rendered, self._closing | {*(request.stop_token_ids or ())})
        payload = adapter.enter_prefix({FIELD: {IDS: following}}, prefix)
        entered = list(payload[FIELD][IDS])
        # A copy: vLLM takes the list out of the request.
        request.kv_transfer_params = {IDS: [*entered]}
        return prefix, entered

    async def _coords(
        self,
        capture: RolloutTokenCapture,
        admission: CaptureAdmission,
        answer: Answer,
        prefix: list[int] | None,
        problem: str,
    ) -> CommitCoords:
        """Stage a call; when that is not possible, say so in its coordinates and in the log."""
        if answer.stamp.versions:
            version = answer.stamp.versions[0][1]
        else:
            version = self._served_version()
            problem = problem or "the engine does not know this request"

        def stage() -> CommitCoords:
            call = capture.begin_call(admission, prefix_token_ids=prefix, weight_version=version)
            return capture.complete_call_from_response(call, answer)

        if not problem:
            try:
                return await self._thread(stage)
            except Exception as error:  # noqa: BLE001 - as above
                problem = _described(error)
        # Not the call of `stage`, which may be in a thread that does not come back.
        call = ActiveCall(admission, version)
        return capture.fail_call(call, reason=problem)

    async def _thread(self, work: Callable[[], T]) -> T:
        """Run what blocks outside the event loop.

        Raises:
            TimeoutError: it takes longer than the deadline.
        """
        loop = asyncio.get_running_loop()
        return await asyncio.wait_for(loop.run_in_executor(self._threads, work), self._deadline_s)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _withhold(response: ChatCompletionResponse, token_ids: Any, logprobs: Any) -> None:
    """Take out what capture needed and the client did not ask for."""
    if not token_ids:
        response.prompt_token_ids = None
    for choice in response.choices:
        if not token_ids:
            choice.token_ids = None
        if not logprobs:
            choice.logprobs = None
