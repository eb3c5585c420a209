"""Which threads of a process are alive, told by its stacks."""

from __future__ import annotations

import re
from pathlib import PurePath

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*$", re.MULTILINE)
_FRAME = re.compile(r'^\s*File "([^"]*)", line (\d+) in (.+)$', re.MULTILINE)
# Where the main thread waits for the others when Python ends.
_WAITS = "_shutdown"
_SHOWN = 3


def alive(stacks: str) -> str:
    """The threads that keep a process from its end, each by its innermost frame; empty for none.

    Args:
        stacks: as Python's fault handler writes them, perhaps with more around them.
    """
    threads = [_FRAME.findall(part) for part in _THREAD.split(stacks)[1:]]
    found = [
        f"{name} ({PurePath(file).name}:{line})"
        for frames in threads
        if frames and _WAITS not in {function for _, _, function in frames}
        for file, line, name in frames[:1]
    ]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(dict.fromkeys(found[:_SHOWN])) + more
