"""The build context of an environment: the order, the harness, uv, and what the specs name."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import exacthead
from exacthead.errors import HarnessError
from exacthead.images.layer import EPOCH
from exacthead.workers.resolve import build_supplies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.config import Harness
    from exacthead.workers.index import Indexes
    from exacthead.workers.spec import Spec

# Where workers lie in an image; the store's layout is below it.
ROOT = "/opt/exacthead"
# What the store imports beside the standard library.
_TOOLS = ("filelock", "packaging", "psutil", "pydantic")


@dataclass(frozen=True)
class Context:
    """A context that is written.

    Attributes:
        folder: the context itself.
        secrets: files for the build's secrets, by id; they lie outside of the folder.
    """

    folder: Path
    secrets: dict[str, Path]


def write_context(
    harness: Harness, specs: Mapping[str, Spec], indexes: Indexes, uv: Path, work: Path
) -> Context:
    """Write the context of an environment's build below ``work``.

    Raises:
        HarnessError: packages come from folders of this machine only, which a build cannot reach.
    """
    folder = work / "context"
    package = Path(exacthead.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(package, folder / "harness" / "exacthead", ignore=ignored)
    shutil.copy(uv, folder / "uv")
    orders = [_worker(harness, spec, indexes, folder) for spec in specs.values()]
    order = {
        "root": ROOT,
        "epoch": EPOCH,
        "tools": [f"{name}=={version(name)}" for name in _TOOLS],
        "uv_arguments": list(_index_arguments(indexes)),
        "workers": orders,
    }
    text = json.dumps(order, indent=1, sort_keys=True)
    (folder / "order.json").write_text(text, encoding="utf-8")
    return Context(folder, _secrets(indexes, work))


def _worker(harness: Harness, spec: Spec, indexes: Indexes, folder: Path) -> dict[str, object]:
    supplies = build_supplies(harness, spec, indexes)
    given = list(supplies.get("uv_arguments", ()))
    own = list(indexes.uv_arguments())
    # What the spec asks of uv beside where packages come from.
    arguments = [*_index_arguments(indexes), *given[len(own) :]]
    patches = []
    for number, path in enumerate(supplies.get("patches", ())):
        name = f"patches/{spec.key[:12]}-{number}.patch"
        (folder / "patches").mkdir(exist_ok=True)
        shutil.copy(path, folder / name)
        patches.append(name)
    packages = {}
    for name, package in supplies.get("local_packages", {}).items():
        place = f"packages/{spec.key[:12]}-{name}"
        (folder / "packages").mkdir(exist_ok=True)
        package.copy(folder / place)
        packages[name] = place
    data = asdict(spec)
    data["interpreter"]["path"] = str(spec.interpreter.path)
    return {
        "key": spec.key,
        "spec": data,
        "uv_arguments": arguments,
        "patches": patches,
        "local_packages": packages,
    }


def _index_arguments(indexes: Indexes) -> tuple[str, ...]:
    """Arguments of uv for the sources that a build can reach: pages, no folders of this machine."""
    pages = [place for place in indexes.find_links if _remote(place)]
    if indexes.no_index and not pages:
        raise HarnessError(
            "an image's workers",
            "packages come from folders of this machine only, which a build cannot reach",
            "serve them by http, or build the image elsewhere and import it",
        )
    arguments = ["--index-strategy", "unsafe-best-match"]
    arguments += ["--no-index"] if indexes.no_index else []
    for place in pages:
        arguments += ["--find-links", place]
    return tuple(arguments)


def _secrets(indexes: Indexes, work: Path) -> dict[str, Path]:
    """Addresses, which may hold credentials, and this machine's certificates."""
    extra = [url for url in indexes.extra_indexes if _remote(url)]
    sources = {}
    if indexes.default_index and _remote(indexes.default_index):
        sources["UV_DEFAULT_INDEX"] = indexes.default_index
    if extra:
        sources["UV_INDEX"] = " ".join(extra)
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
    passed = dict(indexes.passed)
    sources |= {
        name: passed[name] for upper in proxies for name in (upper, upper.lower()) if name in passed
    }
    path = work / "sources.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(sources), encoding="utf-8")
    found = {"sources": path}
    bundle = passed.get("SSL_CERT_FILE")
    if bundle and Path(bundle).is_file():
        found["certificates"] = Path(bundle)
    return found


def _remote(place: str) -> bool:
    return urlsplit(place).scheme in {"http", "https"}
