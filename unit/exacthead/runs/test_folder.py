from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exacthead.errors import HarnessError
from exacthead.runs.execute import plain_result
from exacthead.runs.folder import RunFolder, State, folder_name
from exacthead.runs.item import ItemRequest, run_item
from exacthead.runs.result import ItemResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IDS = ["a/b", "a_b", "a-b", "A_B", "a@b", "a=2fb", "a b", "a.b", "x" * 300, "x" * 299, "日本", ""]
IDS += [".", "..", "a//b", "/a/b", "日本語" * 100, "a\nb", "a\0b", "~", "=", "=2e"]

alike = st.text(st.sampled_from("aAbB/_-. @=~2ef\u65e5"), max_size=140)


@given(alike | st.text(max_size=400), alike | st.text(max_size=400))
@example("a/b", "a@b")
@example("a", "A")
@example("", ".")
def test_two_item_ids_never_meet(one: str, other: str) -> None:
    # casefold: also on a file system that ignores case.
    assert (folder_name(one).casefold() == folder_name(other).casefold()) == (one == other)


@given(st.text(max_size=400))
def test_every_id_has_a_name_that_a_file_system_takes(item_id: str) -> None:
    name = folder_name(item_id)
    assert 1 <= len(name.encode()) <= 120
    assert name not in {".", ".."}
    assert not set(name) & set("/\0\n")


def test_a_plain_id_is_readable() -> None:
    assert folder_name("gym_training/flag_off") == "gym_training@flag_off"
    assert folder_name("Suite 1") == "=53uite=201"


def test_alike_ids_keep_apart_on_disk_and_their_names_survive(run_folder: RunFolder) -> None:
    for item_id in IDS:
        folder = run_folder.item(item_id)
        folder.write_result(
            ItemResult(item_id=item_id, verdict=Verdict(Kind.FAILED, item_id + "!"))
        )
    assert [each.item_id for each in run_folder.results()] == sorted(IDS)
    assert all(each.verdict.reason == each.item_id + "!" for each in run_folder.results())


def test_a_result_reads_back_as_it_was_written(shell: Callable[..., ItemRequest]) -> None:
    request = shell("sleep 600 & exit 3")
    written = plain_result(request, run_item(request))
    request.folder.write_result(written)
    assert request.folder.read_result() == written


def test_a_new_run_is_running_and_has_its_plan(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", {"digest": "d"}, "abc123")
    assert folder.state() is State.RUNNING
    assert json.loads((folder.path / "plan.json").read_text()) == {"digest": "d"}
    assert folder.run_id.split("-")[2] == "abc123"
    assert not list(folder.path.glob("**/.*"))


def test_runs_of_one_moment_have_folders_of_their_own(tmp_path: Path) -> None:
    paths = {RunFolder.create(tmp_path, {}, "head").path for _ in range(20)}
    assert len(paths) == 20


def test_a_state_of_another_boot_is_abandoned(run_folder: RunFolder) -> None:
    path = run_folder.path / "result.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "boot": "another"}))
    assert run_folder.state() is State.ABANDONED


def test_a_broken_result_is_an_error_that_names_the_file(run_folder: RunFolder) -> None:
    folder = run_folder.item("x")
    folder.result.write_text('{"item_id": "x", "verdict": {"kind": "pass')
    with pytest.raises(HarnessError, match=str(folder.result)):
        run_folder.results()


def test_a_runs_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(HarnessError, match="give a runs folder that can be written to"):
        RunFolder.create(tmp_path / "runs", {}, "head")
