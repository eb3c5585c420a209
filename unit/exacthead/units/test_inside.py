"""What runs in a worker's process asks nothing of the worker but pytest."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from exacthead.units import inside

FILES = sorted(Path(inside.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_is_python_3_9_and_imports_only_the_standard_library_and_pytest(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))
    typing_only = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in typing_only:
            imported |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and id(node) not in typing_only:
            imported.add(str(node.module).split(".")[0])
    assert imported <= {*sys.stdlib_module_names, "pytest"}
