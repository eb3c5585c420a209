"""Parse Python and YAML files where the packages for it are: a program for a worker's interpreter.

Reads paths as JSON from standard input, relative to the working folder, and writes findings as
JSON: ``[path, line, rule, words]`` each. Standard library, and PyYAML where there is YAML.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

Found = tuple[str, int, str, str]


def python(path: str) -> list[Found]:
    """What the compiler says of a file, its warnings included; nothing is written."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        except SyntaxError as error:
            return [(path, error.lineno or 0, "byte-compile", error.msg)]
        except (ValueError, RecursionError, MemoryError) as error:
            return [(path, 0, "byte-compile", str(error) or type(error).__name__)]
    return [(path, each.lineno, "byte-compile", str(each.message)) for each in warned]


def yaml(path: str) -> list[Found]:
    """Syntax errors, and keys that stand twice in one mapping, of which YAML's readers drop one."""
    import yaml as library

    loader = getattr(library, "CSafeLoader", library.SafeLoader)
    try:
        text = Path(path).read_bytes().decode()
        trees = list(library.compose_all(text, Loader=loader))
    except UnicodeDecodeError as error:
        return [(path, 0, "yaml", f"no UTF-8: {error.reason} at byte {error.start}")]
    except library.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        return [(path, line, "yaml", str(getattr(error, "problem", None) or error))]
    return [
        (path, line, "yaml", f"one mapping has {key!r} more than once")
        for tree in trees
        for key, line in twice(tree, library, set())
    ]


def twice(node: Any, library: Any, seen: set[int]) -> list[tuple[str, int]]:
    """The plain keys that a mapping below ``node`` has again, with their lines; aliases once."""
    if node is None or id(node) in seen:
        return []
    seen.add(id(node))
    found: list[tuple[str, int]] = []
    if isinstance(node, library.MappingNode):
        keys: set[tuple[str, str]] = set()
        for key, value in node.value:
            if isinstance(key, library.ScalarNode):
                if (key.tag, key.value) in keys:
                    found.append((key.value, key.start_mark.line + 1))
                keys.add((key.tag, key.value))
            found += twice(key, library, seen) + twice(value, library, seen)
    elif isinstance(node, library.SequenceNode):
        for each in node.value:
            found += twice(each, library, seen)
    return found


def main() -> None:
    """Read paths, write findings."""
    findings: list[Found] = []
    for path in json.load(sys.stdin):
        findings += yaml(path) if path.lower().endswith((".yml", ".yaml")) else python(path)
    json.dump(findings, sys.stdout)


if __name__ == "__main__":
    main()
