"""The commands with ``--in image``: what runs is the same, where it runs is another place."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.images.engine import OURS
from exacthead.images.owner import read as read_owner
from exacthead.images.reaper import reap
from exacthead.runs.result import ItemResult

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.images.engine import Engine
    from exacthead.images.oci import ImageFile
    from unit.exacthead.conftest import Repository


def read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def result(run: Path, item: str) -> ItemResult:
    return ItemResult.model_validate_json((run / "items" / item / "result.json").read_bytes())


def selected(run: Path) -> dict[str, Any]:
    """The tests of each planned item, whatever became of them."""
    return {item["id"]: item["shard"]["groups"] for item in read(run / "plan.json")["items"]}


def covered(run: Path) -> set[str]:
    with closing(sqlite3.connect(run / "coverage.sqlite")) as data:
        return {row[0] for row in data.execute("select path from file")}


def test_a_suite_in_its_image_has_the_same_tests_results_and_coverage(
    clone: Repository, image: ImageFile
) -> None:
    code, printed = clone.exacthead("unit")
    assert code == 0, printed
    outside = clone.run_folder()
    code, printed = clone.exacthead("unit", "--in", "image")
    assert code == 0, printed
    inside = clone.run_folder()

    plans = [read(run / "plan.json") for run in (outside, inside)]
    assert plans[0]["items"] == plans[1]["items"]
    assert plans[1]["images"] == {"unit.sums": image.id}
    assert read(inside / "provenance.json")["images"] == {"small": image.id}
    assert read(inside / "provenance.json")["workers"][0]["how"] == "image"
    assert "2 passed, 0 failed, 0 skipped" in printed
    assert covered(outside) == covered(inside) == {"small/__init__.py", "small/numbers.py"}
    percents = [re.search(r"[\d.]+ % of lines", (run / "summary.md").read_text(encoding="utf-8"))
                for run in (outside, inside)]  # fmt: skip
    assert percents[0] and percents[1] and percents[0][0] == percents[1][0]  # noqa: PT018
    log = (inside / "items/unit.sums/artifacts/tests").rglob("*")
    assert any(path.is_file() and b"in /workspace" in path.read_bytes() for path in log)
    assert sorted(path.name for path in (inside / "items" / "unit.sums").glob(".*")) == []


def test_the_selected_items_are_the_same_for_any_choice_of_image(
    clone: Repository, image: ImageFile
) -> None:
    def plan(*where: str) -> dict[str, Any]:
        chosen = ("unit", "--shards", "2", "--pytest=-k=test_", "--retries=1")
        code, printed = clone.exacthead(*chosen, *where)
        assert code == 0, printed
        return read(clone.run_folder() / "plan.json")

    first = clone.git("rev-parse", "HEAD")
    choices = {
        "made": ("--in", "image"),
        "tag": ("--image", f"exacthead/head:{first[:12]}"),
        "reused": ("--image", image.id, "--reuse", first),
    }
    here = plan()
    for how, where in choices.items():
        if how == "reused":
            clone.commit({"small/more.py": "x = 1\n"})
            here = plan()
        there = plan(*where)

        assert there["items"] == here["items"], how
        assert there["head"] == here["head"], how
        assert here["images"] == {}
        ran = {item["id"] for item in there["items"] if item["settled"] is None}
        assert there["images"] == dict.fromkeys(ran, image.id), how


def require(clone: Repository, *names: str) -> None:
    text = (clone.root / "ci/harness.toml").read_text(encoding="utf-8")
    line = f"[suites.sums]\nrequires = {json.dumps(names)}"
    clone.commit({"ci/harness.toml": text.replace("[suites.sums]", line)})


def test_a_suite_whose_image_lacks_a_program_is_skipped_by_name_and_red_when_strict(
    clone: Repository,
) -> None:
    here = str(clone.root / "only-here")
    require(clone, "program:sh", f"program:{here}")
    shards = ("unit", "--shards", "2")
    clone.write({"only-here": "#!/bin/sh\n"})
    (clone.root / "only-here").chmod(0o755)
    clone.commit({})
    assert clone.exacthead(*shards)[0] == 0
    outside = clone.run_folder()

    code, printed = clone.exacthead(*shards, "--in", "image")
    skipped = clone.run_folder()
    strict, said = clone.exacthead(*shards, "--in", "image", "--strict")

    assert (code, strict) == (0, 1), printed
    assert f"needs what is not in image small: no {here} on PATH" in printed
    assert "no sh" not in printed
    assert printed.splitlines()[-1] == "0 passed, 0 failed, 2 skipped"
    assert f"no {here} on PATH" in said
    assert read(skipped / "plan.json")["images"] == {}
    assert selected(skipped) == selected(outside)
    for item in selected(skipped):
        assert not result(skipped, item).required
        assert result(clone.run_folder(), item).required


def test_a_program_that_only_the_image_has_is_enough(clone: Repository) -> None:
    # Outside it is a path of no file.
    require(clone, "program:/workspace/only-there")
    clone.write({"only-there": "#!/bin/sh\n"})
    (clone.root / "only-there").chmod(0o755)
    clone.commit({})

    code, printed = clone.exacthead("unit")
    assert code == 0
    assert "no /workspace/only-there on PATH" in printed

    code, printed = clone.exacthead("unit", "--in", "image")
    assert code == 0, printed
    assert "2 passed, 0 failed, 0 skipped" in printed


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("engine", "no container engine: a container reaches none"),
        ("index", "no package index: a container is told of none"),
    ],
)
def test_a_suite_that_needs_what_no_container_has_is_skipped_by_name_in_an_image(
    clone: Repository, name: str, said: str
) -> None:
    require(clone, name)
    shards = ("unit", "--shards", "2")
    assert "2 passed, 0 failed, 0 skipped" in clone.exacthead(*shards)[1]
    outside = clone.run_folder()

    code, printed = clone.exacthead(*shards, "--in", "image")
    skipped = clone.run_folder()
    strict, _ = clone.exacthead(*shards, "--in", "image", "--strict")

    assert (code, strict) == (0, 1)
    assert f"needs what is not here: {said}" in printed
    assert printed.splitlines()[-1] == "0 passed, 0 failed, 2 skipped"
    assert selected(skipped) == selected(outside)


def test_a_job_in_its_image_satisfies_its_contract(clone: Repository, image: ImageFile) -> None:
    code, printed = clone.exacthead("functional", "count", "--in", "image", "--runner", "tiny")
    assert code == 0, printed
    run = clone.run_folder()
    assert "counting in /workspace" in printed
    assert (run / "items/count.plain/metrics.jsonl").stat().st_uid == run.stat().st_uid
    assert read(run / "items/count.plain/request.json")["image"] == image.id
    assert result(run, "count.plain").verdict.green


def test_a_red_item_is_replayed_in_the_same_image(clone: Repository) -> None:
    clone.commit({"functional/count.sh": "echo not today\nexit 3\n"})
    code, printed = clone.exacthead("functional", "count", "--in", "image")
    first = clone.run_folder()
    line = re.search(r"run it again: python -m exacthead (.+)", printed)
    assert code == 1
    assert line, printed

    code, printed = clone.exacthead(*line[1].split())
    second = clone.run_folder()

    assert code == 1
    assert second != first
    assert "exit code 3" in printed
    assert read(second / "plan.json")["images"] == read(first / "plan.json")["images"]


def test_what_poisons_a_test_is_looked_for_in_the_same_image(clone: Repository) -> None:
    tests = "from small import numbers\n\n\ndef test_first():\n    numbers.add = None\n\n\n"
    tests += "def test_between():\n    pass\n\n\ndef test_last():\n    assert numbers.add\n"
    clone.commit({"unit/sums/test_sums.py": tests})
    code, printed = clone.exacthead("unit", "--in", "image")
    first = clone.run_folder()
    assert code == 1
    assert "1 failed" in printed

    item, test = f"{first}/unit.sums", "unit/sums/test_sums.py::test_last"
    code, printed = clone.exacthead("reproduce", item, "--bisect-order", test)

    assert code == 1
    assert re.search(r"bisect: .*test_last .*test_first", printed)
    assert read(clone.run_folder() / "plan.json")["images"] == read(first / "plan.json")["images"]
    assert "differs" not in printed


def test_an_image_of_another_head_is_refused_unless_that_head_is_named(
    clone: Repository, image: ImageFile
) -> None:
    first = clone.git("rev-parse", "HEAD")
    clone.commit({"small/numbers.py": "def add(one, other):\n    return other + one\n"})

    code, printed = clone.exacthead("unit", "--image", image.id)
    assert code == 2
    assert "--reuse COMMIT" in printed

    code, printed = clone.exacthead("unit", "--image", image.id, "--reuse", first)
    assert code == 0, printed
    assert re.search(rf"of {first[:12]} reused, 1 commit behind", printed)
    summary = (clone.run_folder() / "summary.md").read_text(encoding="utf-8")
    assert "reused, 1 commit behind" in summary
    page = (clone.run_folder() / "index.html").read_text(encoding="utf-8")
    assert "reused, 1 commit behind" in page
    assert result(clone.run_folder(), "unit.sums").notes[0].endswith("reused, 1 commit behind")

    code, printed = clone.exacthead("unit", "--image", image.id, "--reuse", "HEAD~0")
    assert code == 2


def test_a_test_that_an_old_image_has_not_is_red(clone: Repository, image: ImageFile) -> None:
    first = clone.git("rev-parse", "HEAD")
    text = (clone.root / "unit/sums/test_sums.py").read_text(encoding="utf-8")
    clone.commit({"unit/sums/test_sums.py": text + "\n\ndef test_new():\n    pass\n"})

    code, printed = clone.exacthead("unit", "--image", image.id, "--reuse", first)

    assert code == 1
    assert "test_new" in printed
    assert "2 passed, 1 failed" in printed


def test_a_dirty_checkout_is_refused_or_called_no_head(clone: Repository) -> None:
    clone.write({"small/numbers.py": "def add(one, other):\n    return other + one\n"})

    code, printed = clone.exacthead("unit", "--in", "image")
    assert code == 2
    assert "small/numbers.py" in printed

    code, printed = clone.exacthead("unit", "--in", "image", "--dirty")
    assert code == 0, printed
    assert "which is no head" in (clone.run_folder() / "summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--reuse", "HEAD"), "no --image"),
        (("--in", "image", "--reuse", "HEAD"), "name the image of that commit"),
        (("--dirty",), "not run in an image"),
        (("--image", "no-such-image"), "has none of that name"),
        (("--in", "image", "--flavour", "cuda"), "cuda"),
    ],
)
def test_what_makes_no_sense_is_refused(
    clone: Repository, arguments: tuple[str, ...], words: str
) -> None:
    code, printed = clone.exacthead("functional", "count", *arguments)

    assert code == 2
    assert words in printed


def test_an_item_over_its_memory_says_so(clone: Repository) -> None:
    script = '"$EXACTHEAD_PYTHON_POLICY" -c "x = bytearray(2 << 30); print(len(x))"\n'
    clone.commit({"functional/count.sh": script})

    code, printed = clone.exacthead("functional", "count", "--in", "image", "--runner", "tiny")

    assert code == 1
    assert "out-of-memory killer" in printed


def test_without_an_engine_it_is_said_where_one_was_looked_for(clone: Repository) -> None:
    code, printed = clone.exacthead(
        "functional", "count", "--in", "image", DOCKER_HOST="unix:///nowhere/docker.sock"
    )

    assert code == 2
    assert "unix:///nowhere/docker.sock" in printed
    assert "apt-get install docker.io" in printed


def test_the_command_builds_lists_and_verifies(clone: Repository, image: ImageFile) -> None:
    code, printed = clone.exacthead("images")
    assert code == 0, printed
    assert image.id in printed
    assert "reused" in printed

    code, printed = clone.exacthead("images", "--list")
    assert image.id[:19] in printed
    assert code == 0

    code, printed = clone.exacthead("images", "--verify", image.id)
    assert (code, f"{image.id} is that of" in printed) == (0, True)

    code, printed = clone.exacthead("images", "--explain")
    assert code == 0
    for line in printed.splitlines():
        assert not line.startswith("worker") or "interpreter" in line or "the same" in line

    code, printed = clone.exacthead("images", "--plan")
    (plan,) = json.loads(printed)
    assert plan["base"]["from"] == "Debian trixie, made here"
    assert plan["workers"]["plain"]["pins"]


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_an_item_ends_with_its_harness_and_so_does_its_container(
    clone: Repository, engine: Engine, ending: signal.Signals
) -> None:
    clone.commit({"functional/count.sh": "echo begun\nsleep 600\n"})

    def mine(pid: int) -> list[str]:
        owners = {box: read_owner(labels, OURS) for box, labels in engine.our_containers().items()}
        return [box for box, owner in owners.items() if owner and owner.pid == pid]

    with clone.start("functional", "count", "--in", "image") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("count.plain | begun"):
                break
        (box,) = mine(process.pid)
        process.send_signal(ending)
        process.stdout.read()
        code = process.wait(60)

    if ending is signal.SIGINT:
        assert code == 130
        assert mine(process.pid) == []
        assert str(result(clone.run_folder(), "count.plain").verdict.kind) == "interrupted"
        return
    deadline = time.monotonic() + 20
    while engine.inspect(box)["State"]["Running"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not engine.inspect(box)["State"]["Running"]
    assert any(box[:12] in line for line in reap(engine))
