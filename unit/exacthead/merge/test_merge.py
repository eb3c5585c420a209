"""Real runs of a small repository merged: one run, whatever order the parts come in."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from junitparser import JUnitXml

from exacthead.cli import main
from exacthead.history.folders import History
from exacthead.plan import read_plan
from exacthead.report.data import read_report
from exacthead.runs.files import write_json
from exacthead.runs.folder import RunFolder, State
from exacthead.runs.result import ItemResult
from exacthead.verdict import Kind, Verdict
from unit.exacthead.conftest import CONTRACT, COUNT, HARNESS, Repository

if TYPE_CHECKING:
    from pathlib import Path

# The second test is green from its second run on.
TESTS = """
import os, pathlib

def test_steady():
    assert True

def test_mended():
    assert pathlib.Path({mark!r}).exists()
"""
SUMS = """
def add(a, b):
    return a + b

def less(a, b):
    return a - b
"""
ADD = "from sums import add\n\ndef test_add():\n    assert add(1, 1) == 2\n"
LESS = "from sums import less\n\ndef test_less():\n    assert less(1, 1) == 0\n"
COVERAGE = '\n[coverage]\nsources = ["sums"]\n'


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def new_run(repository: Repository, *arguments: str) -> tuple[int, str, Path]:
    """The exit code, all that was printed, and the new run folder of a command, run in here."""
    before = repository.run_folders()
    printed = io.StringIO()
    with chdir(repository.root), redirect_stdout(printed), redirect_stderr(printed):
        code = main(arguments)
    new = repository.run_folders() - before
    assert new, printed.getvalue()
    return code, printed.getvalue(), max(new, key=lambda path: path.stat().st_mtime_ns)


def verdicts(folder: Path) -> list[str]:
    """Those of the items, as the report tells them."""
    return [item.verdict for item in read_report(folder).items]


@dataclass(frozen=True)
class Parts:
    """Three shards as three machines would run them, the red one again, and the plan of all."""

    repository: Repository
    plan: Path
    shards: list[Path]
    red: int
    again: Path


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    root = tmp_path_factory.mktemp("merge") / "checkout"
    root.mkdir()
    repository = Repository(root)
    repository.git("init", "--quiet", "--initial-branch=main")
    mark = root.parent / "mark"
    repository.commit(
        {
            ".gitignore": "/.cache/\n/runs/\n/kept/\n__pycache__/\n",
            "ci/harness.toml": HARNESS + COVERAGE,
            "sums/__init__.py": SUMS,
            "unit/sums/test_a.py": ADD,
            "unit/sums/test_b.py": LESS,
            "unit/sums/test_c.py": TESTS.format(mark=str(mark)),
            "functional/count.sh": COUNT,
            "functional/count.contract.toml": CONTRACT,
        }
    )
    ran = [new_run(repository, "unit", "--shard", f"{n}/3") for n in (1, 2, 3)]
    mark.touch()
    red = next(number for number, (code, _, _) in enumerate(ran) if code)
    again = new_run(repository, "unit", "--shard", f"{red + 1}/3")[2]
    kept = root / "kept"
    (root / "runs").rename(kept)
    shards = [kept / path.name for _, _, path in ran]
    plans = [read_plan(path / "plan.json") for path in shards]
    whole = replace(plans[0], items=tuple(item for plan in plans for item in plan.items))
    write_json(kept / "all.json", whole.as_data())
    return Parts(repository, kept / "all.json", shards, red, kept / again.name)


def merged(parts: Parts, *folders: Path) -> tuple[int, str, Path]:
    arguments = ("merge", "--plan", str(parts.plan), *map(str, folders))
    return new_run(parts.repository, *arguments)


def told(folder: Path) -> dict[str, Any]:
    """What a merged run says that does not tell when and where it was merged."""
    items = sorted((folder / "items").rglob("*"))
    provenance = read(folder / "provenance.json")
    return {
        "plan": read(folder / "plan.json"),
        "state": read(folder / "result.json")["state"],
        "kinds": read(folder / "result.json")["items"],
        "junit": (folder / "junit.xml").read_bytes(),
        "coverage": (folder / "coverage.xml").read_text("utf-8").partition("<packages>")[2],
        "files": [str(path.relative_to(folder)) for path in items],
        "attempts": [read(path) for path in items if path.name == "attempts.json"],
        "parts": provenance["parts"],
        "workers": provenance["workers"],
    }


def test_parts_of_one_plan_become_one_run(parts: Parts) -> None:
    code, printed, folder = merged(parts, *parts.shards)

    assert code == 1, printed
    assert printed.splitlines()[-1] == "3 passed, 1 failed, 0 skipped"
    assert "Exacthead: 1 new failure, 3 passed\n" in printed
    assert read_plan(folder / "plan.json").digest == read_plan(parts.plan).digest
    ids = [item.id for item in read_plan(parts.plan).items]
    assert [each.item_id for each in RunFolder(folder).results()] == ids
    assert len(JUnitXml.fromfile(str(folder / "junit.xml"))) == 3
    coverage = (folder / "coverage.xml").read_text(encoding="utf-8")
    # Each function ran on another machine.
    assert 'line-rate="1"' in coverage
    assert sorted(read(folder / "provenance.json")["parts"]) == [
        path.name for path in sorted(parts.shards)
    ]
    result = RunFolder(folder).results()[parts.red]
    assert f"runs/{folder.name}/{result.item_id}" in result.reproduction
    # It is reported as any other run is.
    assert verdicts(folder) == [
        "failed" if number == parts.red else "passed" for number in range(len(parts.shards))
    ]
    report = read_report(folder)
    (failure,) = report.failures
    assert failure.name.endswith("::test_mended")
    assert failure.reproduction == result.reproduction
    first = min(path.name for path in parts.shards)
    assert report.notes[0].startswith(f"Merged of the runs {first}, ")
    assert (folder / "index.html").is_file()
    assert (folder / "metrics.om").is_file()


def test_every_order_and_grouping_of_the_parts_is_the_same_run(parts: Parts) -> None:
    one, two, three = parts.shards
    again = parts.again
    reference = told(merged(parts, one, two, three, again)[2])

    assert told(merged(parts, again, three, two, one)[2]) == reference
    # A part that is given twice, and folders around folders.
    assert told(merged(parts, parts.shards[0].parent / again.name, two, one, three, one)[2]) == (
        reference
    )
    # Merged runs are parts like any other.
    first, second = merged(parts, three, one)[2], merged(parts, again, two)[2]
    assert told(merged(parts, second, first)[2]) == reference


def test_both_attempts_are_shown_and_the_later_one_counts(parts: Parts) -> None:
    code, printed, folder = merged(parts, parts.again, *parts.shards)

    assert code == 0, printed
    summary = (folder / "summary.md").read_text(encoding="utf-8")
    failed, passed = parts.shards[parts.red].name, parts.again.name
    section = summary.partition("## Attempts")[2].partition("##")[0]
    assert section.index(failed) < section.index("failed(") < section.index(passed)
    item = RunFolder(folder).item_path(read_plan(parts.plan).items[parts.red].id).path
    earlier = item / "attempts" / failed
    assert read(earlier / "result.json")["verdict"]["kind"] == "failed"
    assert "test_mended" in (earlier / "junit.xml").read_text(encoding="utf-8")
    assert read(item / "result.json")["verdict"]["kind"] == "passed"
    # Dashboards count each test once.
    assert printed.splitlines()[-1] == "4 passed, 0 failed, 0 skipped"


def test_a_part_that_is_missing_is_red_by_name(parts: Parts) -> None:
    green = [path for place, path in enumerate(parts.shards) if place != parts.red]

    code, printed, folder = merged(parts, *green)

    assert code == 1, printed
    lost = read_plan(parts.plan).items[parts.red]
    missing, tests = lost.id, lost.shard.nodeids if lost.shard else ()
    assert read(folder / "result.json")["items"][missing] == "not_run"
    assert "lost: no run folder has it" in printed
    assert printed.splitlines()[-1].startswith(f"{3 - (len(tests) - 1)} passed, 1 failed")
    assert JUnitXml.fromfile(str(folder / "junit.xml")).errors == 1
    # With nothing at all there still is a run that says so.
    code, printed, folder = merged(parts, parts.repository.root / "nowhere")
    assert code == 1
    assert set(read(folder / "result.json")["items"].values()) == {"not_run"}
    assert "nowhere holds no run folder" in printed


def test_a_part_that_is_broken_costs_only_itself(parts: Parts, tmp_path: Path) -> None:
    copies = [shutil.copytree(path, tmp_path / path.name) for path in parts.shards]
    first, second = (copies[number] for number in range(3) if number != parts.red)
    (first / "plan.json").write_text("{}", encoding="utf-8")
    (second / "items").rename(second / "gone")

    code, printed, folder = merged(parts, tmp_path)

    assert code == 1, printed
    kinds = read(folder / "result.json")["items"]
    assert list(kinds.values()).count("not_run") == 2
    assert f"{first.name} cannot be read" in printed
    assert f"run {second.name} never came to it" in printed


def test_what_was_run_otherwise_does_not_count(parts: Parts) -> None:
    repository = parts.repository
    before = repository.git("rev-parse", "HEAD")
    repository.commit({"unit/sums/test_a.py": "def test_add():\n    assert True\n"})
    other = new_run(repository, "unit", "--shard", "1/3")[2]
    repository.git("reset", "--quiet", "--hard", before)
    shards = [parts.again if n == parts.red else p for n, p in enumerate(parts.shards)]

    code, printed, _ = merged(parts, other, *shards[1:])

    assert code == 1, printed
    assert "but at head" in printed
    assert "lost: run" in printed
    # Another division of the same tests is another item, under the same name or not.
    halves = new_run(repository, "unit", "--shard", "1/2")[2]
    code, printed, _ = merged(parts, halves, *shards)
    assert code == 0, printed
    assert "unit.sums.1of2, which the plan has not" in printed


def test_a_checkout_that_is_not_the_plan_s_head_merges_nothing(parts: Parts) -> None:
    repository = parts.repository
    repository.write({"sums/__init__.py": "x = 1\n"})
    try:
        code, printed = repository.exacthead("merge", "--plan", str(parts.plan), "kept")
    finally:
        repository.git("checkout", "--", "sums")

    assert code == 2
    assert "coverage is told from its sources" in printed


def test_a_retry_runs_what_was_not_green_and_shows_both(parts: Parts) -> None:
    repository = parts.repository
    red = parts.shards[parts.red]
    first = merged(parts, *parts.shards)[2]

    code, printed, folder = new_run(repository, "retry", str(first))

    assert code == 0, printed
    item = read_plan(parts.plan).items[parts.red].id
    attempts = read(RunFolder(folder).item_path(item).path / "attempts.json")
    assert attempts[0]["run"] == red.name
    assert len(attempts) == 2
    assert read_report(folder).verdict == "4 passed"
    assert "## Attempts" in (folder / "summary.md").read_text(encoding="utf-8")
    assert "<h2>Attempts</h2>" in (folder / "index.html").read_text(encoding="utf-8")
    assert "Exacthead: 4 passed\n" in printed
    assert len(read(folder / "provenance.json")["parts"]) == 4
    # By its id alone, as `--only-failed-of` takes it.
    code, printed = repository.exacthead("retry", folder.name)
    assert code == 2
    assert "every item in it is green" in printed
    code, printed = repository.exacthead("retry", folder.name[:-1])
    assert code == 2
    assert f"did you mean {folder.name!r}" in printed


def test_a_retry_says_when_there_is_nothing_that_it_could_run(parts: Parts, tmp_path: Path) -> None:
    known = read_plan(parts.plan)
    broken = Verdict(Kind.FAILED, "test_a.py cannot be imported")
    plan = replace(known, items=(replace(known.items[0], shard=None, settled=broken),))
    run = RunFolder.create(tmp_path, plan.as_data(), "x")
    item = plan.items[0].id
    said = io.StringIO()
    with chdir(parts.repository.root), redirect_stderr(said):
        # Its harness is this process.
        assert main(["retry", str(run.path)]) == 2
        assert main(["plan", "--only-failed-of", str(run.path)]) == 2
        run.item(item).write_result(ItemResult(item_id=item, verdict=broken))
        run.write_state(State.FAILED, {})
        assert main(["retry", str(run.path)]) == 2

    assert said.getvalue().count("it still runs") == 2
    assert f"its plan has settled what is red: {item}: failed(test_a.py cannot" in said.getvalue()


def test_a_merge_onto_an_earlier_run_expects_what_that_one_planned(parts: Parts) -> None:
    earlier = merged(parts, *parts.shards)[2]
    plan = parts.again / "plan.json"
    arguments = ("merge", "--plan", str(plan), "--onto", str(earlier), str(parts.again))

    code, printed, folder = new_run(parts.repository, *arguments)

    assert code == 0, printed
    assert "Exacthead: 4 passed\n" in printed
    assert len(read(folder / "provenance.json")["parts"]) == 4
    # Of another head it says nothing: what is planned now stands alone.
    other = shutil.copytree(earlier, earlier.parent.parent / "kept" / "other")
    then = read_plan(other / "plan.json")
    head = replace(then.head, commit="0" * 40)
    write_json(other / "plan.json", replace(then, head=head).as_data())
    arguments = ("merge", "--plan", str(plan), "--onto", str(other), str(parts.again))
    code, printed, folder = new_run(parts.repository, *arguments)
    assert code == 0, printed
    assert verdicts(folder) == ["passed"]
    assert "not merged onto" in printed


def test_a_plan_that_did_not_know_the_tests_yet_gets_those_that_were_run(parts: Parts) -> None:
    known = read_plan(parts.plan)
    blind = replace(known, items=tuple(replace(item, shard=None) for item in known.items))
    path = parts.plan.parent / "blind.json"
    # As the session `plan` writes it.
    write_json(path, {"problems": [], "plan": blind.as_data()})

    arguments = ("merge", "--plan", str(path), *map(str, parts.shards))
    _, printed, folder = new_run(parts.repository, *arguments)

    assert printed.splitlines()[-1] == "3 passed, 1 failed, 0 skipped"
    assert 'line-rate="1"' in (folder / "coverage.xml").read_text(encoding="utf-8")
    nodeids = [item.shard and item.shard.nodeids for item in read_plan(folder / "plan.json").items]
    assert nodeids == [item.shard and item.shard.nodeids for item in known.items]
    write_json(path, {"problems": [{}, {}], "plan": None})
    said = io.StringIO()
    with chdir(parts.repository.root), redirect_stderr(said):
        assert main(["merge", "--plan", str(path), "kept"]) == 2
    assert "preflight refused it: 2 problems" in said.getvalue()


def test_history_hears_of_an_outcome_once(parts: Parts, tmp_path: Path) -> None:
    folder = merged(parts, *parts.shards)[2]
    shutil.copytree(folder, tmp_path / folder.name)
    assert [run.id for run in History(tmp_path).runs()] == [folder.name]

    shutil.copytree(parts.shards[0], tmp_path / parts.shards[0].name)

    assert [run.id for run in History(tmp_path).runs()] == [parts.shards[0].name]
