"""A small worker and what it is resolved with."""

from __future__ import annotations

import os
import sys

from exacthead.workers.index import Indexes

THIS = f"{sys.version_info.major}.{sys.version_info.minor}"
HASH = "--hash=sha256:" + "0" * 64
HERE = Indexes(passed=tuple(os.environ.items()))
SMALL = f"""
[workers.small]
python = "{THIS}"
requirements = ["alpha"]
"""
