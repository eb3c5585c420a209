"""Spec: everything that decides a worker's content, and its key, the digest of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Part of every key: raise it when the builder itself changes what a spec turns into.
BUILDER = 1


@dataclass(frozen=True)
class Interpreter:
    """A Python found on this machine; ``path`` is where, all else is what."""

    path: Path
    implementation: str
    version: str
    abi: str
    platform: str


@dataclass(frozen=True)
class Spec:
    """One worker's content, resolved on this machine.

    Attributes:
        name: for people; never in the key.
        lock: the text of the hashed requirements that will be installed, without comments.
        interpreter: the Python it is built on; its path is not in the key.
        flavour: ``cpu`` or ``cuda``.
        link_mode: how uv places files.
        environment: build-relevant variables after expansion, sorted by name.
        local_packages: (distribution folder's name, digest of its content), sorted.
        patches: digests of the patches, in the order they are applied.
        sources: where distributions come from when that is not the default index (find-links and
            mirrors), as digests or kinds, never as paths; and each swapped distribution.
        probes: modules that must import before the worker is published.
        notes: what the report must say of this spec (an interpreter below a patch floor).
        provided: the environment is the user's own. ``interpreter.path`` is its Python, ``lock``
            its frozen package list; it is never built, changed or collected.
    """

    name: str
    lock: str
    interpreter: Interpreter
    flavour: str
    link_mode: str
    environment: tuple[tuple[str, str], ...] = ()
    local_packages: tuple[tuple[str, str], ...] = ()
    patches: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    provided: bool = False

    def content(self) -> dict[str, object]:
        """Everything that is in the key, as JSON-ready data."""
        data = asdict(self)
        for left_out in ("name", "notes"):
            del data[left_out]
        interpreter = asdict(self.interpreter)
        del interpreter["path"]
        return {"builder": BUILDER, **data, "interpreter": interpreter}

    @property
    def key(self) -> str:
        """64 hexadecimal digits; equal exactly when :meth:`content` is."""
        text = json.dumps(self.content(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()
