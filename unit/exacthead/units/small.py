"""Small suites on disk, run by the real driver in real pytest processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exacthead.environ import clean_environment
from exacthead.units import drive
from exacthead.units.order import ShardOrder
from exacthead.units.read import Reading, read_results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.units.result import TestResult

DRIVE = Path(drive.__file__)
PATIENCE_S = 120


@dataclass(frozen=True)
class Ran:
    """A shard that was run: what its streams say, what its driver said."""

    reading: Reading
    code: int
    said: str
    item: Path

    @property
    def results(self) -> dict[str, TestResult]:
        return {result.nodeid: result for result in self.reading.results}

    @property
    def verdicts(self) -> dict[str, str]:
        return {name: str(result.verdict) for name, result in self.results.items()}

    @property
    def kinds(self) -> dict[str, str]:
        return {name: str(result.verdict.kind) for name, result in self.results.items()}

    def written(self, nodeid: str, *, phase: str = "call", stream: str = "stdout") -> str:
        outputs = self.results[nodeid].attempts[-1].outputs
        return "".join(o.text for o in outputs if (o.phase, o.stream) == (phase, stream))


@dataclass(frozen=True)
class Suite:
    """A folder with test files."""

    root: Path

    def write(self, files: Mapping[str, str]) -> Suite:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return self

    def order(self, *groups: tuple[str, ...], **options: Any) -> ShardOrder:
        usual: dict[str, Any] = {"paths": ("tests",), "test_timeout_s": 30.0, "timeout_s": 100.0}
        return ShardOrder(
            suite="small",
            python=sys.executable,
            root=str(self.root),
            groups=groups,
            **usual | options,
        )

    def start(
        self, order: ShardOrder, item: str = "item", group: Path | None = None
    ) -> subprocess.Popen[str]:
        """Start the driver; in a control group, if one is given."""
        folder = self.root / item
        folder.mkdir()
        (folder / "order.json").write_text(json.dumps(order.as_data()))
        command = [sys.executable, "-I", str(DRIVE), str(folder / "order.json"), str(folder)]
        if group is not None:
            join = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
            command = ["sh", "-c", join, str(group), *command]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True
        )

    def run(self, order: ShardOrder, item: str = "item", group: Path | None = None) -> Ran:
        with self.start(order, item, group) as driver:
            said, _ = driver.communicate(timeout=PATIENCE_S)
        folder = self.root / item
        return Ran(read_results(folder, order.nodeids, ""), driver.returncode, said, folder)


def environment() -> dict[str, str]:
    """What the inner suites see: nothing of the suite around them."""
    # Without plugins pytest starts in half the time.
    more = {"PYTHONUNBUFFERED": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return clean_environment(os.environ) | more
