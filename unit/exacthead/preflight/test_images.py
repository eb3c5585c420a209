"""An image that is neither there nor planned, and what an image must never decide."""

from __future__ import annotations

import gc
import json
import socketserver
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest

from exacthead.images.where import Wanted
from exacthead.selection import Asked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unit.exacthead.preflight.conftest import Broken


class Answers(BaseHTTPRequestHandler):
    """An engine that has no image at all."""

    def do_GET(self) -> None:
        found = self.path.endswith("/version") or self.path.endswith("/_ping")
        body = json.dumps({"ApiVersion": "1.45", "Version": "27", "message": "No such image"})
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_HEAD = do_GET  # noqa: N815 - so the standard library calls it

    def address_string(self) -> str:
        return "a test"

    def log_request(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def empty_engine(socket: Path) -> Iterator[str]:
    with socketserver.ThreadingUnixStreamServer(str(socket), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"unix://{socket}"
        server.shutdown()


def test_a_reused_tag_of_an_image_that_nobody_built(
    broken: Broken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dispatch that failed: the tag switched tests off, then its image was nowhere."""
    given = Wanted(reference="tiny:yesterday", reuse="0123abc")
    with empty_engine(tmp_path / "engine") as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        problem = broken.only(wanted=given)

    assert problem.check == "images"
    assert problem.asked == "image tiny:yesterday"
    assert "nothing here builds one" in problem.found
    # What runs is the same with and without it.
    assert broken.opening(wanted=given).selection == broken.opening().selection


def test_an_item_for_which_no_image_is_planned(
    broken: Broken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.declare('workers = ["trainer", "stager"]', 'workers = ["trainer"]')
    (broken.root / "containers/workers.Dockerfile").unlink()

    with empty_engine(tmp_path / "engine") as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        found = broken.problems(Asked(jobs=("train",)), wanted=Wanted(base="debain"))

    assert [problem.asked.split(" of ")[0] for problem in found] == [
        "base 'debain'",
        "image 'all' by containers/workers.Dockerfile",
        "an image",
    ]
    assert "workers stager, trainer of train.capture" in found[2].asked


# The SDK leaves the socket to the garbage collector when it cannot connect.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_engine_is_one_problem_among_the_others(
    broken: Broken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.write(functional__lost_DOT_sh="")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere")

    found = broken.problems(Asked(jobs=("train",)), wanted=Wanted(reference="tiny:1"))

    gc.collect()
    assert [problem.check for problem in found] == ["scripts", "images"]
