"""What the impact tests share: a graph over a few sources, written to a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.impact.imports import Graph
from exacthead.impact.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def make_graph(tmp_path: Path) -> Callable[..., Graph]:
    """A function that writes sources and returns the graph over them."""

    def make(
        sources: dict[str, str], roots: tuple[str, ...] = ("",), others: tuple[str, ...] = ()
    ) -> Graph:
        for name, text in sources.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Graph(tmp_path, Layout(frozenset({*sources, *others}), roots), others)

    return make
