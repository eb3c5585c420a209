"""Where a link of a tree leads: as the kernel has it, without the tree being on a disk."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from exacthead.images.links import leaves

PARTS = st.sampled_from(["a", "b", "c", "..", ".", ""])
TARGETS = st.lists(PARTS, min_size=1, max_size=5).map("/".join).filter(bool)
PATHS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join)


@given(st.dictionaries(PATHS, TARGETS, max_size=5))
@settings(max_examples=150)
def test_a_link_leaves_the_tree_where_the_kernel_would(wanted: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "tree"
        links = {}
        for path, target in sorted(wanted.items(), key=lambda each: each[0].count("/")):
            place = root / path
            # A link cannot have anything below it.
            if any(each in links for each in map(str, Path(path).parents)) or place.exists():
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)
            links[path] = target

        for path in links:
            try:
                os.stat(root / path)  # noqa: PTH116 - the kernel's own word
                real = Path(os.path.realpath(root / path))
            except OSError:
                continue  # it leads nowhere that is there
            assert leaves(path, links) == (not real.is_relative_to(root)), (path, links)


def test_links_that_lead_to_each_other_lead_nowhere() -> None:
    assert not leaves("a", {"a": "b", "b": "a"})


def test_the_place_of_a_link_counts_and_its_text_does_not() -> None:
    links = {"top": ".", "d/top": "..", "d/out": "top/../x", "d/in": "top/d/../x", "abs": "/"}

    assert {path for path in links if leaves(path, links)} == {"d/out", "abs"}
