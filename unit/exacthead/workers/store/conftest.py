"""A yard of hand-made wheels: specs that install in a second, offline, from a folder."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.workers.build import Supplies
from exacthead.workers.spec import Interpreter, Spec
from exacthead.workers.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.workers.store import Built

THIS_PYTHON = Interpreter(
    path=Path(sys.executable).resolve(),
    implementation=sys.implementation.name,
    version=platform.python_version(),
    abi=sys.implementation.cache_tag or "",
    platform=sys.platform,
)


@dataclass(frozen=True)
class Yard:
    """Wheels, a cache of uv's and a store, all in one temporary folder."""

    folder: Path

    @property
    def wheels(self) -> Path:
        return self.folder / "wheels"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "UV_CACHE_DIR": str(self.folder / "cache")}

    @property
    def supplies(self) -> Supplies:
        return Supplies(uv_arguments=("--no-index", "--find-links", str(self.wheels)))

    def store(self, name: str = "store", **environment: str) -> Store:
        return Store(self.folder / name, environment={**self.environment, **environment})

    def wheel(
        self,
        name: str,
        files: Mapping[str, str] | None = None,
        *,
        version: str = "1.0",
        misrecorded: tuple[str, ...] = (),
    ) -> str:
        """Make a wheel and return its line for a lock; by default it holds ``<name>.py``."""
        contents = {
            **(files if files is not None else {f"{name}.py": f"NAME = {name!r}\n"}),
            f"{name}-{version}.dist-info/METADATA": (
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            ),
            f"{name}-{version}.dist-info/WHEEL": (
                "Wheel-Version: 1.0\nGenerator: yard\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            ),
        }
        record = f"{name}-{version}.dist-info/RECORD"
        rows = [
            f"{path},sha256={_base64(b'?' if path in misrecorded else text.encode())},{len(text)}"
            for path, text in contents.items()
        ]
        contents[record] = "\n".join([*rows, f"{record},,"]) + "\n"
        self.wheels.mkdir(exist_ok=True)
        path = self.wheels / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for inner, text in contents.items():
                archive.writestr(zipfile.ZipInfo(inner), text)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return f"{name}=={version} --hash=sha256:{digest}\n"

    def spec(self, name: str = "tiny", lock: str | None = None, **more: Any) -> Spec:
        """A spec of the wheels that ``lock`` names; by default of one that is called ``alpha``."""
        text = self.wheel("alpha") if lock is None else lock
        fields = {"flavour": "cpu", "link_mode": "hardlink", "probes": ("alpha",), **more}
        return Spec(name=name, lock=text, interpreter=THIS_PYTHON, **fields)

    def ensure(self, spec: Spec, store: Store | None = None, **more: Any) -> Built:
        return (store or self.store()).ensure(spec, **{**self.supplies, **more})


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)
