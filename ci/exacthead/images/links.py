"""Links of a tree: where each leads, told from the tree alone."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# As many links of links as Linux follows: path_resolution(7).
_DEEPEST = 40


def leaves(path: str, links: Mapping[str, str]) -> bool:
    """Whether the link at ``path`` leads out of the tree, be it by way of other links.

    ``..`` behind a link means the folder above its target: a text that stays inside can lead out.

    Args:
        path: the link's.
        links: the target of every link of the tree, by its path.
    """
    ahead, at, followed = deque(path.split("/")), list[str](), 0
    while ahead:
        part = ahead.popleft()
        if part in {"", "."}:
            continue
        if part == "..":
            if not at:
                return True
            at.pop()
            continue
        at.append(part)
        target = links.get("/".join(at))
        if target is None:
            continue
        if target.startswith("/"):
            return True
        followed += 1
        if followed > _DEEPEST:
            return False  # the kernel refuses to follow it anywhere
        at.pop()
        ahead.extendleft(reversed(target.split("/")))
    return False
