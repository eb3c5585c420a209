"""Without capture nothing of it is there; with it, whoever does not ask for it sees nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from unit.posttrain.capture.conftest import MAX_LEN, TINY_LLAMA
from unit.posttrain.capture.gate import AGAIN, QUESTION, user
from unit.posttrain.capture.gate_light import answers, post

if TYPE_CHECKING:
    from posttrain.generation.worker import GenerationWorker

RUN_S = 200
BODIES: list[dict[str, Any]] = [
    {"messages": [user(QUESTION)], "temperature": 0.0, "max_tokens": 24},
    {
        "messages": [
            user(QUESTION),
            {"role": "assistant", "content": "2 + 2 = \\boxed{4}"},
            user(AGAIN),
        ],
        "temperature": 0.0,
        "max_tokens": 24,
        "logprobs": True,
        "top_logprobs": 0,
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
    },
    {"messages": [user(QUESTION)], "temperature": 1.0, "seed": 7, "max_tokens": 16, "n": 2},
    {"messages": [], "temperature": 0.0},
]
SCRIPT = """
import json, sys
from posttrain.generation.settings import EngineSettings
from posttrain.generation.worker import GenerationWorker
from unit.posttrain.capture.gate_light import answers

settings, bodies = json.loads(sys.argv[1])
worker = GenerationWorker("generation-0")
try:
    worker.start(EngineSettings(**settings))
    said = answers(worker.base_url, bodies)
    paths = sorted(str(route.path) for route in worker._server._app.routes)
    chat = worker._server._app.state.openai_serving_chat
    own = "create_chat_completion" in vars(chat)
finally:
    worker.shutdown()
modules = sorted(n for n in sys.modules if n.startswith(("posttrain.capture", "nemo_gym")))
json.dump({"answers": said, "modules": modules, "routes": paths, "own": own}, sys.stdout)
"""


def test_without_capture_the_worker_is_as_if_there_were_none(worker: GenerationWorker) -> None:
    settings = {"model": str(TINY_LLAMA), "max_model_len": MAX_LEN}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([settings, BODIES])],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    off = json.loads(done.stdout.splitlines()[-1])
    assert off["modules"] == []
    assert off["own"] is False
    # The worker that captures, asked by somebody who does not ask for it.
    assert answers(worker.base_url, BODIES) == off["answers"]
    assert worker._server is not None
    assert sorted(str(route.path) for route in worker._server._app.routes) == off["routes"]
    assert [status for status, _ in off["answers"]] == [200, 200, 200, 400]


def test_a_field_that_only_gym_knows_changes_nothing(worker: GenerationWorker) -> None:
    body = BODIES[1] | {"model": "policy", "required_prefix_token_ids": []}
    code, answer = post(worker.base_url, body)
    assert code == 200
    assert "ng_commit_coords" not in answer
    assert "required_prefix_token_ids" not in answer
