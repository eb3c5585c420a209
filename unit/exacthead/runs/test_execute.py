from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import exacthead
from exacthead.errors import HarnessError
from exacthead.runs.execute import Execution, exit_code, plain_result, state_of
from exacthead.runs.folder import RunFolder, State
from exacthead.runs.gates import Gates
from exacthead.runs.interrupt import Interrupts
from exacthead.runs.item import run_item
from exacthead.runs.packing import Asked, Capacity
from exacthead.runs.result import ItemResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.runs.item import ItemOutcome, ItemRequest

# What one leg leaves lying about, and what the next would trip over if it could see it.
LITTER = (
    "touch $HOME/litter $TMPDIR/litter $XDG_CACHE_HOME/litter; export PYTHONPATH=/litter\n"
    "sleep 600 & exit 0"
)
PICKY = 'test -z "$(ls -A $HOME $TMPDIR | grep litter)" && ! env | grep litter'


def run(
    folder: RunFolder, requests: list[ItemRequest], **fields: Any
) -> tuple[State, list[ItemResult]]:
    return Execution(folder, Interrupts(), **fields).run(requests)


def test_any_order_of_legs_gives_the_same_verdicts(
    tmp_path: Path, shell: Callable[..., ItemRequest]
) -> None:
    legs = {"litter": LITTER, "picky": PICKY, "broken": "exit 3"}
    seen = set()
    for order in itertools.permutations(legs):
        folder = RunFolder.create(tmp_path / "-".join(order), {}, "head")
        requests = [shell(legs[leg], item_id=leg, leftover_grace_s=0.2) for leg in order]
        state, results = run(folder, requests)
        assert state is State.FAILED
        seen.add(tuple(sorted((each.item_id, each.verdict.kind) for each in results)))
    assert seen == {
        (("broken", Kind.FAILED), ("litter", Kind.FAILED), ("picky", Kind.PASSED)),
    }


def test_parallel_legs_share_nothing(
    run_folder: RunFolder, shell: Callable[..., ItemRequest], tmp_path: Path
) -> None:
    # Each waits until all three run, so that they really do at the same time.
    meet = (
        f"touch {tmp_path}/$0; while [ $(ls {tmp_path}/here-* | wc -l) -lt 3 ]; do sleep 0.1; done"
    )
    tell = "echo $EXACTHEAD_PORTS $(realpath $HOME $TMPDIR $RAY_TMPDIR)"
    script = f"touch {tmp_path}/here-$$; {meet}; {tell}"
    requests = [shell(script, item_id=f"leg{n}") for n in range(3)]
    state, results = run(run_folder, requests, capacity=Capacity(3))
    assert state is State.PASSED, results
    lines = [request.folder.log.read_text().split() for request in requests]
    ports = sorted(tuple(map(int, line[0].split("-"))) for line in lines)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ports))
    for column in (1, 2, 3):
        assert len({line[column] for line in lines}) == 3


def test_a_red_item_stops_no_other_and_results_are_kept(
    run_folder: RunFolder, shell: Callable[..., ItemRequest]
) -> None:
    requests = [shell("exit 1", item_id="a/b"), shell("exit 0", item_id="a_b")]
    state, results = run(run_folder, requests)
    assert state is State.FAILED
    assert [each.item_id for each in results] == ["a/b", "a_b"]
    assert run_folder.results() == sorted(results, key=lambda each: each.item_id)
    assert run_folder.state() is State.FAILED
    kept = json.loads((run_folder.path / "result.json").read_text())
    assert kept["items"] == {"a/b": "failed", "a_b": "passed"}


def test_the_conclusion_has_the_last_word(
    run_folder: RunFolder, shell: Callable[..., ItemRequest]
) -> None:
    def conclude(request: ItemRequest, outcome: ItemOutcome) -> ItemResult:
        verdict = Verdict(Kind.FAILED, "a check of the contract")
        return plain_result(request, outcome).model_copy(update={"verdict": verdict})

    state, results = run(run_folder, [shell("exit 0")], conclude=conclude)
    assert state is State.FAILED
    assert results[0].verdict.reason == "a check of the contract"
    assert results[0].returncode == 0


def test_an_item_that_cannot_be_isolated_was_not_run(
    run_folder: RunFolder, shell: Callable[..., ItemRequest]
) -> None:
    requests = [shell("true", item_id="bad", environment={"HOME": "/"}), shell("true", "good")]
    state, results = run(run_folder, requests)
    assert state is State.FAILED
    assert [each.verdict.kind for each in results] == [Kind.NOT_RUN, Kind.PASSED]
    assert "HOME" in results[0].verdict.reason


def test_two_items_of_one_id_are_refused(
    run_folder: RunFolder, shell: Callable[..., ItemRequest]
) -> None:
    with pytest.raises(HarnessError, match="more than once: twin"):
        run(run_folder, [shell("true", "twin"), shell("true", "twin")])


def test_a_fault_of_the_conclusion_ends_the_other_items(
    run_folder: RunFolder, shell: Callable[..., ItemRequest], gone: Callable[[Path], bool]
) -> None:
    def conclude(request: ItemRequest, outcome: ItemOutcome) -> ItemResult:
        if request.item_id == "first":
            raise ZeroDivisionError
        return plain_result(request, outcome)

    second = shell("echo $$ > $EXACTHEAD_ARTIFACTS/pids; sleep 600", item_id="second")
    wait = f"while [ ! -s {second.folder.artifacts}/pids ]; do sleep 0.05; done"
    with pytest.raises(ZeroDivisionError):
        run(
            run_folder,
            [shell(wait, item_id="first"), second],
            capacity=Capacity(2),
            conclude=conclude,
        )
    assert gone(second.folder.artifacts / "pids")
    assert second.folder.read_result().verdict.kind is Kind.INTERRUPTED


def span(tmp_path: Path) -> str:
    """A script that notes how many of its kind run at once, itself included."""
    return (
        f"touch {tmp_path}/here.$$; sleep 0.3; ls {tmp_path} | grep -c here >>{tmp_path}/counts; "
        f"sleep 0.3; rm {tmp_path}/here.$$"
    )


def counts(tmp_path: Path) -> list[int]:
    return [int(line) for line in (tmp_path / "counts").read_text().split()]


def test_items_share_a_machine_by_what_they_ask_for(
    run_folder: RunFolder, shell: Callable[..., ItemRequest], tmp_path: Path
) -> None:
    asked = Asked(cpus=1, memory_gb=2.0)
    script = span(tmp_path)
    requests = [shell(script, item_id=f"leg{n}", asked=asked) for n in range(4)]
    room = Capacity(jobs=4, cpus=4, memory_gb=4.5)

    state, results = run(run_folder, requests, capacity=room)

    assert state is State.PASSED, results
    assert max(counts(tmp_path)) == 2


def test_an_item_is_told_which_accelerators_are_its_own(
    run_folder: RunFolder, shell: Callable[..., ItemRequest]
) -> None:
    asked = Asked(accelerators=1)
    script = "echo devices $CUDA_VISIBLE_DEVICES; sleep 0.5"
    requests = [shell(script, item_id=f"leg{n}", asked=asked) for n in range(2)]

    run(run_folder, requests, capacity=Capacity(jobs=2, devices=("3", "8")))

    logs = sorted(request.folder.log.read_text() for request in requests)
    assert logs == ["devices 3\n", "devices 8\n"]


def test_after_a_red_item_nothing_begins_when_that_is_asked_for(
    run_folder: RunFolder, shell: Callable[..., ItemRequest]
) -> None:
    requests = [
        shell("exit 0", item_id="a"),
        shell("exit 3", item_id="b"),
        shell("exit 0", item_id="c"),
        shell("", item_id="d", settled=Verdict(Kind.SKIPPED, "not here")),
    ]
    state, results = run(run_folder, requests, fail_fast=True)

    assert state is State.FAILED
    kinds = [each.verdict.kind for each in results]
    assert kinds == [Kind.PASSED, Kind.FAILED, Kind.NOT_RUN, Kind.SKIPPED]
    assert results[2].verdict.reason == "--fail-fast: b is failed"


def test_what_runs_when_another_turns_red_goes_on_to_its_end(
    run_folder: RunFolder, shell: Callable[..., ItemRequest], tmp_path: Path
) -> None:
    wait = f"while [ ! -e {tmp_path}/red ]; do sleep 0.05; done; sleep 1; echo done"
    requests = [
        shell(wait, item_id="long"),
        shell(f"touch {tmp_path}/red; exit 1", item_id="red"),
        shell("exit 0", item_id="late"),
    ]
    _, results = run(run_folder, requests, fail_fast=True, capacity=Capacity(jobs=2))

    kinds = [each.verdict.kind for each in results]
    assert kinds == [Kind.PASSED, Kind.FAILED, Kind.NOT_RUN]


def test_a_red_result_from_before_does_not_end_what_goes_on(
    run_folder: RunFolder, shell: Callable[..., ItemRequest]
) -> None:
    kept = result(Kind.FAILED)

    state, results = run(run_folder, [shell("true", "y")], kept=(kept,), fail_fast=True)

    assert state is State.FAILED
    assert [each.verdict.kind for each in results] == [Kind.FAILED, Kind.PASSED]


def test_results_that_stand_count_and_open_gates(
    run_folder: RunFolder, shell: Callable[..., ItemRequest]
) -> None:
    kept = result(Kind.PASSED)
    gates = Gates({"y": ("x",)})

    state, results = run(run_folder, [shell("true", item_id="y")], kept=(kept,), gates=gates)

    assert (state, [each.item_id for each in results]) == (State.PASSED, ["x", "y"])
    told = json.loads((run_folder.path / "result.json").read_text())
    assert told["items"] == {"x": "passed", "y": "passed"}


def result(kind: Kind, *, required: bool = True) -> ItemResult:
    reason = "" if kind is Kind.PASSED else "why"
    return ItemResult(item_id="x", verdict=Verdict(kind, reason), required=required)


@pytest.mark.parametrize("kind", set(Kind) - {Kind.PASSED, Kind.QUARANTINED})
def test_one_required_item_that_is_not_green_fails_the_run(kind: Kind) -> None:
    results = [result(Kind.PASSED), result(kind)]
    assert exit_code(state_of(results)) == 1


@pytest.mark.parametrize("kind", list(Kind))
def test_an_item_that_is_not_required_does_not_fail_the_run(kind: Kind) -> None:
    assert exit_code(state_of([result(Kind.PASSED), result(kind, required=False)])) == 0


def test_a_run_of_nothing_is_not_green() -> None:
    assert exit_code(state_of([])) == 1


def test_an_interrupted_run_exits_with_130() -> None:
    assert exit_code(State.INTERRUPTED) == 130


# A file size limit stands for a full disk: both fail in the middle of a write.
FULL_DISK = """
import resource, sys
from pathlib import Path
from exacthead.errors import HarnessError
from exacthead.runs.files import write_text
path = Path(sys.argv[1])
write_text(path, "old")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_text(path, "new" * 1000)
except HarnessError as error:
    print(error)
"""


def test_a_full_disk_is_a_clear_error_and_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)],
        env={**os.environ, "PYTHONPATH": str(Path(exacthead.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"write {path}\n  found: File too large\n  to do: make room")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_harness_inside_an_item_cleans_up_its_own(
    python: Callable[..., ItemRequest], tmp_path: Path
) -> None:
    driver = Path(__file__).parent / "driver.py"
    (tmp_path / "inner").mkdir()
    inner = [str(driver), str(tmp_path / "inner"), "1", "sleep 600 & exit 0", "exit 0"]
    source = (
        "import subprocess, sys\n"
        f"sys.exit(subprocess.run([sys.executable, *{inner!r}]).returncode + 40)\n"
    )
    source_root = Path(exacthead.__file__).parent.parent
    outcome = run_item(python(source, pythonpath=(source_root,)))
    assert (outcome.returncode, outcome.leftovers) == (41, ())
    inner_folder = RunFolder(Path(outcome.log.read_text().strip()))
    kinds = [each.verdict.kind for each in inner_folder.results()]
    assert kinds == [Kind.FAILED, Kind.PASSED]
