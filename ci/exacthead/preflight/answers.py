"""Answers: what the stack says of its recipes, asked in a light worker and kept by content."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from exacthead.bootstrap import cache_folder
from exacthead.equip import ready, resolve_all
from exacthead.errors import HarnessError
from exacthead.runs.files import write_json
from exacthead.runs.isolation import isolated_environment, private_folder
from exacthead.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.head import Head
    from exacthead.tables import Recipes
    from exacthead.workers.store import Store

_DEADLINE_S = 120.0


@dataclass(frozen=True)
class Question:
    """A recipe as one entry point would be given it."""

    recipe: str
    entry: str
    overrides: tuple[str, ...] = ()


class Fault(Table):
    """A refusal of the stack's own."""

    asked: str
    found: str
    todo: str


class Cluster(Table):
    """What the recipe's Ray cluster offers; zeros where it has none."""

    cpus: int = 0
    accelerators: int = 0


class Answer(Table):
    """What the stack says of one recipe; of one that it cannot read, only why.

    Attributes:
        problems: why it cannot work.
        values: of its keys, dotted.
        cluster: its Ray cluster.
        sum: the devices that its actors need, in words.
        modules: kind of process -> what it imports first.
        ports: fixed ports that it listens on.
        metrics: regular expressions of the names that it can write.
    """

    problems: tuple[Fault, ...] = ()
    values: dict[str, Any] = Field(default_factory=dict)
    cluster: Cluster = Cluster()
    sum: str = ""
    modules: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    ports: tuple[int, ...] = ()
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asker:
    """Asks all questions in one process of the recipes' worker, unless they were asked before.

    An answer depends on nothing but the worker and the content of the checkout; where that content
    is not told, nothing is kept.
    """

    harness: Harness
    recipes: Recipes
    store: Store
    head: Head
    say: Callable[[str], None]

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """The answers, in the order of the questions.

        Raises:
            HarnessError: the worker cannot be made, or its answer is none.
        """
        name = self.recipes.worker
        specs = resolve_all(self.harness, [name], "cpu")
        kept = self._kept(questions, specs[name].key)
        if kept and kept.exists():
            return _read(kept.read_bytes(), "the kept answers")
        with ready(self.harness, specs, self.store, self.say) as workers:
            said = self._run(workers[name].python, questions)
        answers = _read(said, f"what {self.recipes.module} answered")
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_json(kept, json.loads(said))
        return answers

    def _kept(self, questions: Sequence[Question], key: str) -> Path | None:
        head = self.head
        if not head.content or (head.dirty and head.content == head.tree):
            return None
        decisive = [key, self.recipes.module, head.content, [asdict(each) for each in questions]]
        digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
        return cache_folder(self.harness.root) / "recipes" / f"{digest[:32]}.json"

    def _run(self, python: Path, questions: Sequence[Question]) -> bytes:
        private = private_folder()
        try:
            done = subprocess.run(
                [str(python), "-m", self.recipes.module],
                input=json.dumps([asdict(each) for each in questions]).encode(),
                cwd=self.harness.root,
                env=isolated_environment(
                    inherited=os.environ,
                    additions={},
                    pythonpath=self.harness.import_folders,
                    private=private,
                ),
                capture_output=True,
                check=False,
                timeout=_DEADLINE_S,
            )
        except subprocess.TimeoutExpired as error:
            raise self._failed(f"no answer in {_DEADLINE_S:g} s") from error
        finally:
            shutil.rmtree(private, ignore_errors=True)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-1500:]
            raise self._failed(f"exit code {done.returncode}:\n{said}")
        return done.stdout

    def _failed(self, found: str) -> HarnessError:
        return HarnessError(
            f"ask {self.recipes.module} about the recipes",
            found,
            "mend it, or [recipes] in harness.toml",
        )


def _read(said: bytes, what: str) -> list[Answer]:
    try:
        return [Answer.model_validate(each) for each in json.loads(said)]
    except (ValueError, TypeError, ValidationError) as error:
        raise HarnessError(
            what, " ".join(str(error).split())[:500], "docs/preflight.md says what an answer holds"
        ) from error
