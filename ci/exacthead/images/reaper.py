"""The reaper: removes containers whose harness has ended; normally they end with it by themselves.

Only containers with our label, and of those only where it is certain: the harness was a process of
this very boot and process table, or of an earlier boot of this machine. What an engine that serves
several machines holds for another of them is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.images.engine import OURS
from exacthead.images.owner import read

if TYPE_CHECKING:
    from exacthead.images.engine import Engine


def reap(engine: Engine) -> list[str]:
    """Remove what ended harnesses have left; a sentence for each container."""
    if not engine.local:
        return []
    said = []
    for container, labels in engine.our_containers().items():
        owner = read(labels, OURS)
        if owner is not None and owner.gone():
            engine.remove(container)
            what = f"{owner.run}/{owner.item}" if owner.run else "no run"
            said.append(f"removed container {container[:12]} of {what}, left by pid {owner.pid}")
    return said
