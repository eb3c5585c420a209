"""Plugins: the files of a checkout that pytest loads because its options name them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from exacthead.impact.layout import Layout

# Where pytest looks for its options: https://docs.pytest.org/en/stable/reference/customize.html
_FILES = ("pyproject.toml", "pytest.ini", ".pytest.ini", "pytest.toml", "tox.ini", "setup.cfg")
# `-p name`, `-pname`, and as items of a list.
_OPTION = re.compile(r"""-p["',\s]*([A-Za-z_][\w.]*)""")


def plugins(root: Path, layout: Layout, arguments: Iterable[str]) -> list[str]:
    """The plugins among the files of ``root`` that its configuration or ``arguments`` ask for."""
    texts = [" ".join(arguments)]
    texts += [
        (root / name).read_text(encoding="utf-8", errors="replace")
        for name in _FILES
        if name in layout.files and (root / name).is_file()
    ]
    asked = {name for text in texts for name in _OPTION.findall(text)}
    return sorted({path for name in asked for path in layout.module(name, "conftest.py")})
