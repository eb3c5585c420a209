"""The conformance suite: stores of ours pass, and each broken sink fails the one right check."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from posttrain.capture.conformance import CHECKS, Failed, Subject, bounded, check, run
from unit.posttrain.capture import sinks

if TYPE_CHECKING:
    from pathlib import Path

    from posttrain.capture.staging.files import FileStore

HERE = "unit.posttrain.capture.sinks"
# What Gym itself brings does not depend on the sink.
OF_SINKS = [name for name in CHECKS if name not in {"gym_local_sink", "ledger_visibility"}]
RUN_S = 240


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("factory", ["files", "sqlite"])
def test_our_stores_pass(factory: str, name: str, tmp_path: Path) -> None:
    check(name, Subject(f"{HERE}:{factory}", str(tmp_path)))


@pytest.mark.parametrize("kind", sinks.BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_sink_fails_exactly_the_check_of_its_fault(
    kind: type[FileStore], tmp_path: Path
) -> None:
    subject = Subject(f"{HERE}:{kind.__name__.lower()}", str(tmp_path))
    failed = {
        outcome.name: outcome.problem for outcome in run(subject, OF_SINKS) if not outcome.passed
    }
    assert list(failed) == [sinks.BROKEN[kind]], failed


def test_every_check_of_a_sink_is_failed_by_some_broken_one() -> None:
    assert {*sinks.BROKEN.values()} == {*OF_SINKS} - {"golden_vectors"}


def test_a_sink_that_does_not_answer_with_a_result_fails_whatever_stages(tmp_path: Path) -> None:
    subject = Subject(f"{HERE}:saysnothing", str(tmp_path))
    with pytest.raises(Failed, match="stage returned str, not a StageResult"):
        check("round_trip", subject)


@pytest.mark.parametrize("name", ["concurrent_calls", "conflicting_restage"])
def test_a_sink_that_hangs_fails_within_the_bound_of_a_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr(bounded, "CHECK_S", 3.0)
    with pytest.raises(Failed, match=r"threads did not end within 3 s: the sink"):
        check(name, Subject(f"{HERE}:deadlocks", str(tmp_path)))


def test_golden_vectors_that_come_out_otherwise_fail(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import nemo_gym.token_id_capture.staging.conformance as published

    vectors = published.load_golden_vectors()
    monkeypatch.setattr(
        published, "load_golden_vectors", lambda: vectors | {"staged_call_digest": "0" * 64}
    )
    with pytest.raises(Failed, match="staged call digest mismatch: 1122c7fe"):
        check("golden_vectors", Subject(f"{HERE}:files", str(tmp_path)))


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "posttrain.capture.conformance", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )


def test_the_command_says_what_passed_and_what_did_not(tmp_path: Path) -> None:
    names = ["fetch_order", "missing_keys"]
    asked = [word for name in names for word in ("--check", name)]
    good = command(f"{HERE}:sqlite", "--place", str(tmp_path / "good"), *asked)
    assert (good.returncode, good.stdout) == (
        0,
        "passed  fetch_order\npassed  missing_keys\n2 of 2 checks passed\n",
    )
    bad = command(f"{HERE}:skipsmissing", *asked)
    assert bad.returncode == 1
    assert bad.stdout.startswith(
        "passed  fetch_order\nFAILED  missing_keys\n        1 keys, of which"
    )
    assert bad.stdout.endswith("gave 0 snapshots\n1 of 2 checks passed\n")


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("no colon", "name the factory as module:callable, not 'no colon'"),
        ("no.such.module:it", "the factory no.such.module:it cannot be imported"),
        (f"{HERE}:nothing", f"the factory {HERE}:nothing cannot be imported"),
        ("builtins:len", "builtins:len returned int, not a pair of sink and source"),
        (f"{HERE}:pair", f"{HERE}:pair returned (str, str): the first must have stage()"),
    ],
)
def test_a_factory_that_cannot_be_used_is_named(
    factory: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from posttrain.capture.conformance.__main__ import main

    assert main([factory]) == 2
    assert said in capsys.readouterr().err
