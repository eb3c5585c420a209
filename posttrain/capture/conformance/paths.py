"""The environment of a check's other processes: they find the modules that this one finds."""

from __future__ import annotations

import os
import sys


def peer_environment() -> dict[str, str]:
    """This process's environment, with the folders that its modules are looked for in.

    Libraries put folders inside of the interpreter's own there too, which come last here and would
    come first in the other process: setuptools' own copies of packages are such.
    """
    own = (sys.prefix, sys.base_prefix)
    added = [path for path in sys.path if path and not path.startswith(own)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(added)}
