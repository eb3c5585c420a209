"""Interpreters in an image, as its label and the records of the cache say them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exacthead.workers.spec import Interpreter

if TYPE_CHECKING:
    from collections.abc import Mapping


def described(interpreters: Mapping[str, Interpreter]) -> dict[str, dict[str, Any]]:
    """The interpreters by minor version, as an image's label says them."""
    return {
        minor: {**asdict(each), "path": str(each.path)}
        for minor, each in sorted(interpreters.items())
    }


def read_interpreters(said: Mapping[str, Mapping[str, Any]]) -> dict[str, Interpreter]:
    """The interpreters by minor version, from what each said of itself."""
    return {
        minor: Interpreter(
            path=Path(answer.get("base") or answer["path"]),
            implementation=answer["implementation"],
            version=answer["version"],
            abi=answer["abi"],
            platform=answer["platform"],
        )
        for minor, answer in said.items()
    }
