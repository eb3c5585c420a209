"""Failure classes on logs of failures that were really induced, and on samples of known ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exacthead.classes import evidence
from exacthead.classes.classify import Classified, Evidence, classify, said_in
from exacthead.classes.ends import read_ends
from exacthead.classes.rules import load_rules
from exacthead.report.model import Class
from exacthead.runs.folder import ItemFolder
from exacthead.verdict import Kind, Verdict

FAILURES = Path(__file__).parents[3] / "fixtures" / "failures"
RULES = load_rules()

# fixtures/record_failures.py induced them.
RECORDED = {
    "segfault": (Class.CRASH, "fatal-python-error: Segmentation fault"),
    "abort": (Class.CRASH, "fatal-python-error: Aborted"),
    "killed": (Class.CRASH, "signal: SIGKILL"),
    "memory_error": (Class.MEMORY, "memory-error: host"),
    "memory_limit": (Class.MEMORY, "memory-limit: limit 150 MiB"),
    "timeout": (
        Class.TIMEOUT,
        "time-limit: the leg's limit of <time>; where it stood: stacks.txt",
    ),
    "deadline": (Class.TIMEOUT, "timeout-error: TimeoutError"),
    "module": (Class.IMPORT, "missing-module: exacthead_is_not_here"),
    "name": (Class.IMPORT, "import-error: cannot import name 'no_such_name' from 'json'"),
    "program": (Class.IMPORT, "program-not-found: no-such-program"),
    "not_started": (
        Class.IMPORT,
        "not-started: [Errno 2] No such file or directory: './no-such-script.sh'",
    ),
    "resolver": (Class.IMPORT, "resolver-conflict: requirements"),
    "port": (Class.INFRASTRUCTURE, "port-in-use: address in use"),
    "refused": (Class.INFRASTRUCTURE, "connection-in-log: ConnectionRefusedError"),
    "disk": (Class.INFRASTRUCTURE, "disk-full: No space left on device"),
    "not_finite": (Class.CONTRACT, "contract-not-finite: the loss is finite"),
    "bound": (Class.CONTRACT, "contract: the loss is finite"),
    "assertion": (Class.ASSERTION, "assertion-in-log: AssertionError: the tokens differ"),
    "silent": (Class.UNKNOWN, "unknown: exit code 3; it wrote nothing"),
    "odd": (Class.UNKNOWN, "unknown: exit code 3; last lines: the moon is full"),
}
WRITTEN = {
    "cuda_memory": (Class.MEMORY, "accelerator-memory: accelerator"),
    "engine_out_of_memory": (Class.MEMORY, "accelerator-memory: accelerator"),
    "kv_cache": (Class.MEMORY, "kv-cache-memory: KV cache"),
    "ray_memory": (Class.MEMORY, "killed-for-memory: host"),
    "kernel_memory": (Class.MEMORY, "killed-for-memory: host"),
    "nccl_timeout": (Class.ACCELERATOR, "collective-timeout: ALLREDUCE"),
    "nccl_error": (Class.ACCELERATOR, "collective-error: ncclSystemError"),
    "device": (Class.ACCELERATOR, "device-error: device-side assert triggered"),
    "xid": (Class.ACCELERATOR, "device-error: 79"),
    "no_driver": (Class.ACCELERATOR, "device-error"),
    "without_cuda": (Class.ACCELERATOR, "built-without-accelerator: torch without CUDA"),
    "actor_died": (Class.CRASH, "actor-died: Ray actor"),
    "engine_dead": (Class.CRASH, "engine-dead: vLLM engine"),
    "library": (Class.IMPORT, "shared-library: libnuma.so.1"),
    "symbol": (Class.IMPORT, "shared-library: ops.so"),
    "files": (Class.INFRASTRUCTURE, "too-many-files: open files"),
    "watchdog": (Class.ACCELERATOR, "collective-hang"),
    "nccl_other": (Class.ACCELERATOR, "collective-error-other"),
    "pip": (Class.IMPORT, "resolver-conflict: requirements"),
    "docker": (Class.INFRASTRUCTURE, "container-engine"),
    "names": (Class.INFRASTRUCTURE, "name-resolution: name resolution"),
    "harmless": (Class.UNKNOWN, "unknown: exit code 1"),
}


def recorded(name: str) -> tuple[dict[str, Any], str]:
    """The verdict on an induced failure, and its log."""
    ends = read_ends(FAILURES / "recorded" / f"{name}.log")
    said = json.loads((FAILURES / "recorded" / f"{name}.json").read_text(encoding="utf-8"))
    return said, ends.head


@pytest.mark.parametrize("name", RECORDED)
def test_an_induced_failure_has_its_class_and_its_group(name: str) -> None:
    said, log = recorded(name)
    found = classify(Evidence(said["kind"], said["cause"], "", log, said["contract"]), RULES)

    assert (found.failure_class, found.group) == RECORDED[name]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_well_known_failure_has_its_class_and_its_group(name: str) -> None:
    log = (FAILURES / "written" / f"{name}.log").read_text(encoding="utf-8")

    found = classify(Evidence("failed", "exit code 1", "", log), RULES)

    assert (found.failure_class, found.group) == WRITTEN[name]


def test_every_sample_has_an_expectation() -> None:
    for folder, known in (("recorded", RECORDED), ("written", WRITTEN)):
        assert {path.stem for path in (FAILURES / folder).glob("*.log")} == set(known)


def test_every_rule_of_ours_decides_some_sample() -> None:
    """A rule whose pattern can find nothing would never be missed otherwise."""
    decided = {group.partition(":")[0] for _, group in (*RECORDED.values(), *WRITTEN.values())}
    decided |= {
        classify(each, RULES).rule
        for each in (
            Evidence("failed", "assert 1 == 2"),
            Evidence("crashed", "its end was not seen"),
            Evidence("crashed", "its supervisor died: exit code 1"),
            Evidence("failed", "it says no", contract=True),
            Evidence("failed", "OSError: [Errno 111] Connection refused"),
        )
    }

    assert decided == {"unknown", *(rule.id for rule in RULES)}


def test_every_class_is_seen() -> None:
    assert {found for found, _ in (*RECORDED.values(), *WRITTEN.values())} == set(Class)


@pytest.mark.parametrize(
    ("cause", "text", "expected"),
    [
        ("assert 1 == 2", "", Class.ASSERTION),
        ("AssertionError: CUDA out of memory was said", "", Class.ASSERTION),
        ("Failed: DID NOT RAISE <class 'OSError'>", "", Class.ASSERTION),
        ("setup: AssertionError: no", "", Class.ASSERTION),
        ("ValueError: no", "", Class.UNKNOWN),
        ("OSError: [Errno 28] No space left on device", "", Class.INFRASTRUCTURE),
        # The source code around an error says nothing of it.
        (
            "ValueError: no",
            "    with raises(MemoryError):\n        f()\nE   ValueError: no",
            Class.UNKNOWN,
        ),
        ("ValueError: no", "a()\nE   MemoryError\nE   ValueError: no", Class.MEMORY),
    ],
)
def test_a_test_s_failure_is_told_by_what_it_says(cause: str, text: str, expected: Class) -> None:
    assert classify(evidence.of_test("failed", cause, text), RULES).failure_class is expected


@pytest.mark.parametrize("kind", [Kind.CRASHED, Kind.TIMED_OUT, Kind.FAILED])
def test_the_verdict_alone_tells_what_it_can(kind: Kind) -> None:
    found = classify(Evidence(kind, "nobody knows"), RULES)

    expected = {Kind.CRASHED: Class.CRASH, Kind.TIMED_OUT: Class.TIMEOUT}
    assert found.failure_class is expected.get(kind, Class.UNKNOWN)


def test_failures_of_one_cause_share_a_group_and_others_do_not() -> None:
    def group(cause: str) -> str:
        return classify(Evidence("failed", cause), RULES).group

    assert group("ModuleNotFoundError: No module named 'a.b'") == group(
        "setup: ModuleNotFoundError: No module named 'a.b'"
    )
    assert group("No module named 'a'") != group("No module named 'b'")
    # What differs from run to run does not tell two unknown ones apart.
    assert group("odd, after 3.2 s on port 7001") == group("odd, after 4.1 s on port 7002")
    assert group("odd, 3 rows") != group("odd, 4 rows")
    # Nor are two assertions one cause because both are assertions.
    assert group("assert 1 == 2") == group("AssertionError: assert 1 == 2")
    assert group("assert 1 == 2") != group("assert len(rows) == 3")
    assert group("AssertionError: no reward") != group("AssertionError: no token")


@pytest.mark.parametrize(
    "line",
    [
        "E   ValueError: no",
        "\x1b[31mE   ValueError: no\x1b[0m",
        "(EngineCore_0 pid=3112) ValueError: no",
        "(PolicyWorker pid=31, ip=10.0.0.7) E  ValueError: no",
        "[rank3]: ValueError: no",
        "   ValueError: no   ",
    ],
)
def test_what_stands_before_a_line_is_not_what_it_says(line: str) -> None:
    assert said_in(line) == "ValueError: no"


def test_an_item_is_told_by_both_ends_of_its_log(tmp_path: Path) -> None:
    folder = ItemFolder(tmp_path)
    verdict = Verdict(Kind.FAILED, "exit code 1")
    noise = b"loss 0.5\n" * 100_000
    for log in (b"MemoryError\n" + noise, noise + b"MemoryError\n", b"MemoryError"):
        folder.log.write_bytes(log)
        found = classify(evidence.of_item(folder, verdict), RULES)
        assert found == Classified(
            Class.MEMORY, "memory-error", "memory-error: host", "MemoryError"
        )
    folder.log.unlink()
    assert classify(evidence.of_item(folder, verdict), RULES).failure_class is Class.UNKNOWN
