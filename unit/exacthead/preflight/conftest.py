"""A small repository in which everything can work, for tests that break one thing of it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from exacthead.config import load
from exacthead.opening import Opening
from exacthead.selection import Asked
from exacthead.wish import Wish
from exacthead.workers.lock import sealed, worker_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.preflight.problem import Problem
    from unit.exacthead.conftest import Repository

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
HARNESS = f"""
[project]
name = "tiny"

[recipes]
worker = "asker"
module = "stack"

[workers.asker]
python = "{MINOR}"
provided = "{sys.executable}"

[workers.trainer]
python = "{MINOR}"
requirements = ["ray", "nemo-gym"]
probes = ["ray", "torch"]

[workers.stager]
python = "{MINOR}"
requirements = ["ray", "nemo-gym"]
probes = ["ray", "nemo_gym.staging"]

[suites.sums]
paths = ["unit/sums"]
worker = "trainer"

[jobs.train]
script = "functional/train.sh"
contract = "functional/train.contract.toml"
level = "L3"
timeout_s = 60
cpus = 2
memory_gb = 1
recipe = "recipes/train.json"
entry = "train"
binds = {{ data = "fixtures/own.jsonl", agent = "math" }}

[jobs.train.legs.plain]
workers = {{ policy = "trainer", generation = "trainer" }}

[jobs.train.legs.capture]
workers = {{ policy = "trainer", generation = "stager" }}
overrides = ["capture=true"]
packages = {{ generation = ["nemo-gym>=0.7"] }}

[runners.small]
cpus = 2
memory_gb = 4

[bases.debian]
suite = "trixie"

[images.all]
base = "debian"
workers = ["trainer", "stager"]
"""
# A stack of its own: recipes are JSON, and a child's values go over those of its base.
STACK = """
import json, sys

def read(path):
    recipe = json.load(open(path))
    base = recipe.pop("base", None)
    return {**(read(base) if base else {}), **recipe}

def answer(recipe, entry, overrides):
    values = read(recipe)
    for each in overrides:
        key, _, text = each.partition("=")
        values[key] = json.loads(text)
    ranks, engines, parallel = values["ranks"], values["engines"], values["parallel"]
    words = f"{ranks} ranks + {engines} engines x {parallel} tensor parallel"
    needed, problems = ranks + engines * parallel, []
    if needed > values["cpus"]:
        found = f"{words} = {needed} CPUs, cpus is {values['cpus']}"
        problems = [{"asked": f"place {recipe}", "found": found, "todo": "ask for fewer"}]
    generation = ["ray", *(["nemo_gym"] if values.get("capture") else [])]
    staged = ["capture/rows"] if values.get("capture") else []
    return {
        "problems": problems, "values": values,
        "cluster": {"cpus": values["cpus"], "accelerators": values.get("accelerators", 0)},
        "sum": f"{words} = {needed}", "modules": {"policy": ["ray"], "generation": generation},
        "ports": values.get("ports", []), "metrics": ["train/loss", *staged],
    }

print(json.dumps([answer(**question) for question in json.load(sys.stdin)]))
"""
CHECK = '[[check]]\nname = "it is finite"\nkind = "finite"\nmetric = "train/loss"\n'
FILES = {
    "ci/harness.toml": HARNESS,
    "stack.py": STACK,
    "recipes/base.json": '{"data": "fixtures/base.jsonl", "agent": "math", "cpus": 2, "ranks": 1,'
    ' "engines": 1, "parallel": 1}',
    "recipes/train.json": '{"base": "recipes/base.json", "data": "fixtures/own.jsonl"}',
    "functional/train.sh": "source functional/lib.sh\n",
    "functional/lib.sh": "set -euo pipefail\n",
    "functional/train.contract.toml": CHECK,
    "unit/sums/test_sums.py": "def test_sum():\n    assert 1 + 1 == 2\n",
    "containers/workers.Dockerfile": "FROM scratch\n",
}
PINS = {"ray": "2.0", "nemo-gym": "0.7.0"}


@dataclass(frozen=True)
class Broken:
    """A repository to break, and what preflight says of it."""

    repository: Repository
    pins: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.repository.root

    def write(self, **files: str) -> None:
        """Write files; ``__`` stands for a slash, and ``_DOT_`` for a dot."""
        self.repository.write(
            {k.replace("__", "/").replace("_DOT_", "."): v for k, v in files.items()}
        )

    def declare(self, old: str, new: str) -> None:
        """Change one place of harness.toml; the locks are those of what stands there then."""
        path = self.root / "ci/harness.toml"
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, (old, text.count(old))
        path.write_text(text.replace(old, new), encoding="utf-8")
        self.lock()

    def lock(self) -> None:
        """Write the lock of each worker that is built."""
        harness = load(self.root)
        for name, worker in harness.workers.items():
            if worker.provided is None:
                pins = {**PINS, **self.pins.get(name, {})}
                lines = "".join(
                    f"{each}=={version} \\\n    --hash=sha256:{'0' * 64}\n"
                    for each, version in pins.items()
                )
                inputs = worker_inputs(harness, name, "cpu")
                self.repository.write({f"ci/locks/{name}-cpu.txt": sealed("a test", inputs, lines)})

    def opening(self, asked: Asked | None = None, **settings: Any) -> Opening:
        """A session for all that the repository declares, on the small runner."""
        console = Console(quiet=True)
        settings = {"runner_name": "small", **settings}
        return Opening(load(self.root), asked or Asked(), Wish(), console, **settings)

    def problems(self, asked: Asked | None = None, **settings: Any) -> list[Problem]:
        """All that preflight finds."""
        return self.opening(asked, **settings).problems()

    def only(self, asked: Asked | None = None, **settings: Any) -> Problem:
        """The one problem that there must be."""
        (problem,) = self.problems(asked, **settings)
        return problem


@pytest.fixture
def broken(empty_repository: Repository) -> Broken:
    """Nothing of it is broken yet."""
    empty_repository.write(FILES)
    made = Broken(empty_repository)
    made.lock()
    empty_repository.commit({})
    return made


def says(text: str, *words: str) -> bool:
    """Whether a text has all the words, wherever its lines break."""
    flat = re.sub(r"\s+", " ", text)
    return all(word in flat for word in words)
