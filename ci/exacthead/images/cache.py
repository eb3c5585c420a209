"""The cache of images: layers by their digest, and records of how each came about by its key.

A record is written last, under a lock that whoever builds holds, so that nothing half-built is ever
taken for ready. A layer whose file is not what its record says does not count.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError
from exacthead.images.layer import Layer
from exacthead.workers import claim
from exacthead.workers.layout import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Seconds; the largest environment takes a quarter of an hour.
_DEADLINE_S = 3600.0


@dataclass(frozen=True)
class Cache:
    """The cache below one folder; safe for several processes at once."""

    root: Path

    def create(self) -> None:
        """Make its folders.

        Raises:
            HarnessError: it cannot be written to.
        """
        try:
            for kind in ("layers", "records", "locks", "logs", "work"):
                (self.root / kind).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HarnessError(
                f"the cache of images in {self.root}",
                f"it cannot be written to: {error.strerror}",
                "make room there, or point EXACTHEAD_CACHE at a folder that can be written to",
            ) from error

    def layer_path(self, diff_id: str) -> Path:
        """Where the layer of that digest lies, or would."""
        return self.root / "layers" / f"{diff_id.removeprefix('sha256:')}.tar"

    @property
    def work(self) -> Path:
        """For files that are being made, on the same file system as the layers."""
        return self.root / "work"

    def log(self, kind: str, key: str) -> Path:
        """What the building of something wrote."""
        return self.root / "logs" / f"{kind}-{key[:32]}.log"

    def keep(self, layer: Layer) -> Layer:
        """Move a layer's file to its place in the cache."""
        target = self.layer_path(layer.diff_id)
        if layer.path is not None and layer.path != target:
            layer.path.replace(target)
        return Layer(layer.diff_id, layer.size, target, layer.made_by)

    def write(self, kind: str, key: str, layers: list[Layer], facts: dict[str, Any]) -> None:
        """Record that something is ready; its layers must be in the cache."""
        data = {
            "key": key,
            "made": time.time(),
            "layers": [
                {"diff_id": each.diff_id, "size": each.size, "made_by": each.made_by}
                for each in layers
            ],
            "facts": facts,
        }
        write_whole(self._record(kind, key), json.dumps(data, indent=1, sort_keys=True).encode())

    def read(self, kind: str, key: str) -> tuple[list[Layer], dict[str, Any]] | None:
        """The layers and facts of what is ready, which counts as a use of it from now on.

        Returns:
            None when it is not ready, or a layer is gone.
        """
        found = self.look(kind, key)
        if found:
            os.utime(self._record(kind, key))
        return found

    def look(self, kind: str, key: str) -> tuple[list[Layer], dict[str, Any]] | None:
        """The same without its being a use: nothing is written."""
        try:
            data = json.loads(self._record(kind, key).read_bytes())
            layers = [
                Layer(digest, each["size"], self.layer_path(digest), each["made_by"])
                for each in data["layers"]
                for digest in [each["diff_id"]]
            ]
            whole = all(_size(each.path) == each.size for each in layers)
            facts: dict[str, Any] = data["facts"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        if not whole or data["key"] != key:
            return None
        return layers, facts

    def forget(self, kind: str, key: str) -> None:
        """Take the readiness of something away."""
        self._record(kind, key).unlink(missing_ok=True)

    def age(self, kind: str, key: str) -> float:
        """When something was made or last asked for, in seconds since the epoch."""
        return self._record(kind, key).stat().st_mtime

    def records(self) -> dict[tuple[str, str], set[str]]:
        """The digests of the layers of all that is ready, by kind and key."""
        found = {}
        for path in sorted((self.root / "records").glob("[!.]*.json")):
            kind = path.stem.split("-", 1)[0]
            data = json.loads(path.read_bytes())
            found[kind, data["key"]] = {each["diff_id"] for each in data["layers"]}
        return found

    @contextmanager
    def building(self, kind: str, key: str) -> Iterator[None]:
        """Be the only one that makes something; others wait."""
        path = self.root / "locks" / f"{kind}-{key[:32]}.lock"
        deadline = time.monotonic() + _DEADLINE_S
        with claim.hold(path, f"make {kind} {key[:12]} of an image", deadline=deadline):
            yield

    def _record(self, kind: str, key: str) -> Path:
        return self.root / "records" / f"{kind}-{key[:32]}.json"


def _size(path: Path | None) -> int:
    return path.stat().st_size if path else -1
