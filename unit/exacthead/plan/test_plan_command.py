"""The command `plan`: what it shows is what a session does."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from unit.exacthead.conftest import Repository

RED = "def test_sum():\n    assert 1 + 1 == 3\n"
TESTS = {f"unit/sums/test_{n}.py": f"def test_{n}():\n    pass\n" for n in "abc"}


@pytest.fixture
def here(small_repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.chdir(small_repository.root)
    return small_repository


def planned(repository: Repository, *arguments: str) -> dict[str, Any]:
    file = repository.root / ".cache/plan.json"
    file.parent.mkdir(exist_ok=True)
    assert main(["plan", "--json", str(file), *arguments]) == 0
    data: dict[str, Any] = json.loads(file.read_bytes())
    return data


def run_plan(repository: Repository) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((repository.run_folder() / "plan.json").read_bytes())
    return data


def test_a_plan_tells_what_where_with_which_keys_and_why(
    here: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    data = planned(here)

    shown = capsys.readouterr().out
    assert re.search(r"unit\.sums +L0 +1 .* here +by default", shown)
    assert re.search(r"count\.plain +L0 .* plain +here +by default", shown)
    assert re.search(r"worker plain: [0-9a-f]{12}, ready", shown)
    assert "runner this machine: " in shown
    assert [item["id"] for item in data["items"]] == ["unit.sums", "count.plain"]
    suite, leg = data["items"]
    assert suite["arguments"] == ["unit", "--suite", "sums"]
    assert leg["arguments"] == ["functional_count", "--leg", "plain"]
    assert suite["tests"] == 1
    assert suite["workers"]["suite"]["name"] == "plain"
    assert len(leg["workers"]["policy"]["key"]) == 64
    assert leg["workers"]["policy"]["ready"] is True
    assert not (here.root / "runs").exists()


def test_the_plan_that_is_shown_is_the_one_that_is_run(here: Repository) -> None:
    for arguments in (["--suite", "sums"], ["--job", "count"], []):
        digest = planned(here, *arguments)["digest"]
        assert main(["run", *arguments]) == 0
        assert run_plan(here)["digest"] == digest
    digest = planned(here, "--job", "count")["digest"]
    assert main(["functional", "count"]) == 0
    assert run_plan(here)["digest"] == digest


def test_problems_are_shown_with_the_plan_and_nothing_would_be_started(
    here: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    here.write({"functional/lost.sh": "true\n"})
    (here.root / "functional/count.contract.toml").unlink()

    assert main(["plan", "--json", "-"]) == 2
    data = json.loads(capsys.readouterr().out)
    assert [problem["check"] for problem in data["problems"]] == ["scripts", "contracts"]
    assert [item["id"] for item in data["items"]] == ["unit.sums", "count.plain"]
    assert data["digest"] is None
    assert main(["plan"]) == 2
    assert "2 problems: nothing of this would be started" in capsys.readouterr().out
    assert main(["run"]) == 2
    said = capsys.readouterr().err
    assert "functional/lost.sh" in said
    assert "count.contract.toml" in said
    assert not (here.root / "runs").exists()


def test_shards_are_told_as_a_session_is_asked_for_them(here: Repository) -> None:
    text = (here.root / "ci/harness.toml").read_text(encoding="utf-8")
    shards = text.replace('paths = ["unit/sums"]', 'paths = ["unit/sums"]\nshards = 2')
    here.commit({**TESTS, "ci/harness.toml": shards})

    whole = planned(here, "--suite", "sums")["items"]
    (second,) = planned(here, "--shard", "2/2")["items"]

    assert [item["id"] for item in whole] == ["unit.sums.1of2", "unit.sums.2of2"]
    assert whole[1]["arguments"] == ["unit", "--suite", "sums", "--shard", "2/2"]
    # The notes on a division are at its first item.
    assert second == {**whole[1], "why": "by default", "notes": whole[0]["notes"]}
    assert sum(item["tests"] for item in whole) == 4


def test_a_suite_whose_worker_is_not_built_is_planned_by_its_shards(
    here: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from exacthead.config import load
    from exacthead.workers.lock import sealed, worker_inputs

    text = (here.root / "ci/harness.toml").read_text(encoding="utf-8")
    built = re.sub(r"provided = .*\n", 'probes = ["pytest"]\n', text)
    here.write({"ci/harness.toml": built.replace('"unit/sums"]', '"unit/sums"]\nshards = 3')})
    inputs = worker_inputs(load(here.root), "plain", "cpu")
    here.commit({"ci/locks/plain-cpu.txt": sealed("a test", inputs, "")})
    monkeypatch.setenv("EXACTHEAD_CACHE", str(tmp_path / "cache"))

    items = planned(here, "--suite", "sums")["items"]

    assert [item["id"] for item in items] == [f"unit.sums.{n}of3" for n in (1, 2, 3)]
    assert {item["tests"] for item in items} == {None}
    assert items[0]["workers"]["suite"]["ready"] is False
    assert items[0]["notes"] == ["its tests are known once worker plain is built"]
    assert not list((tmp_path / "cache").glob("workers/workers/*"))


def test_only_what_was_not_green_in_a_run_is_run_again(
    here: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (here.root / "ci/harness.toml").read_text(encoding="utf-8")
    shards = text.replace('paths = ["unit/sums"]', 'paths = ["unit/sums"]\nshards = 2')
    here.commit({**TESTS, "unit/sums/test_sums.py": RED, "ci/harness.toml": shards})
    assert main(["run"]) == 1
    first = here.run_folder()
    (red,) = (item for item in run_plan(here)["items"] if "test_sums" in json.dumps(item["shard"]))

    data = planned(here, "--only-failed-of", first.name)

    (item,) = data["items"]
    assert item["id"] == red["id"]
    assert item["why"] == f"failed in {first.name}"
    assert item["tests"] == sum(map(len, red["shard"]["groups"]))
    # Mended, with a new test in the same file: the same tests as then, and they are green.
    fixed = "def test_sum():\n    assert 1 + 1 == 2\n\ndef test_new():\n    pass\n"
    here.commit({"unit/sums/test_sums.py": fixed})
    assert main(["run", "--only-failed-of", str(first)]) == 0
    second = here.run_folder()
    assert second != first
    assert [each["id"] for each in run_plan(here)["items"]] == [red["id"]]
    assert run_plan(here)["items"][0]["shard"]["groups"] == red["shard"]["groups"]
    # Nothing is left to do.
    capsys.readouterr()
    assert main(["plan", "--only-failed-of", second.name]) == 2
    assert "every item is green" in capsys.readouterr().err
    assert main(["plan", "--only-failed-of", f"{first.name}x"]) == 2
    assert f"did you mean '{first.name}'?" in capsys.readouterr().err


def test_a_red_leg_and_one_without_a_result_are_run_again(here: Repository) -> None:
    count = (here.root / "functional/count.sh").read_text(encoding="utf-8")
    here.commit({"functional/count.sh": "exit 3\n"})
    assert main(["run"]) == 1
    run = here.run_folder()
    (run / "items/unit.sums/result.json").unlink()

    items = planned(here, "--only-failed-of", run.name)["items"]

    whys = {item["id"]: item["why"] for item in items}
    assert whys == {
        "unit.sums": f"without a result in {run.name}",
        "count.plain": f"failed in {run.name}",
    }
    here.commit({"functional/count.sh": count})
    assert main(["run", "--only-failed-of", run.name, "--job", "count"]) == 0
