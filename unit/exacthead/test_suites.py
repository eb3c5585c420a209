from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.suites import (
    Belonging,
    orphans,
    repository_files,
    suite_workers,
    unmet,
    unmet_in_containers,
)
from exacthead.tables import Runner

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.config import Harness
    from unit.exacthead.conftest import Repository

DECLARED = """
not_tests = ["examples"]
[workers.a]
[workers.b]
[suites.one]
paths = ["unit/one"]
worker = "b"
[suites.two]
paths = ["unit/two", "unit/more/test_three.py"]
worker = "a"
roles = { policy = "b" }
"""


@pytest.fixture
def harness(make_harness: Callable[[str], Harness]) -> Harness:
    harness = make_harness(DECLARED)
    for folder in ("one", "two", "more"):
        (harness.root / "unit" / folder).mkdir(parents=True)
    (harness.root / "unit/more/test_three.py").write_text("", encoding="utf-8")
    return harness


def test_the_workers_of_a_suite_are_those_of_its_roles_too(harness: Harness) -> None:
    assert suite_workers(harness, ["two"]) == ["a", "b"]
    assert suite_workers(harness, ["one"]) == ["b"]


def test_every_test_file_is_in_a_suite_or_named(harness: Harness) -> None:
    files = [
        *("unit/one/test_a.py", "unit/one/deep/b_test.py", "unit/two/test_c.py"),
        *("unit/more/test_three.py", "examples/test_e.py", "unit/more/conftest.py"),
        *("unit/more/test_four.py", "unit/oneself/test_f.py", "test_g.py"),
    ]

    lost = ["test_g.py", "unit/more/test_four.py", "unit/oneself/test_f.py"]
    assert orphans(harness, files) == lost


def test_orphans_are_looked_for_among_what_git_tracks_or_would_track(
    small_repository: Repository,
) -> None:
    small_repository.write({"runs/old/test_kept.py": "", "unit/lost/test_lost.py": ""})
    harness = load(small_repository.root)

    assert orphans(harness, repository_files(harness)) == ["unit/lost/test_lost.py"]


def test_a_suite_s_path_may_be_a_link_to_where_the_files_are(
    small_repository: Repository,
) -> None:
    small_repository.write({"real/deep/test_a.py": "", "lone/test_b.py": "", "lone/test_c.py": ""})
    root = small_repository.root
    (root / "unit/sums/linked").symlink_to("../../real")
    (root / "unit/sums/test_linked.py").symlink_to("../../lone/test_b.py")
    text = (root / "ci/harness.toml").read_text(encoding="utf-8")
    paths = 'paths = ["unit/sums", "unit/sums/linked", "unit/sums/test_linked.py"]'
    (root / "ci/harness.toml").write_text(text.replace('paths = ["unit/sums"]', paths), "utf-8")
    harness = load(root)

    assert orphans(harness, ["real/deep/test_a.py", "lone/test_b.py"]) == []
    assert Belonging(harness).of("sums") == [
        *("lone/test_b.py", "real/deep/test_a.py"),
        *("unit/sums/test_linked.py", "unit/sums/test_sums.py"),
    ]
    assert orphans(harness, repository_files(harness)) == ["lone/test_c.py"]


def test_tests_in_workers_and_runs_are_no_orphans_also_where_nobody_ignores_those_folders(
    small_repository: Repository,
) -> None:
    small_repository.commit({".gitignore": "", "runs/test_tracked.py": ""})
    small_repository.write({".cache/workers/w/test_w.py": "", "runs/old/test_kept.py": ""})

    harness = load(small_repository.root)
    assert orphans(harness, repository_files(harness)) == ["runs/test_tracked.py"]


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("", ""),
        ('requires = ["accelerator"]', "no accelerator"),
        ('requires = ["program:no-such-program", "program:sh"]', "no no-such-program on PATH"),
        ('requires = ["module:none_such", "module:json"]', "no module none_such in worker b"),
        ("cpus = 3", "cpus: asks 3, there are 2"),
        ("memory_gb = 8.5", "memory in GB: asks 8.5, there are 4"),
        ("accelerators = 1", "accelerators: asks 1, there are 0"),
    ],
)
def test_what_a_suite_needs_and_a_runner_lacks_is_named(
    make_harness: Callable[[str], Harness], harness: Harness, line: str, missing: str
) -> None:
    make_harness(DECLARED.replace("[suites.one]", f"[suites.one]\n{line}"))
    suite = load(harness.root).suite("one")

    found = unmet(suite, Path(sys.executable), Runner(cpus=2, memory_gb=4), dict(os.environ))

    assert "; ".join(found) == missing


def test_programs_and_an_engine_of_this_machine_are_not_asked_of_what_runs_in_an_image(
    make_harness: Callable[[str], Harness], harness: Harness
) -> None:
    line = 'requires = ["program:no-such-program", "engine", "module:none_such"]'
    make_harness(DECLARED.replace("[suites.one]", f"[suites.one]\n{line}"))
    suite, runner = load(harness.root).suite("one"), Runner(cpus=2, memory_gb=4)

    found = unmet(suite, Path(sys.executable), runner, dict(os.environ), inside=True)

    assert found == ("no module none_such in worker b",)


def test_what_no_container_has_is_named(
    make_harness: Callable[[str], Harness], harness: Harness
) -> None:
    line = 'requires = ["index", "program:sh", "engine"]'
    make_harness(DECLARED.replace("[suites.one]", f"[suites.one]\n{line}"))

    found = unmet_in_containers(load(harness.root).suite("one"))

    assert found == (
        "no package index: a container is told of none",
        "no container engine: a container reaches none",
    )


def test_an_index_is_taken_to_be_there(
    make_harness: Callable[[str], Harness], harness: Harness
) -> None:
    make_harness(DECLARED.replace("[suites.one]", '[suites.one]\nrequires = ["index"]'))
    suite, runner = load(harness.root).suite("one"), Runner(cpus=2, memory_gb=4)

    assert unmet(suite, Path(sys.executable), runner, dict(os.environ)) == ()


def test_an_unknown_requirement_is_refused(make_harness: Callable[[str], Harness]) -> None:
    with pytest.raises(HarnessError, match=re.escape("'browser' is none of accelerator, program:")):
        make_harness(DECLARED.replace("[suites.one]", '[suites.one]\nrequires = ["browser"]'))
