"""An engine of one's own: it answers, keeps to its folder, says when it is full, and ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.images import buildkit
from exacthead.images.engine import Engine
from exacthead.images.load import load
from exacthead.images.oci import ImageFile
from exacthead.images.start import no_engine, own_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.images.environment import Environment

ROOT = Path(__file__).parents[2]
# Bytes: room for the engine itself, and not for a base.
SMALL = 64 << 20


@pytest.fixture
def small_disk(environment: Environment) -> Iterator[Path]:
    """A folder on a file system that is too small for the environment's base."""
    if os.getuid() != 0:
        pytest.skip("only root can start an engine and mount a small file system")
    assert environment.layers[0].size > SMALL
    with tempfile.TemporaryDirectory(prefix="ehs-") as folder:
        options = ("-t", "tmpfs", "-o", f"size={SMALL}", "small")
        subprocess.run(["mount", *options, folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_is_said_of_a_load_and_of_a_build_and_nothing_half_done_is_there(
    small_disk: Path, environment: Environment, tmp_path: Path
) -> None:
    base = ImageFile(environment.layers[:1])
    networks = sorted(Path("/sys/class/net").iterdir())
    with own_engine(small_disk) as address, closing(Engine({"DOCKER_HOST": address})) as engine:
        assert engine.local
        assert engine.our_images() == []

        foreign = replace(base, architecture="riscv64")
        with pytest.raises(HarnessError, match=r"of riscv64[\s\S]*of amd64"):
            load(engine, foreign)
        with pytest.raises(HarnessError, match=r"load image[\s\S]*no space left on device"):
            load(engine, base)
        assert engine.image(base.id) is None

        (tmp_path / "big").write_bytes(os.urandom(SMALL))
        dockerfile = tmp_path / "Dockerfile"
        dockerfile.write_text("FROM scratch AS system\nCOPY big /\n", encoding="utf-8")
        order = buildkit.BuildOrder(dockerfile, tmp_path, "system")
        with pytest.raises(HarnessError, match="no space left on device") as caught:
            buildkit.build(engine, order, tmp_path / "log")
        assert "make room" in caught.value.todo
        assert engine.our_images() == []

    assert sorted(Path("/sys/class/net").iterdir()) == networks
    with pytest.raises(HarnessError, match="none answers"):
        Engine({"DOCKER_HOST": address})


HOLDER = """
import sys, time
from pathlib import Path
from exacthead.images.start import own_engine
with own_engine(Path(sys.argv[1])) as address:
    print(address, flush=True)
    time.sleep(600)
"""


def test_an_engine_ends_with_whoever_started_it_however_that_ends(engine: Engine) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can start an engine")
    assert engine.host  # beside it another one starts in a network of its own
    with tempfile.TemporaryDirectory(prefix="ehk-") as folder:
        command = [sys.executable, "-c", HOLDER, folder]
        variables = {**os.environ, "PYTHONPATH": str(ROOT / "ci")}
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline().startswith("unix://")
            pid = int((Path(folder) / "pid").read_text(encoding="ascii"))
            holder.kill()
        deadline = time.monotonic() + 30
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)

        assert not Path(f"/proc/{pid}").exists()


def test_an_engine_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("", encoding="utf-8")

    with pytest.raises(HarnessError, match=r"does not answer; exit code 1; it said:[\s\S]*data"):  # noqa: SIM117
        with own_engine(tmp_path):
            pass


def test_without_a_program_there_is_no_engine_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr("exacthead.images.start._daemon", lambda: None)
    expected = "no engine, and " + (
        "no dockerd to start (apt-get install docker.io)"
        if os.getuid() == 0
        else "only root can start one"
    )

    assert no_engine() == expected
