"""Runs inside a worker, by its own Python: import the probes and say what was found.

Called as ``python -I inside.py ANSWER MODULE...``; writes ANSWER as JSON. Standard library only.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
from pathlib import Path


def main(answer: str, *modules: str) -> None:
    """Import ``modules`` in order, in this process; the first failure ends it, with traceback."""
    # Before any import: libraries may extend the path of their own process (nemo_gym does).
    path = list(sys.path)
    found = {}
    for name in modules:
        sys.stderr.write(f"importing {name}\n")
        found[name] = getattr(importlib.import_module(name), "__file__", None)
    facts = {
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "version": platform.python_version(),
        "interpreter": str(Path(sys.executable).resolve()),
        "path": path,
        "modules": found,
    }
    Path(answer).write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
