"""The commands end to end, as processes in a small repository of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from junitparser import JUnitXml

from exacthead.cli import main
from exacthead.config import load
from exacthead.runs.folder import RunFolder, State
from exacthead.workers.lock import sealed, worker_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from unit.exacthead.conftest import Repository


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_green_job_leaves_a_run_folder_that_tells_everything(
    small_repository: Repository,
) -> None:
    code, printed = small_repository.exacthead("functional", "count")

    assert code == 0, printed
    assert printed.splitlines()[-1] == "2 passed, 0 failed, 0 skipped"
    assert "count.plain | counting in" in printed
    run = small_repository.run_folder()
    item = run / "items" / "count.plain"
    head = small_repository.git("rev-parse", "HEAD")
    plan, provenance = read(run / "plan.json"), read(run / "provenance.json")
    assert plan["head"] == {
        "commit": head,
        "tree": small_repository.git("rev-parse", "HEAD^{tree}"),
        "dirty": False,
        "content": small_repository.git("rev-parse", "HEAD^{tree}"),
    }
    assert plan["invocation"] == "functional count"
    assert provenance["commit"] == head
    assert [(each["name"], each["how"]) for each in provenance["workers"]] == [
        ("plain", "provided")
    ]
    assert any(package.startswith("pytest==") for package in provenance["workers"][0]["packages"])
    assert provenance["workers"][0]["key"] == plan["keys"]["plain"]
    assert set(provenance["fixtures"]) == {"numbers.jsonl", "model"}
    assert read(run / "result.json")["state"] == "passed"
    assert read(item / "result.json")["stages"] == {"count": 0.25}
    assert [check["verdict"]["kind"] for check in read(item / "contract.json")["checks"]] == [
        "passed"
    ]
    cases = [case.name for suite in JUnitXml.fromfile(str(run / "junit.xml")) for case in suite]
    assert cases == ["the script", "it counts to three"]
    assert "it counts to three" in (run / "summary.md").read_text(encoding="utf-8")
    assert not (run / "changes.diff").exists()


def test_a_red_contract_is_red(small_repository: Repository) -> None:
    small_repository.commit(
        {
            "functional/count.contract.toml": '[[check]]\nname = "four"\n'
            'kind = "equals"\nmetric = "count"\nvalue = 4\n'
        }
    )

    code, printed = small_repository.exacthead("functional", "count")

    assert code == 1
    assert printed.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_script_that_skips_itself_is_red(small_repository: Repository) -> None:
    small_repository.commit({"functional/count.sh": "echo no accelerator here, skipping\n"})

    code, printed = small_repository.exacthead("functional", "count")

    assert code == 1
    assert "metrics.jsonl is missing" in printed
    assert printed.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_suite_passes_and_its_tests_are_counted(small_repository: Repository) -> None:
    skipped = "import pytest\n\n@pytest.mark.skip\ndef test_more():\n    1/0\n"
    small_repository.commit({"unit/sums/test_more.py": skipped})

    code, printed = small_repository.exacthead("unit")

    assert code == 0, printed
    assert printed.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"
    # Nothing is to be measured here, and nothing is missed.
    assert "coverage" not in printed
    suites = JUnitXml.fromfile(str(small_repository.run_folder() / "junit.xml"))
    properties = {each.name: each.value for suite in suites for each in suite.properties()}
    assert properties["head"] == small_repository.git("rev-parse", "HEAD")[:12]
    assert properties["seed"] == "0"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["functional", "cuont"], "job 'cuont'.*did you mean 'count'?"),
        (["functional", "count", "--leg", "plian"], "leg 'plian'.*did you mean 'plain'?"),
        (["functional", "count", "--runner", "h200"], "runner 'h200'"),
        (["unit", "--suite", "sum"], "suite 'sum'.*did you mean 'sums'?"),
        (["reproduce", "runs/none/count.plain"], "no run folder there"),
        (["workers", "plian"], "worker 'plian'.*did you mean 'plain'?"),
        (["workers", "plain", "--verify"], "none of them is built"),
        (["workers", "plain", "--explain"], "1 workers named"),
        (["lock", "plain"], "it is provided"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_runs(
    small_repository: Repository,
    arguments: list[str],
    found: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(small_repository.root)

    assert main(arguments) == 2

    said = capsys.readouterr().err
    assert re.search(found, said, re.DOTALL), said
    assert "to do:" in said
    assert not (small_repository.root / "runs").exists()


def test_a_broken_contract_is_refused_before_its_job_runs(small_repository: Repository) -> None:
    small_repository.commit({"functional/count.contract.toml": "[[check]]\nkind = 'eqals'\n"})

    code, printed = small_repository.exacthead("functional", "count")

    assert code == 2
    assert "did you mean 'equals'?" in printed


def test_a_repository_that_declares_no_suite_is_not_green(small_repository: Repository) -> None:
    text = (small_repository.root / "ci/harness.toml").read_text(encoding="utf-8")
    small_repository.commit({"ci/harness.toml": re.sub(r"(?s)\[suites.*?\n\n", "", text)})

    code, printed = small_repository.exacthead("unit")

    assert code == 2
    assert "nothing is selected" in printed


def test_a_test_file_in_no_suite_is_refused(small_repository: Repository) -> None:
    small_repository.write({"unit/lost/test_lost.py": ""})

    code, printed = small_repository.exacthead("unit")

    assert code == 2
    assert "in none: unit/lost/test_lost.py" in printed


def test_an_interrupted_leg_is_gone_and_the_folder_says_so(small_repository: Repository) -> None:
    small_repository.commit({"functional/count.sh": "echo started; sleep 600\n"})

    with small_repository.start("functional", "count") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "| started" in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        code = process.wait(timeout=60)

    assert code == 130
    run = small_repository.run_folder()
    assert read(run / "result.json")["state"] == "interrupted"
    assert read(run / "items/count.plain/result.json")["verdict"]["kind"] == "interrupted"
    assert rest.splitlines()[-1] == "0 passed, 2 failed, 0 skipped"


@pytest.mark.parametrize("command", ["functional count", "unit"])
def test_an_interrupt_while_workers_are_built_leaves_nothing_half_built(
    small_repository: Repository, tools: Path, command: str
) -> None:
    slow = tools / "uv"
    real = slow.read_text(encoding="utf-8").splitlines()[1]
    text = f'#!/bin/sh\n[ "$1" = venv ] && {{ : >"{tools}/building"; sleep 600; }}\n{real}\n'
    slow.write_text(text, encoding="utf-8")
    harness = (small_repository.root / "ci/harness.toml").read_text(encoding="utf-8")
    built = re.sub(r"provided = .*\nrequirements = .*", "", harness)
    small_repository.write({"ci/harness.toml": built, "ci/locks/plain-cpu.txt": ""})
    inputs = worker_inputs(load(small_repository.root), "plain", "cpu")
    small_repository.commit({"ci/locks/plain-cpu.txt": sealed("a test", inputs, "")})
    path = f"{tools}:{os.environ['PATH']}"
    with small_repository.start(*command.split(), PATH=path) as process:
        deadline = time.monotonic() + 120
        while not (tools / "building").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=60)

    assert process.returncode == 130, printed
    assert list((small_repository.root / ".cache/workers/workers").iterdir()) == []
    if command == "unit":
        # Its plan rests on what is collected in the workers, so there was none yet.
        assert not (small_repository.root / "runs").exists()
        return
    run = small_repository.run_folder()
    assert read(run / "result.json")["state"] == "interrupted"
    assert read(run / "items/count.plain/result.json")["verdict"] == {
        "kind": "not_run",
        "reason": "interrupted while its workers were made ready",
    }
    assert printed.splitlines()[-1] == "0 passed, 2 failed, 0 skipped"


def test_the_summary_is_appended_for_the_ci_system(
    small_repository: Repository, tmp_path: Path
) -> None:
    step = tmp_path / "step.md"
    step.write_text("before\n", encoding="utf-8")

    small_repository.exacthead("unit", GITHUB_STEP_SUMMARY=str(step))

    summary = (small_repository.run_folder() / "summary.md").read_text(encoding="utf-8")
    assert step.read_text(encoding="utf-8") == f"before\n{summary}"


def test_a_step_summary_that_cannot_be_written_changes_no_verdict(
    small_repository: Repository, tmp_path: Path
) -> None:
    code, printed = small_repository.exacthead("unit", GITHUB_STEP_SUMMARY=str(tmp_path))

    assert code == 0
    assert "cannot be written to" in printed


def test_a_terminal_that_goes_away_takes_no_run_along(small_repository: Repository) -> None:
    script = (small_repository.root / "functional/count.sh").read_text(encoding="utf-8")
    small_repository.commit({"functional/count.sh": "yes line | head -n 100000\n" + script})
    with small_repository.start("functional", "count") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        code = process.wait(timeout=240)

    folder = RunFolder(small_repository.run_folder())
    assert code == 0
    assert folder.state() is State.PASSED
    assert "# Exacthead: 1 passed\n" in folder.summary.read_text(encoding="utf-8")


def test_a_checkout_that_is_edited_during_a_run_is_no_exact_head(
    small_repository: Repository,
) -> None:
    script = (small_repository.root / "functional/count.sh").read_text(encoding="utf-8")
    edit = "echo '# edited' >>functional/count.contract.toml\n"
    head = small_repository.commit({"functional/count.sh": edit + script})

    for edited in (True, True, False):
        if not edited:
            small_repository.write({"functional/count.sh": script})
        code, printed = small_repository.exacthead("functional", "count")

        assert code == 0, printed
        run = small_repository.run_folder()
        assert f"at head {head[:12]}-dirty" in (run / "summary.md").read_text(encoding="utf-8")
        said = "The checkout was changed while the run went on: functional/count.contract.toml."
        assert (said in printed) is edited
        changed = ["functional/count.contract.toml"] if edited else []
        assert read(run / "provenance.json")["changed"] == changed


def test_a_declared_secret_reaches_its_job_and_no_file(small_repository: Repository) -> None:
    text = (small_repository.root / "ci/harness.toml").read_text(encoding="utf-8")
    script = (small_repository.root / "functional/count.sh").read_text(encoding="utf-8")
    small_repository.commit(
        {
            "ci/harness.toml": text.replace('level = "L0"', 'level = "L0"\nsecrets = ["A_TOKEN"]'),
            "functional/count.sh": (
                f"[[ $A_TOKEN == hush-hush && -z ${{B_TOKEN-}} ]]\necho it is $A_TOKEN\n{script}"
            ),
        }
    )

    secrets = {"A_TOKEN": "hush-hush", "B_TOKEN": "of nobody here"}
    code, printed = small_repository.exacthead("functional", "count", "--jobs", "2", **secrets)

    assert code == 0, printed
    assert "  | it is ***\n" in printed
    assert "hush-hush" not in printed
    run = small_repository.run_folder()
    kept = [path for path in run.rglob("*") if path.is_file()]
    assert len(kept) > 5
    assert not [path for path in kept if b"hush-hush" in path.read_bytes()]
    assert read(run / "plan.json")["items"][0]["secrets"] == ["A_TOKEN"]
    missing, said = small_repository.exacthead("functional", "count")
    assert missing == 2
    assert "the secret A_TOKEN for job 'count'" in said
