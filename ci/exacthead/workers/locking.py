"""Locking: resolve a worker's requirements over the network into the text of its lock."""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.workers.interpreter import find
from exacthead.workers.lock import (
    ASKED,
    HARNESS,
    body,
    entries,
    harness_inputs,
    lock_path,
    sealed,
    worker_inputs,
)
from exacthead.workers.uv import run_uv

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exacthead.config import Harness
    from exacthead.workers.index import Indexes
    from exacthead.workers.lock import Inputs

_REQUIREMENTS = "requirements.in"
_OVERRIDES = "overrides.in"


def compile_lock(
    harness: Harness, name: str, flavour: str, indexes: Indexes, *, upgrade: bool = False
) -> str:
    """Resolve the requirements of a worker over the network and return its lock's text.

    The pins of the present lock are kept where they still fit. Only the default index counts: what
    an extra index or a folder of this machine offers, no other machine could install.

    Args:
        harness: the declarations.
        name: the worker.
        flavour: ``cpu`` or ``cuda``.
        indexes: of which the default index is used.
        upgrade: forget the pins that the present lock has.

    Raises:
        HarnessError: the requirements contradict each other, or the index is out of reach.
    """
    worker = harness.worker(name)
    # Source distributions are read by an interpreter of the worker's minor version.
    interpreter, _ = find(worker.python, None, below_floor_allowed=True)
    return _Locking(
        title=f"worker {name}, flavour {flavour}",
        inputs=worker_inputs(harness, name, flavour),
        present=None if upgrade else lock_path(harness.root, name, flavour),
        indexes=indexes,
        python=interpreter.path,
    ).text()


def compile_harness_lock(root: Path, indexes: Indexes, *, upgrade: bool = False) -> str:
    """Resolve the harness's own dependencies over the network and return the lock's text."""
    return _Locking(
        title="the harness",
        inputs=harness_inputs(root),
        present=None if upgrade else lock_path(root, HARNESS),
        indexes=indexes,
        python=Path(sys.executable),
    ).text()


@dataclass(frozen=True)
class _Locking:
    title: str
    inputs: Inputs
    present: Path | None
    indexes: Indexes
    python: Path

    def text(self) -> str:
        found = entries(self._resolved(self.inputs.requirements))
        if self.inputs.no_deps:
            alone = entries(self._resolved(self.inputs.no_deps, "--no-deps"))
            twice = sorted(found.keys() & alone.keys())
            if twice:
                raise HarnessError(
                    f"a lock for {self.title}",
                    f"{', '.join(twice)} without dependencies, yet others need it whole",
                    "list it under requirements or under no_deps, not both",
                )
            found |= alone
        return sealed(self.title, self.inputs, "".join(found[name] for name in sorted(found)))

    def _resolved(self, requirements: Iterable[str], *flags: str) -> str:
        platform = self.inputs.platform
        with tempfile.TemporaryDirectory(prefix="exacthead-lock-") as name:
            folder = Path(name)
            for file, lines in {
                _REQUIREMENTS: requirements,
                _OVERRIDES: self.inputs.overrides,
                "excludes.in": self.inputs.excludes,
            }.items():
                (folder / file).write_text("".join(f"{line}\n" for line in lines), "utf-8")
            output = folder / "lock.txt"
            if self.present is not None and self.present.exists():
                # uv keeps the pins that it finds in its output file.
                output.write_text(body(self.present.read_text("utf-8")), "utf-8")
            command = ["--directory", name, "pip", "compile", _REQUIREMENTS]
            command += ["--overrides", _OVERRIDES, "--excludes", "excludes.in"]
            command += ["--python-platform", platform] if platform else ["--universal"]
            command += ["--python", str(self.python), "--python-version", self.inputs.python]
            command += ["--generate-hashes", "--no-header", "--quiet", *flags]
            run_uv(
                [*command, "--output-file", output.name],
                self.indexes.locking_environment(),
                asked=f"a lock for {self.title}",
                todo="mend its requirements in harness.toml or ci/pyproject.toml,"
                " or make the index reachable",
            )
            text = output.read_text("utf-8")
        # An override only changes what others ask for; it asks for nothing itself.
        text = re.sub(rf"(?m)^ +# +--override {_OVERRIDES}\n", "", text)
        return text.replace(f"-r {_REQUIREMENTS}", ASKED)
