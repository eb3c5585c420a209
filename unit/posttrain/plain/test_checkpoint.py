"""The folder of checkpoints: whole or not there, whatever is killed, full or damaged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.checkpoint.identity import FREE, check_identity, identity
from posttrain.checkpoint.keeper import Checkpoints
from posttrain.checkpoint.manifest import CheckpointError, Saved, check_whole, content_of
from posttrain.checkpoint.resume import Start, find_start
from posttrain.checkpoint.store import CheckpointStore
from posttrain.config import load_recipe
from posttrain.config.keys import schema_keys
from posttrain.config.training import TrainRecipe
from posttrain.data import Row
from posttrain.dataset import Prompts
from unit.posttrain.plain.checkpoints import IDENTITY, save
from unit.posttrain.plain.test_metrics import run_unmeasured

if TYPE_CHECKING:
    from posttrain.policy.group import PolicyGroup

ROOT = Path(__file__).parents[3]
GYM_TRAINING = ROOT / "functional/recipes/gym_training.yaml"
ROWS = [Row(0, {"question": "1"}), Row(1, {"question": "2"})]


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    store = CheckpointStore(tmp_path / "checkpoints")
    store.folder.mkdir()
    return store


def steps(store: CheckpointStore) -> list[int]:
    return list(store.steps())


def found(error: pytest.ExceptionInfo[CheckpointError]) -> str:
    assert error.value.asked
    assert error.value.todo
    return error.value.found


# Whole


def test_what_was_published_is_whole_and_says_what_it_is(store: CheckpointStore) -> None:
    folder = save(store, 3)
    manifest = check_whole(folder)
    assert (manifest.step, manifest.weights) == (3, "weights of 3")
    assert manifest.position == {"epoch": 0, "taken": 3, "late": []}
    assert sorted(manifest.files) == ["policy/__0_0.distcp", "policy/__1_0.distcp"]
    assert folder.name == "step-00000003"


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_missing_shard_is_named(store: CheckpointStore) -> None:
    folder = save(store, 3)
    (folder / "policy" / "__1_0.distcp").unlink()
    with pytest.raises(CheckpointError) as caught:
        check_whole(folder)
    assert found(caught) == "policy/__1_0.distcp: missing"


def test_all_damaged_shards_are_named_at_once(store: CheckpointStore) -> None:
    folder = save(store, 3)
    flip(folder / "policy" / "__0_0.distcp", 150)
    (folder / "policy" / "__1_0.distcp").write_bytes(b"")
    with pytest.raises(CheckpointError) as caught:
        check_whole(folder)
    assert "policy/__0_0.distcp: digest" in found(caught)
    assert "policy/__1_0.distcp: 0 bytes instead of 200" in found(caught)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_flipped_bit_of_any_file_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = CheckpointStore(tmp_path_factory.mktemp("flip"))
    folder = save(store, 3)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files))
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        check_whole(folder)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "manifest.json: Expecting value"),
        ("[]", "manifest.json: no manifest"),
        ("{}", "manifest.json: no manifest"),
        ('{"a": 1, "a": 2}', "manifest.json: a key twice"),
        ('{"digest": "0"}', "manifest.json: its content is not what its digest says"),
    ],
)
def test_a_manifest_that_is_none_is_refused(store: CheckpointStore, text: str, reason: str) -> None:
    folder = save(store, 3)
    (folder / "manifest.json").write_text(text)
    with pytest.raises(CheckpointError) as caught:
        check_whole(folder)
    assert found(caught).startswith(reason)


def test_a_folder_without_manifest_and_no_folder_are_refused(store: CheckpointStore) -> None:
    with pytest.raises(CheckpointError, match=r"no manifest\.json"):
        check_whole(store.folder)
    with pytest.raises(CheckpointError, match="no such folder"):
        check_whole(store.folder / "step-00000001")


# Killed

KILLED = """
import os, signal, sys
from pathlib import Path
from posttrain.checkpoint.manifest import check_whole
from posttrain.checkpoint.store import CheckpointStore
from unit.posttrain.plain.checkpoints import save

store = CheckpointStore(Path(sys.argv[1]))


def die_at(number):
    seen = 0

    def hook(event, arguments):
        nonlocal seen
        if event in {"open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.listdir",
                     "os.scandir", "os.truncate"} and "check" in str(arguments[0]):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


with store.held():
    save(store, 1, 1)
number, outcomes = 0, []
while True:
    number += 1
    last = max(store.steps())
    child = os.fork()
    if child == 0:
        die_at(number)
        with store.held():
            save(store, last + 1, 1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
    now = max(store.steps())
    assert check_whole(store.steps()[now]).step == now
    assert now in {last, last + 1}
    outcomes.append(now - last)
with store.held():
    left = sorted(path.name for path in store.folder.iterdir())
print(os.WEXITSTATUS(status), "".join(map(str, outcomes)), *left)
"""


def test_a_save_that_is_killed_at_any_point_leaves_the_former_or_the_new_one_whole(
    store: CheckpointStore,
) -> None:
    done = run_unmeasured(KILLED, store.folder)
    status, outcomes, *left = done.stdout.split()
    assert status == "0"
    # Killed in each of its steps, first without and later with a new checkpoint.
    assert len(outcomes) > 15
    assert outcomes == "".join(sorted(outcomes))
    assert {"0", "1"} == set(outcomes)
    last = 1 + outcomes.count("1") + 1
    assert left == [".lock", f"step-{last:08d}"]


def test_what_a_killed_run_left_unfinished_is_removed_and_whole_ones_stay(
    store: CheckpointStore,
) -> None:
    save(store, 3)
    for name in (".partial-4-abc", ".removed-abc"):
        (store.folder / name / "policy").mkdir(parents=True)
    with store.held():
        assert sorted(path.name for path in store.folder.iterdir()) == [".lock", "step-00000003"]


def test_two_runs_cannot_write_to_one_folder(store: CheckpointStore) -> None:
    program = (
        "import sys; from pathlib import Path; from posttrain.checkpoint.store import *\n"
        "with CheckpointStore(Path(sys.argv[1])).held(): pass"
    )
    command = [sys.executable, "-c", program, str(store.folder)]
    with store.held():
        second = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
    assert second.returncode == 1
    assert "another run writes there" in second.stderr
    subprocess.run(command, cwd=ROOT, timeout=120, check=True)


# Full disk


def test_a_disk_that_takes_no_more_leaves_the_former_one_whole_and_its_room_free(
    store: CheckpointStore,
) -> None:
    program = """
import resource, signal, sys
from pathlib import Path
from posttrain.checkpoint.store import CheckpointStore
from posttrain.disk import writing
from posttrain.errors import StackError
from unit.posttrain.plain.checkpoints import save

store = CheckpointStore(Path(sys.argv[1]))
save(store, 1)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in (500, 100, 0):  # room for the shards, for half a shard, for nothing
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        with writing("checkpoint 2", store.folder):
            save(store, 2, 1)
    except StackError as error:
        print(error.found)
"""
    done = run_unmeasured(program, store.folder)
    assert done.stdout == "File too large\n" * 3
    assert [path.name for path in store.folder.iterdir()] == ["step-00000001"]
    assert check_whole(store.steps()[1]).step == 1


# Pruning


def test_the_newest_are_kept(store: CheckpointStore) -> None:
    for step in range(1, 6):
        save(store, step, keep=2)
    assert steps(store) == [4, 5]
    save(store, 6, keep=None)
    save(store, 7, keep=1)
    assert steps(store) == [7]


def test_a_damaged_one_does_not_count_and_goes(store: CheckpointStore) -> None:
    for step in (1, 2, 3):
        save(store, step)
    store.prune(3, 2, damaged={2})
    assert steps(store) == [1, 3]


def test_a_damaged_one_gives_way_to_a_whole_one_of_the_same_step(store: CheckpointStore) -> None:
    folder = save(store, 3)
    (folder / "manifest.json").write_text("")
    assert check_whole(save(store, 3)).step == 3
    assert [path.name for path in store.folder.iterdir()] == ["step-00000003"]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True),
    st.integers(1, 3),
    st.sets(st.integers(1, 9)),
)
def test_pruning_keeps_the_newest_whole_ones_whatever_is_there(
    tmp_path_factory: pytest.TempPathFactory, there: list[int], keep: int, damaged: set[int]
) -> None:
    store = CheckpointStore(tmp_path_factory.mktemp("prune"))
    newest = there[0]
    for step in there:
        save(store, step)
    store.prune(newest, keep, damaged - {newest})
    older = sorted((s for s in there if s < newest and s not in damaged), reverse=True)
    expected = {newest, *(s for s in there if s > newest), *older[: keep - 1]}
    assert set(steps(store)) == expected


# Resuming


def test_the_newest_whole_one_is_taken(store: CheckpointStore) -> None:
    for step in (1, 2, 10):
        save(store, step)
    start = find_start(store, "auto", IDENTITY)
    assert (start.step, start.continues, start.damaged) == (10, True, ())
    assert start.sentences() == [f"goes on after step 10 from {store.folder}/step-00000010"]


def test_damaged_ones_are_passed_over_with_a_warning_each(store: CheckpointStore) -> None:
    for step in (1, 2, 3):
        save(store, step)
    flip(store.steps()[3] / "policy" / "__0_0.distcp", 7)
    shutil.rmtree(store.steps()[2] / "policy")
    start = find_start(store, "auto", IDENTITY)
    assert start.step == 1
    first, second, last = start.sentences()
    assert first.startswith(f"WARNING: passed over a damaged checkpoint: {store.steps()[3]}: ")
    assert "policy/__0_0.distcp: digest" in first
    assert f"{store.steps()[2]}: policy/__0_0.distcp: missing" in second
    assert "goes on after step 1" in last


def test_with_only_damaged_ones_nothing_begins_silently(store: CheckpointStore) -> None:
    for step in (1, 2):
        (save(store, step) / "manifest.json").unlink()
    with pytest.raises(CheckpointError) as caught:
        find_start(store, "auto", IDENTITY)
    assert found(caught).count("no manifest.json") == 2


def test_without_any_the_run_begins(store: CheckpointStore, tmp_path: Path) -> None:
    assert find_start(store, "auto", IDENTITY) == Start(continues=True)
    nowhere = CheckpointStore(tmp_path / "nowhere")
    assert find_start(nowhere, "auto", IDENTITY).sentences() == [
        "no checkpoint to go on from; begins with the first step"
    ]


def test_a_new_run_does_not_mix_its_checkpoints_with_those_of_another(
    store: CheckpointStore,
) -> None:
    assert find_start(store, None, IDENTITY) == Start()
    save(store, 1)
    with pytest.raises(CheckpointError) as caught:
        find_start(store, None, IDENTITY)
    assert "step-00000001" in found(caught)
    assert "checkpoint.resume=auto" in caught.value.todo


def test_a_chosen_one_is_taken_if_nothing_later_would_be_mixed_with_it(
    store: CheckpointStore, tmp_path: Path
) -> None:
    first, second = save(store, 1), save(store, 2)
    assert find_start(store, str(second), IDENTITY).continues
    with pytest.raises(CheckpointError, match="step-00000002"):
        find_start(store, str(first), IDENTITY)
    other = CheckpointStore(tmp_path / "other")
    start = find_start(other, str(first), IDENTITY)
    assert (start.step, start.continues) == (1, False)
    other.folder.mkdir()
    save(other, 1)
    with pytest.raises(CheckpointError, match="step-00000001"):
        find_start(other, str(first), IDENTITY)


def test_a_chosen_one_that_is_damaged_is_refused(store: CheckpointStore) -> None:
    save(store, 1)
    folder = save(store, 2)
    flip(folder / "policy" / "__0_0.distcp", 0)
    with pytest.raises(CheckpointError, match="__0_0"):
        find_start(store, str(folder), IDENTITY)


def test_a_run_that_differs_is_refused_with_every_difference(store: CheckpointStore) -> None:
    save(store, 1)
    with pytest.raises(CheckpointError) as caught:
        find_start(store, "auto", {"policy.lr": 0.002, "policy.ranks": 2})
    assert "policy.lr: 0.001 there, 0.002 now" in found(caught)
    assert "policy.ranks: not known there, 2 now" in found(caught)


# Identity


@cache
def recipe(*overrides: str) -> TrainRecipe:
    given = [f"interpreters.{name}=python" for name in ("policy", "generation", "gym")]
    return load_recipe(GYM_TRAINING, ["run.dir=here", *given, *overrides]).recipe


def differences(*overrides: str, rows: list[Row] = ROWS) -> str:
    saved = json.loads(json.dumps(identity(recipe("run.steps=4"), ROWS)))
    try:
        check_identity(Path("saved"), saved, identity(recipe("run.steps=4", *overrides), rows))
    except CheckpointError as error:
        return error.found
    return ""


@pytest.mark.parametrize(
    "override",
    [
        "run.steps=9",
        "run.dir=there",
        "timeouts.train_s=7",
        "checkpoint.every=3",
        "interpreters.gym=other",
        "data.train=elsewhere.jsonl",
        "data.validation=elsewhere.jsonl",
        "model.path=elsewhere",
        "generation.ports=[8101, 8102]",
    ],
)
def test_a_run_may_go_on_with_what_decides_no_weights_changed(override: str) -> None:
    assert differences(override) == ""


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("policy.lr=0.5", "policy.lr: 0.0001 there, 0.5 now"),
        ("policy.ranks=1", "policy.ranks: 2 there, 1 now"),
        ("run.seed=3", "run.seed: 0 there, 3 now"),
        ("data.prompts_per_step=1", "data.prompts_per_step: null there, 1 now"),
        ("policy.optimizer.betas=[0.9, 0.9]", "policy.optimizer.betas: [0.9, 0.999] there"),
        (f"model.revision=sha256:{'0' * 64}", f'now\n    model.revision: "sha256:{"0" * 64}"'),
        ("rollouts.per_prompt=2", "rollouts.per_prompt: 1 there, 2 now"),
    ],
)
def test_a_run_may_not_go_on_with_what_decides_the_weights_changed(
    override: str, named: str
) -> None:
    said = differences(override)
    assert named in said or said.endswith(f'"sha256:{"0" * 64}" now')


def test_other_rows_in_the_same_file_are_another_run() -> None:
    assert "rows of data.train: " in differences(rows=ROWS[:1])
    assert differences(rows=[replace(row) for row in ROWS]) == ""


def test_a_longer_run_may_go_on_if_its_schedule_stays_what_it_was() -> None:
    saved = identity(recipe("run.steps=4", "policy.schedule.kind=cosine"), ROWS)
    longer = identity(recipe("run.steps=9", "policy.schedule.kind=cosine"), ROWS)
    with pytest.raises(CheckpointError, match=r"policy\.schedule\.steps: 4 there, 9 now"):
        check_identity(Path(), saved, longer)
    kept = recipe(
        *("run.steps=9", "policy.schedule.kind=cosine"),
        *("policy.schedule.steps=4", "policy.schedule.final=0.1"),
    )
    with pytest.raises(CheckpointError, match=r"policy\.schedule\.final"):
        check_identity(Path(), saved, identity(kept, ROWS))


def test_what_is_free_is_still_in_the_schema() -> None:
    keys = list(schema_keys(TrainRecipe))
    for name in FREE:
        assert any(key == name or key.startswith(f"{name}.") for key in keys), name


# When


@pytest.mark.parametrize(
    ("every", "expected"), [(0, []), (1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (9, [5])]
)
def test_one_is_due_every_so_many_steps_and_at_the_end(
    store: CheckpointStore, every: int, expected: list[int]
) -> None:
    checkpoints = Checkpoints(store, Start(), every=every, last_step=5)
    assert [step for step in range(1, 6) if checkpoints.due(step)] == expected


class Shards:
    """Stands where the ranks do: two files, of which nothing but their content matters here."""

    def save_checkpoint(self, folder: Path) -> Saved:
        for rank in range(2):
            (folder / f"__{rank}_0.distcp").write_bytes(bytes([rank]))
        files = {path.name: content_of(path) for path in folder.iterdir()}
        return Saved(files, {"torch": "2"})


def test_a_damaged_one_that_was_written_again_counts_as_the_whole_one_that_it_is(
    store: CheckpointStore,
) -> None:
    for step in (1, 2, 3):
        save(store, step)
    for step in (2, 3):
        (store.steps()[step] / "manifest.json").unlink()
    start = find_start(store, "auto", IDENTITY)
    checkpoints = Checkpoints(store, start, IDENTITY, every=1, keep=3, last_step=5)
    prompts, ranks = Prompts(ROWS), cast("PolicyGroup", Shards())
    found = []
    for step in (2, 3, 4):
        checkpoints.save(step, "weights", ranks, prompts)
        found.append(steps(store))
    assert found == [[1, 2, 3], [1, 2, 3], [2, 3, 4]]
    assert [check_whole(path).step for path in store.steps().values()] == [2, 3, 4]


def test_a_run_without_checkpoints_makes_no_folder(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints")
    with Checkpoints(store, Start()).opened(tmp_path) as after:
        assert after is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = CheckpointStore(tmp_path / "file")
    checkpoints: Any = Checkpoints(store, Start(), every=1)
    with (
        pytest.raises(Exception, match=r"write checkpoints to .*file"),
        checkpoints.opened(tmp_path),
    ):
        pass
