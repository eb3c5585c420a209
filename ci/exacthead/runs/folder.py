"""The run folder: where a run's plan, results and logs lie, and how its state is told.

The paths are part of the interface (docs/runs.md lists them).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import string
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from exacthead.errors import HarnessError
from exacthead.runs.files import write_json, write_text
from exacthead.runs.process import read_process
from exacthead.runs.provenance import Provenance
from exacthead.runs.result import ItemResult

if TYPE_CHECKING:
    from collections.abc import Mapping

Model = TypeVar("Model", bound=BaseModel)

_PLAIN = frozenset(string.ascii_lowercase + string.digits + "._-")
_LONGEST = 120


class State(StrEnum):
    """What a run folder says of its run."""

    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    ABANDONED = "abandoned"  # it says running, but the harness that wrote that is gone


class RunState(BaseModel):
    """result.json of a run; ``pid``, ``started`` and ``boot`` tell the harness that writes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: State
    pid: int
    started: int
    boot: str
    items: dict[str, str] = {}


def folder_name(item_id: str) -> str:
    """A file name for an item id, such that no two ids ever share one, on any file system.

    ``/`` becomes ``@``; lower-case letters, digits, ``.``, ``_`` and ``-`` stay; every other byte
    of the UTF-8 text becomes ``=xx``, capitals included, for file systems that ignore case. What
    grows beyond 120 characters is cut, with a digest of the whole id.
    """
    name = "".join(
        letter
        if letter in _PLAIN
        else "@"
        if letter == "/"
        else "".join(f"={byte:02x}" for byte in letter.encode("utf-8", errors="surrogatepass"))
        for letter in item_id
    )
    if not name.strip("."):
        name = name.replace(".", "=2e") or "="  # a folder cannot be called "", "." or ".."
    if len(name) > _LONGEST:
        digest = hashlib.sha256(item_id.encode("utf-8", errors="surrogatepass")).hexdigest()
        name = f"{name[:80]}~{digest[:32]}"
    return name


@dataclass(frozen=True)
class ItemFolder:
    """One item's folder; every path is absolute."""

    path: Path

    @property
    def log(self) -> Path:
        """Standard output and error, byte for byte."""
        return self.path / "stdout.log"

    @property
    def request(self) -> Path:
        """What was asked, enough to run it again."""
        return self.path / "request.json"

    @property
    def result(self) -> Path:
        """The item's verdict and facts."""
        return self.path / "result.json"

    @property
    def junit(self) -> Path:
        """The item's JUnit file."""
        return self.path / "junit.xml"

    @property
    def metrics(self) -> Path:
        """The item's metrics, one JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def contract(self) -> Path:
        """The contract's verdicts."""
        return self.path / "contract.json"

    @property
    def stacks(self) -> Path:
        """Where every process stood when a timeout struck."""
        return self.path / "stacks.txt"

    @property
    def artifacts(self) -> Path:
        """What the item itself keeps."""
        return self.path / "artifacts"

    def write_result(self, result: ItemResult) -> None:
        """Keep the item's result.

        Raises:
            HarnessError: when it cannot be written; what was there before stays.
        """
        write_text(self.result, result.model_dump_json(indent=2) + "\n")

    def read_result(self) -> ItemResult:
        """Read the item's result.

        Raises:
            HarnessError: when there is none, or it is not one.
        """
        return _read(ItemResult, self.result)


@dataclass(frozen=True)
class RunFolder:
    """One run's folder."""

    path: Path

    @classmethod
    def create(cls, runs: Path, plan: Mapping[str, Any], head: str) -> RunFolder:
        """Make a new folder below ``runs`` with its plan, in the state ``running``.

        Args:
            runs: the folder of all runs; made when missing.
            plan: JSON-ready data.
            head: the head in short, for the folder's name.

        Raises:
            HarnessError: when the folder cannot be written to.
        """
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        path = (runs / f"{stamp}-{head}-{secrets.token_hex(2)}").absolute()
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise HarnessError(
                f"a new run folder {path}", str(error), "give a runs folder that can be written to"
            ) from error
        folder = cls(path)
        folder.write_state(State.RUNNING, {})
        write_json(path / "plan.json", plan)
        return folder

    @property
    def run_id(self) -> str:
        """The run's id: its folder's name."""
        return self.path.name

    @property
    def summary(self) -> Path:
        """The summary in Markdown."""
        return self.path / "summary.md"

    def item(self, item_id: str) -> ItemFolder:
        """The folder of one item, made when missing."""
        folder = self.item_path(item_id)
        try:
            folder.artifacts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HarnessError(
                f"a folder for item {item_id!r}", str(error), "make room or mend its permissions"
            ) from error
        return folder

    def item_path(self, item_id: str) -> ItemFolder:
        """Where the item's folder is or would be; nothing is made."""
        return ItemFolder(self.path / "items" / folder_name(item_id))

    def item_ids(self) -> list[str]:
        """The ids of the items that were asked for, sorted."""
        asked = (self.path / "items").glob("*/request.json")
        return sorted(json.loads(path.read_bytes())["item_id"] for path in asked)

    def results(self) -> list[ItemResult]:
        """The results of all items that have one, by item id.

        Raises:
            HarnessError: when a result cannot be read.
        """
        found = sorted((self.path / "items").glob("*/result.json"))
        return sorted((_read(ItemResult, path) for path in found), key=lambda each: each.item_id)

    def write_provenance(self, provenance: Provenance) -> None:
        """Keep what was really used."""
        write_text(self.path / "provenance.json", provenance.model_dump_json(indent=2) + "\n")

    def read_provenance(self) -> Provenance:
        """Read what was really used."""
        return _read(Provenance, self.path / "provenance.json")

    def write_state(self, state: State, items: Mapping[str, str]) -> None:
        """Say what became of the run and of each item (its verdict's kind)."""
        me = read_process(os.getpid())
        written = RunState(
            state=state,
            pid=os.getpid(),
            started=me.started if me else 0,
            boot=_boot_id(),
            items=dict(items),
        )
        write_text(self.path / "result.json", written.model_dump_json(indent=2) + "\n")

    def state(self) -> State:
        """What became of the run; ``abandoned`` when its harness died without a word."""
        written = _read(RunState, self.path / "result.json")
        if written.state is not State.RUNNING:
            return written.state
        process = read_process(written.pid)
        alive = process is not None and process.started == written.started
        return State.RUNNING if alive and written.boot == _boot_id() else State.ABANDONED


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _read(model: type[Model], path: Path) -> Model:
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise HarnessError(
            f"read {path}", str(error), "give a folder that a run of this harness has written"
        ) from error
