"""Ask a store for a worker, in processes of their own: ``asking.py REQUEST COUNT``.

REQUEST is a JSON file with the store's root, the spec and the supplies. All COUNT processes ask at
the same moment; each prints one JSON line. With COUNT 1 the stages of the build are printed too.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from exacthead.errors import HarnessError
from exacthead.workers.spec import Interpreter, Spec
from exacthead.workers.store import Store


def ask(request: dict[str, Any], *, stages: bool) -> None:
    """Call ``ensure`` and print what came of it."""
    fields = dict(request["spec"])
    fields["interpreter"] = Interpreter(
        **{**fields["interpreter"], "path": Path(fields["interpreter"]["path"])}
    )
    for name in ("environment", "local_packages", "patches", "sources", "probes", "notes"):
        fields[name] = tuple(tuple(x) if isinstance(x, list) else x for x in fields[name])
    try:
        built = Store(Path(request["store"])).ensure(
            Spec(**fields),
            uv_arguments=request["uv_arguments"],
            deadline_s=request["deadline_s"],
            progress=(lambda stage: say({"stage": stage})) if stages else None,
        )
        say({"root": str(built.root), "reused": built.reused})
    except HarnessError as error:
        say({"error": str(error)})


def say(answer: dict[str, Any]) -> None:
    """Write one line at once, so that those of many processes do not mix."""
    os.write(1, (json.dumps(answer) + "\n").encode())


def main(path: str, count: str) -> None:
    """Fork, wait for the starting shot, ask."""
    request = json.loads(Path(path).read_text())
    if count == "1":
        ask(request, stages=True)
        return
    wait, shot = os.pipe()
    children = []
    for _ in range(int(count)):
        child = os.fork()
        if child == 0:
            os.close(shot)
            os.read(wait, 1)
            ask(request, stages=False)
            os._exit(0)
        children.append(child)
    os.close(shot)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
