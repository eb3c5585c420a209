"""The workers command on a worker that is really built, from a folder of wheels."""

from __future__ import annotations

import hashlib
import re
import sys
from typing import TYPE_CHECKING

import pytest

from exacthead.cli import main
from exacthead.config import load
from exacthead.workers.lock import sealed, worker_inputs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unit.exacthead.conftest import Repository

WORKER = f"""
[project]
name = "tiny"

[workers.small]
python = "{sys.version_info.major}.{sys.version_info.minor}"
requirements = ["alpha"]
probes = ["alpha"]
link_mode = "copy"
"""


@pytest.fixture
def ask(
    empty_repository: Repository,
    make_wheel: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str]]:
    """A function that runs ``exacthead workers ...`` in a repository with one small worker."""
    wheel = make_wheel(tmp_path / "wheels", "alpha", "1.0")
    empty_repository.write({"ci/harness.toml": WORKER})
    inputs = worker_inputs(load(empty_repository.root), "small", "cpu")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock = sealed("a test", inputs, f"alpha==1.0 \\\n    --hash=sha256:{digest}\n")
    empty_repository.commit({"ci/locks/small-cpu.txt": lock})
    monkeypatch.chdir(empty_repository.root)
    for name, value in {
        "PIP_CONFIG_FILE": "/dev/null",
        "UV_NO_CONFIG": "1",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheel.parent),
        "UV_CACHE_DIR": str(tmp_path / "uv-cache"),
    }.items():
        monkeypatch.setenv(name, value)

    def workers(*arguments: str) -> tuple[int, str]:
        code = main(["workers", *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return workers


def test_a_worker_s_whole_life(
    ask: Callable[..., tuple[int, str]], empty_repository: Repository
) -> None:
    code, printed = ask("--verify")
    assert code == 2
    assert "none of them is built" in printed

    code, printed = ask()
    assert code == 0, printed
    assert "worker small: built" in printed
    assert "worker small: reused" in ask("small")[1]
    assert re.search(r"ready +0\.\d\d GB  small\n", ask("--list")[1])
    assert ask("--verify") == (0, "worker small: 0 damages\n")

    (module,) = empty_repository.root.glob(
        ".cache/workers/workers/*/lib/python3*/site-packages/alpha/__init__.py"
    )
    module.write_text("# changed\n", encoding="utf-8")
    code, printed = ask("--verify", "small")
    assert code == 1
    assert "alpha/__init__.py" in printed

    code, printed = ask("--repair", "small")
    assert code == 0, printed
    assert "worker small: built" in printed
    assert module.read_text(encoding="utf-8") == ""
    assert ask("--verify") == (0, "worker small: 0 damages\n")

    code, printed = ask("--gc", "0")
    assert printed.startswith("removed ")
    assert ask("--list") == (0, "")
