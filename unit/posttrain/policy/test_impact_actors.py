"""Test impact sees code that runs only in a Ray actor, also when no import names it."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.impact.select import select_since
from unit.exacthead.conftest import Repository
from unit.exacthead.impact.project import TestedProject

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INNER = "def value():\n    return 3\n\ndef idle():\n    return 4\n"
SOURCES = {
    "ci/harness.toml": """
[project]
name = "tiny"

[workers.plain]

[suites.all]
paths = ["tests"]
worker = "plain"
""",
    ".gitignore": "/.cache/\n/runs/\n__pycache__/\n",
    "pkg/__init__.py": "",
    "pkg/inner.py": INNER,
    "pkg/actor.py": """
import importlib

class Asked:
    def answer(self, name):
        return importlib.import_module("pkg." + name).value()
""",
    "pkg/plain.py": "def one():\n    return 1\n",
    "tests/test_actor.py": """
import ray
from pkg.actor import Asked

def test_answer():
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
             object_store_memory=80 << 20)
    asked = ray.remote(Asked).remote()
    assert ray.get(asked.answer.remote("in" + "ner"), timeout=120) == 3
    ray.kill(asked)
    ray.shutdown()
""",
    "tests/test_plain.py": "from pkg.plain import one\n\ndef test_one():\n    assert one() == 1\n",
}
ACTOR, PLAIN = "tests/test_actor.py::test_answer", "tests/test_plain.py::test_one"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestedProject]:
    repository = Repository(tmp_path / "checkout")
    repository.root.mkdir()
    repository.git("init", "--quiet", "--initial-branch=main")
    repository.commit(SOURCES)
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"):
        monkeypatch.setenv(name, "0")
    # Ray's sockets limit the length of the path, so pytest's own folder is too deep.
    with tempfile.TemporaryDirectory(prefix="r") as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        yield TestedProject(repository)


def test_a_change_of_what_only_an_actor_runs_selects_its_test(
    project: TestedProject, tmp_path: Path
) -> None:
    impact_map = project.measure(tmp_path / "items")
    harness = load(project.root)

    # The actor was killed, and what it ran is known all the same.
    ran = impact_map.evidence()[ACTOR].ran
    assert ran["pkg/inner.py"] == {"value"}
    assert "answer" in {each.rpartition(".")[2] for each in ran["pkg/actor.py"]}

    project.repository.write({"pkg/inner.py": INNER.replace("3", "5")})
    after = project.outcomes("tests")
    chosen = select_since(harness, "HEAD", "all", list(after), impact_map)

    assert after == {ACTOR: "FAILED", PLAIN: "PASSED"}
    assert chosen.nodeids == (ACTOR,)
