"""Resolving for real, against a served index of hand-built wheels."""

from __future__ import annotations

import functools
import hashlib
import http.server
import re
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.workers.index import Indexes, read_indexes
from exacthead.workers.lock import (
    INPUTS,
    entries,
    harness_inputs,
    lock_path,
    pins,
    read_lock,
    wanted_by,
    worker_inputs,
)
from exacthead.workers.locking import compile_harness_lock, compile_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from exacthead.config import Harness

THIS = f"{sys.version_info.major}.{sys.version_info.minor}"
WORKERS = f"""
[groups]
test = ["alpha>=1"]

[workers.small]
python = "{THIS}"
groups = ["test"]
requirements = ["beta"]
overrides = ["gamma==1.0"]
excludes = ["delta"]
no_deps = ["epsilon==1.0"]
patch_floor = "{THIS}.99"

[workers.small.flavours.cpu]

[workers.small.flavours.cuda]
requirements = ["zeta"]
"""


@pytest.fixture
def index(tmp_path: Path, make_wheel: Callable[..., Path]) -> Iterator[tuple[Path, str]]:
    """A served simple index of the worker ``small``: its folder and its address."""
    folder = tmp_path / "simple"
    for name, version, requires in (
        ("alpha", "1.0", ("gamma>=2",)),
        ("beta", "1.0", ("alpha", "delta")),
        ("gamma", "1.0", ()),
        ("gamma", "2.0", ()),
        ("epsilon", "1.0", ("nowhere",)),
        ("zeta", "1.0", ()),
    ):
        publish(make_wheel(folder / name, name, version, requires=requires))
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keep requests out of the test's output."""


def publish(wheel: Path) -> None:
    page = wheel.parent / "index.html"
    old = page.read_text("utf-8") if page.exists() else ""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    page.write_text(f'{old}<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>\n', "utf-8")


@pytest.fixture
def indexes(index: tuple[Path, str], tools: Path, tmp_path: Path) -> Indexes:
    return read_indexes(
        {
            "PATH": str(tools),
            "HOME": str(Path.home()),
            "UV_CACHE_DIR": str(tmp_path / "cache"),
            "UV_DEFAULT_INDEX": index[1],
            "UV_FIND_LINKS": str(tmp_path),
            "UV_NO_CONFIG": "1",
        }
    )


def test_a_compiled_lock_is_hashed_explained_and_without_address(
    make_harness: Callable[[str], Harness], indexes: Indexes, tmp_path: Path
) -> None:
    harness = make_harness(WORKERS)

    text = compile_lock(harness, "small", "cpu", indexes)

    # gamma is overridden, delta excluded, and epsilon comes without what it needs.
    assert pins(text) == {"alpha": "1.0", "beta": "1.0", "epsilon": "1.0", "gamma": "1.0"}
    assert wanted_by(text) == {
        "alpha": {"(declared)", "beta"},
        "beta": {"(declared)"},
        "epsilon": {"(declared)"},
        "gamma": {"alpha"},
    }
    for name, lines in entries(text).items():
        wheel = next((tmp_path / "simple" / name).glob(f"*-{pins(text)[name]}-*.whl"))
        assert hashlib.sha256(wheel.read_bytes()).hexdigest() in lines
    assert not re.search(r"127\.0\.0\.1|://|/tmp|" + re.escape(str(tmp_path)), text)
    lock_path(harness.root, "small", "cpu").write_text(text, "utf-8")
    assert read_lock(
        lock_path(harness.root, "small", "cpu"), worker_inputs(harness, "small", "cpu")
    )


def test_compiling_again_keeps_the_pins_unless_an_upgrade_is_asked_for(
    make_harness: Callable[[str], Harness],
    indexes: Indexes,
    index: tuple[Path, str],
    make_wheel: Callable[..., Path],
) -> None:
    harness = make_harness(f'[workers.small]\npython = "{THIS}"\nrequirements = ["zeta"]')
    path = lock_path(harness.root, "small", "cpu")
    first = compile_lock(harness, "small", "cpu", indexes)
    path.write_text(first, "utf-8")
    publish(make_wheel(index[0] / "zeta", "zeta", "2.0"))
    fresh = replace(indexes, passed=(*indexes.passed, ("UV_CACHE_DIR", f"{index[0]}-cache")))

    assert compile_lock(harness, "small", "cpu", fresh) == first
    assert pins(compile_lock(harness, "small", "cpu", fresh, upgrade=True)) == {"zeta": "2.0"}


def test_what_cannot_be_resolved_is_said_in_uvs_words(
    make_harness: Callable[[str], Harness], indexes: Indexes
) -> None:
    harness = make_harness(f'[workers.small]\npython = "{THIS}"\nrequirements = ["zeta>7"]')

    with pytest.raises(HarnessError, match=r"(?s)a lock for worker small, flavour cpu.*zeta"):
        compile_lock(harness, "small", "cpu", indexes)


def test_a_distribution_cannot_be_asked_for_with_and_without_its_dependencies(
    make_harness: Callable[[str], Harness], indexes: Indexes
) -> None:
    harness = make_harness(
        f'[workers.small]\npython = "{THIS}"\nrequirements = ["zeta"]\nno_deps = ["zeta"]'
    )

    with pytest.raises(HarnessError, match="zeta without dependencies, yet others need it whole"):
        compile_lock(harness, "small", "cpu", indexes)


def test_the_harness_s_own_lock_is_for_every_platform(
    make_harness: Callable[[str], Harness], indexes: Indexes
) -> None:
    harness = make_harness(WORKERS)

    text = compile_harness_lock(harness.root, indexes)

    assert pins(text) == {"alpha": "1.0", "gamma": "2.0"}
    assert f"{INPUTS}{harness_inputs(harness.root).digest}" in text.splitlines()
