"""BuildKit: a build ends at its own deadline, and says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from exacthead.errors import HarnessError
from exacthead.images import buildkit

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.images.engine import Engine


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose builds last for ever."""
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(buildkit, "find_client", lambda _path: (str(program),))


@pytest.mark.usefixtures("client")
def test_a_build_is_ended_at_its_deadline(tmp_path: Path) -> None:
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM scratch AS workers\n")
    order = buildkit.BuildOrder(dockerfile, tmp_path, "workers", deadline_s=0.2)
    engine = cast("Engine", SimpleNamespace(host="unix:///nowhere"))
    with pytest.raises(HarnessError) as raised:
        buildkit.build(engine, order, tmp_path / "log")
    assert raised.value.found == "not done after 0.2 s"
    assert raised.value.asked == "build Dockerfile, stage workers"
