"""pip's configuration, read as pip reads it; pip itself is the judge where it is at hand."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.pip_config import PipConfig, default_index, read_pip_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": str(tmp_path / "shared")}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(place: str, text: str) -> Path:
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def config(environ: dict[str, str], tmp_path: Path) -> PipConfig:
    """What is configured in ``tmp_path`` alone, whatever this machine's own file says."""
    return read_pip_config(environ, str(tmp_path / "prefix"), tmp_path / "etc" / "pip.conf")


SYSTEM = "etc/pip.conf"
SHARED, USER, OWN = "shared/pip/pip.conf", "home/.config/pip/pip.conf", "prefix/pip.conf"


def test_without_any_configuration_nothing_is_set(environ: dict[str, str], tmp_path: Path) -> None:
    assert config(environ, tmp_path) == PipConfig()


def test_the_nearer_file_wins_key_by_key(
    environ: dict[str, str], write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    write(SHARED, "[global]\nindex-url = https://shared.test\ncert = /shared.pem\n")
    write(USER, "[global]\nindex-url = https://user.test\nfind-links = /a\n  /b\n")

    found = config(environ, tmp_path)
    assert found == PipConfig("https://user.test", (), ("/a", "/b"), cert="/shared.pem")

    write(SYSTEM, "[global]\nindex-url = https://system.test\nno-index = on\n")
    assert config(environ, tmp_path).index_url == "https://user.test"
    assert config(environ, tmp_path).no_index

    write(OWN, "[global]\nindex-url = https://own.test\n")
    assert config(environ, tmp_path).index_url == "https://own.test"


def test_the_install_section_of_a_weak_file_beats_global_of_a_strong_one(
    environ: dict[str, str], write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    write(SHARED, "[install]\nindex-url = https://install.test\n")
    write(OWN, "[global]\nindex-url = https://global.test\nextra-index-url = https://extra.test\n")

    found = config(environ, tmp_path)

    assert found.index_url == "https://install.test"
    assert found.extra_index_urls == ("https://extra.test",)


def test_variables_beat_every_file_and_empty_ones_do_not_count(
    environ: dict[str, str], write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    write(OWN, "[install]\nindex-url = https://install.test\nno-index = true\n")

    environ |= {"PIP_INDEX_URL": "https://variable.test", "PIP_NO_INDEX": ""}
    found = config(environ, tmp_path)

    assert found.index_url == "https://variable.test"
    assert found.no_index


def test_a_named_file_is_the_strongest_and_devnull_means_none(
    environ: dict[str, str], write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    write(OWN, "[global]\nindex-url = https://own.test\n")
    named = write("named.conf", "[global]\nindex-url = https://named.test\n")

    environ["PIP_CONFIG_FILE"] = str(named)
    assert config(environ, tmp_path).index_url == "https://named.test"
    environ["PIP_CONFIG_FILE"] = "/dev/null"
    assert config(environ, tmp_path).index_url is None


@pytest.mark.parametrize(
    "content",
    [b"index-url = x\n", b"[global]\nno-index = 1\nno-index = 0\n", b"[global]\na = \xff\n"],
)
def test_a_file_that_pip_could_not_read_is_named(
    environ: dict[str, str], write: Callable[[str, str], Path], tmp_path: Path, content: bytes
) -> None:
    path = write(USER, "")
    path.write_bytes(content)

    with pytest.raises(HarnessError, match=f"read {path}"):
        config(environ, tmp_path)


def test_a_name_can_be_written_with_either_dash(
    environ: dict[str, str], write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    write(USER, "[global]\nindex_url = https://user.test\nFind-Links = /wheels\n")

    expected = PipConfig(index_url="https://user.test", find_links=("/wheels",))
    assert config(environ, tmp_path) == expected


def test_a_percent_sign_in_an_address_is_kept(
    environ: dict[str, str], write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    write(USER, "[global]\nindex-url = https://me:p%40ss@index.test/simple\n")

    found = config(environ, tmp_path)

    assert found.index_url == "https://me:p%40ss@index.test/simple"


def test_the_default_index_is_what_this_python_s_pip_says() -> None:
    asked = [
        sys.executable,
        "-c",
        "from pip._internal.models.index import PyPI; print(PyPI.simple_url)",
    ]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    found = default_index()

    if done.returncode == 0:
        assert found == done.stdout.strip()
    else:
        # No pip installed: the wheel that Python carries, if any, has answered.
        assert found is None or found.startswith("https://")
