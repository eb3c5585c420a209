"""The command `workflows`: write the checked-in files, check them, or turn a plan into jobs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.plan import read_plan
from exacthead.runs.files import write_text
from exacthead.workflows.child import child_pipeline
from exacthead.workflows.generate import generate, stale
from exacthead.workflows.matrix import matrices, outputs

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from exacthead.config import Harness


def workflows(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Generate workflows, say which are stale, or tell a service the items of a plan."""
    if arguments.matrix:
        return _matrix(harness, Path(arguments.matrix), console)
    if arguments.child:
        plan, out = map(Path, arguments.child)
        write_text(out, child_pipeline(harness, read_plan(plan)))
        console.out(f"exacthead: {out}")
        return 0
    if arguments.check:
        problems = stale(harness)
        for path, found in problems.items():
            console.out(f"{path}: {found}; run nox -s workflows and commit it")
        return int(bool(problems))
    for path, text in generate(harness).items():
        (harness.root / path).parent.mkdir(parents=True, exist_ok=True)
        write_text(harness.root / path, text)
        console.out(f"exacthead: {path}")
    return 0


def _matrix(harness: Harness, path: Path, console: Console) -> int:
    made = matrices(harness, read_plan(path))
    text = outputs(made)
    file = os.environ.get("GITHUB_OUTPUT")
    if not file:
        console.out(text.rstrip("\n"))
        return 0
    try:
        with Path(file).open("a", encoding="utf-8") as target:
            target.write(text)
    except OSError as error:
        todo = "GITHUB_OUTPUT must name a file that can be written to"
        raise HarnessError(f"tell the matrix to {file}", str(error.strerror), todo) from error
    console.out(f"exacthead: {', '.join(made) or 'no item is to be run'}")
    return 0
