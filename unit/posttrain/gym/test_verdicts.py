"""Real verifiers: the verdict that each answer must get, and failures that are no verdicts."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.environment.answers import Answer, read_answers
from posttrain.environment.verdicts import ask, metrics
from posttrain.environment.verifiers import VERIFIERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posttrain.environment.servers import GymServers
    from posttrain.environment.verdicts import Verdict

ROOT = Path(__file__).resolve().parents[3]
FAR_S = 300.0


@pytest.fixture(scope="session")
def urls(everything: GymServers) -> dict[str, str]:
    return {name: everything.url(name) for name in VERIFIERS}


def call(arguments: str, **expected: Any) -> Answer:
    """An answer to a tool task that calls its function with these arguments."""
    return Answer(
        id="asked",
        verifier="xlam_fc",
        task={"expected_answers": [{"name": "weather", "arguments": {"city": "Bern"}}]},
        output=(
            {"type": "function_call", "call_id": "1", "name": "weather", "arguments": arguments},
        ),
        expected={"reward": 1.0, **expected},
    )


def one(urls: dict[str, str], answer: Answer, deadline_s: float = FAR_S) -> Verdict:
    (verdict,) = ask(urls, [answer], deadline_s=deadline_s, concurrency=1)
    return verdict


@contextmanager
def saying(content: bytes, status: int = 200) -> Iterator[dict[str, str]]:
    """The address of something that says only this, in every verifier's place."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield dict.fromkeys(VERIFIERS, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()


def test_every_answer_of_the_functional_job_gets_the_expected_verdict(urls: dict[str, str]) -> None:
    answers = read_answers(ROOT / "fixtures" / "gym_answers.jsonl")
    verdicts = ask(urls, answers, deadline_s=FAR_S, concurrency=4)
    assert [verdict.problem() for verdict in verdicts if verdict.problem()] == []
    assert [verdict.id for verdict in verdicts] == [answer.id for answer in answers]
    counted = metrics(verdicts)
    for name in VERIFIERS:
        rewards = [answer.expected["reward"] for answer in answers if answer.verifier == name]
        assert counted[f"verifier/{name}/rows"] == len(rewards)
        assert counted[f"verifier/{name}/accepted"] == rewards.count(1.0) > 0
        assert counted[f"verifier/{name}/rejected"] == rewards.count(0.0) > 0
        assert counted[f"verifier/{name}/mismatches"] == 0
        assert counted[f"verifier/{name}/failures"] == 0


def test_another_verdict_than_expected_is_a_mismatch_that_says_both(urls: dict[str, str]) -> None:
    verdict = one(urls, call('{"city": "Genf"}', num_correct=0, category="weather"))
    assert verdict.reward == 0.0
    assert verdict.problem() == (
        'xlam_fc, asked: reward 0.0 instead of 1.0, no category instead of "weather"'
    )
    assert metrics([verdict])["verifier/xlam_fc/mismatches"] == 1


def test_a_verifier_that_errs_has_failed_and_gives_no_reward(urls: dict[str, str]) -> None:
    verdict = one(urls, call("[" * 100_000))
    assert verdict.reward is None
    assert verdict.differences == []
    assert "/verify answered 500: " in verdict.problem()
    assert "RecursionError" in verdict.problem()
    counted = metrics([verdict])
    assert counted["verifier/xlam_fc/failures"] == 1
    assert counted["verifier/xlam_fc/rejected"] == 0


def test_a_verifier_that_never_answers_has_failed_and_goes_on_with_others(
    urls: dict[str, str],
) -> None:
    def number(digits: str, **expected: Any) -> Answer:
        (item,) = call("").output
        text = {"type": "output_text", "text": f"\\boxed{{{digits}}}", "annotations": []}
        item = {"type": "message", "id": "1", "role": "assistant", "status": "completed"}
        return Answer(
            id=f"{len(digits)} digits",
            verifier="math_with_judge",
            task={"question": "?", "expected_answer": "4"},
            output=({**item, "content": [text]},),
            expected={"reward": 1.0, **expected},
        )

    late = one(urls, number("1" * 100_000), deadline_s=1.0)
    assert late.reward is None
    route = f"{urls['math_with_judge']}/verify"
    assert late.problem() == f"math_with_judge, 100000 digits: no answer from {route} within 1 s"
    assert one(urls, number("4")).problem() == ""


@pytest.mark.parametrize(
    ("content", "failure"),
    [
        (b"{}", "no reward at all instead of a finite number"),
        (b'{"reward": null}', "reward None instead of a finite number"),
        (b'{"reward": true}', "reward True instead of a finite number"),
        (b'{"reward": "1.0"}', "reward '1.0' instead of a finite number"),
        (b'{"reward": NaN}', "reward nan instead of a finite number"),
        (
            b'{"reward": 0.0, "mask_sample": true, "failure_reason": "judge lost"}',
            "the environment masked the sample: judge lost",
        ),
        (b"[1.0]", "answered 200: [1.0]"),
        (b"1.0 of 2", "answered 200: 1.0 of 2; "),
    ],
)
def test_an_answer_that_measures_nothing_is_a_failure(content: bytes, failure: str) -> None:
    with saying(content) as urls:
        verdict = one(urls, call("{}"))
    assert verdict.reward is None
    assert failure in verdict.problem()
    assert metrics([verdict])["verifier/xlam_fc/failures"] == 1


def test_a_verifier_that_is_gone_has_failed(urls: dict[str, str]) -> None:
    with saying(b"{}") as gone:
        pass
    verdict = one({**urls, **gone}, call("{}"))
    assert "no answer from" in verdict.problem()
    assert verdict.reward is None


def test_the_command_writes_every_verdict_and_then_names_the_wrong_ones(tmp_path: Path) -> None:
    task = {"options": [{"A": "red"}, {"B": "green"}], "expected_answer": "B"}
    rows = [
        {"id": "right", "answer": "\\boxed{B}", "expected": {"reward": 1.0}},
        {"id": "wrong", "answer": "\\boxed{A}", "expected": {"reward": 1.0}},
    ]
    answers = tmp_path / "answers.jsonl"
    answers.write_text(
        "".join(json.dumps({"verifier": "mcqa", "task": task, **row}) + "\n" for row in rows)
    )
    run_dir = tmp_path / "run"
    run = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "posttrain.verify",
                "functional/recipes/verifier_acceptance.yaml",
            ),
            *(f"run.dir={run_dir}", f"interpreters.gym={sys.executable}"),
            *(f"data.answers={answers}", "run.rounds=1"),
        ],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), **os.environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    assert "found: 1 are not:\n    mcqa, wrong: reward 0.0 instead of 1.0\n" in run.stderr
    (metric,) = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    expected = {
        "rows": 2,
        "accepted": 1,
        "rejected": 1,
        "partly": 0,
        "mismatches": 1,
        "failures": 0,
    }
    assert {name: metric[f"verifier/mcqa/{name}"] for name in expected} == expected
    assert metric["timing/start_gym"] > 0
    assert metric["timing/verification"] > 0
    verdicts = list(map(json.loads, (run_dir / "verdicts.jsonl").read_text().splitlines()))
    assert [verdict["id"] for verdict in verdicts] == ["right", "wrong"]
    assert [verdict["said"]["reward"] for verdict in verdicts] == [1.0, 0.0]
    assert [verdict["differences"] for verdict in verdicts] == [
        [],
        ["reward 0.0 instead of 1.0"],
    ]
    assert not (run_dir / "tensorboard").exists()
