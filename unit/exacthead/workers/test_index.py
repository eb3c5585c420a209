from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.workers.index import read_indexes
from exacthead.workers.uv import run_uv

if TYPE_CHECKING:
    from collections.abc import Callable

MIRROR = "https://name:secret@mirror.test/simple"
OTHER = "https://other.test/simple"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def machine(home: Path) -> dict[str, str]:
    """A machine on which nothing is configured; the system's own folders are looked past."""
    return {"HOME": str(home), "PATH": "/usr/bin", "XDG_CONFIG_DIRS": str(home / "xdg")}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def option(arguments: tuple[str, ...], name: str) -> list[str]:
    return [value for key, value in pairwise(arguments) if key == name]


@pytest.mark.parametrize(
    "place", [".pip/pip.conf", ".config/pip/pip.conf", "xdg/pip/pip.conf", "named.conf"]
)
def test_a_mirror_in_any_of_pips_files_is_honoured(
    machine: dict[str, str], home: Path, place: str
) -> None:
    path = write(home / place, f"[global]\nindex-url = {MIRROR}\nextra-index-url = {OTHER}\n")
    if place == "named.conf":
        machine["PIP_CONFIG_FILE"] = str(path)

    environment = read_indexes(machine).uv_environment()

    assert environment["UV_DEFAULT_INDEX"] == MIRROR
    assert environment["UV_INDEX"] == OTHER


def test_pips_variables_win_over_its_files_and_uvs_over_both(
    machine: dict[str, str], home: Path
) -> None:
    write(home / ".config/pip/pip.conf", "[global]\nindex-url = https://file.test/simple\n")
    assert read_indexes(machine).default_index == "https://file.test/simple"

    machine["PIP_INDEX_URL"] = "https://variable.test/simple"
    assert read_indexes(machine).default_index == "https://variable.test/simple"

    write(
        home / ".config/uv/uv.toml",
        '[[index]]\nname = "m"\nurl = "https://uv-file.test/simple"\ndefault = true\n',
    )
    assert read_indexes(machine).default_index == "https://uv-file.test/simple"

    machine["UV_DEFAULT_INDEX"] = "mine=https://uv.test/simple?a=b"
    assert read_indexes(machine).default_index == "https://uv.test/simple?a=b"


def test_several_indexes_and_folders_are_told_to_uv_by_pips_rule(
    machine: dict[str, str], home: Path
) -> None:
    (home / "wheels").mkdir()
    machine["PIP_EXTRA_INDEX_URL"] = "https://a.test/simple https://b.test/simple"
    machine["PIP_FIND_LINKS"] = f"{home}/wheels {home}/gone https://c.test/page.html"
    machine["PIP_NO_INDEX"] = "1"

    indexes = read_indexes(machine)

    assert indexes.uv_environment()["UV_INDEX"] == "https://a.test/simple https://b.test/simple"
    assert option(indexes.uv_arguments(), "--index-strategy") == ["unsafe-best-match"]
    assert option(indexes.uv_arguments(), "--find-links") == [
        f"{home}/wheels",
        "https://c.test/page.html",
    ]
    assert "--no-index" in indexes.uv_arguments()
    assert indexes.folders() == (home / "wheels",)


def test_a_folder_given_as_a_file_address_is_a_folder(machine: dict[str, str], home: Path) -> None:
    folder = home / "with space"
    folder.mkdir()
    machine["UV_FIND_LINKS"] = folder.as_uri()

    assert read_indexes(machine).folders() == (folder,)


def test_nothing_else_of_pip_uv_or_python_reaches_a_build(machine: dict[str, str]) -> None:
    leaks = {
        "PIP_TARGET": "/elsewhere",
        "PIP_REQUIRE_VIRTUALENV": "1",
        "PIP_CONFIG_FILE": "/dev/null",
        "UV_INDEX_STRATEGY": "first-index",
        "UV_OVERRIDE": "overrides.txt",
        "UV_PRERELEASE": "allow",
        "PYTHONPATH": "/foreign",
        "PYTHONUSERBASE": "/foreign",
        "PYTHONHOME": "/foreign",
        "VIRTUAL_ENV": "/foreign",
        "CFLAGS": "-O0",
    }
    kept = {"UV_CACHE_DIR": "/cache", "UV_OFFLINE": "1", "https_proxy": "http://proxy.test:1"}

    environment = read_indexes(machine | leaks | kept).uv_environment()

    assert leaks.keys() & environment.keys() == set()
    assert kept.items() <= environment.items()
    assert environment["PATH"] == "/usr/bin"
    assert environment["UV_NO_CONFIG"] == "1"


def test_pips_certificate_is_uvs_unless_one_is_set(machine: dict[str, str]) -> None:
    machine["PIP_CERT"] = "/pip.pem"
    assert read_indexes(machine).uv_environment()["SSL_CERT_FILE"] == "/pip.pem"

    machine["SSL_CERT_FILE"] = "/own.pem"
    assert read_indexes(machine).uv_environment()["SSL_CERT_FILE"] == "/own.pem"


def test_no_credential_and_no_folder_is_shown(machine: dict[str, str], home: Path) -> None:
    (home / "wheels").mkdir()
    machine |= {"PIP_INDEX_URL": MIRROR, "PIP_FIND_LINKS": f"{home}/wheels"}
    machine["https_proxy"] = "http://name:secret@proxy.test:1"

    indexes = read_indexes(machine)

    assert "secret" not in repr(indexes)
    assert indexes.described() == ("index at mirror.test", "find-links of this machine")
    assert "secret" not in " ".join(indexes.uv_arguments())


def test_a_lock_is_made_from_the_default_index_alone(machine: dict[str, str], home: Path) -> None:
    (home / "wheels").mkdir()
    machine |= {"PIP_INDEX_URL": MIRROR, "PIP_EXTRA_INDEX_URL": OTHER}
    machine["PIP_FIND_LINKS"] = str(home / "wheels")

    environment = read_indexes(machine).locking_environment()

    assert environment["UV_DEFAULT_INDEX"] == MIRROR
    assert not environment.keys() & {"UV_INDEX", "UV_FIND_LINKS"}


def test_a_lock_is_never_made_from_a_file_index(machine: dict[str, str]) -> None:
    machine["PIP_INDEX_URL"] = "file:///srv/simple"

    assert "UV_DEFAULT_INDEX" not in read_indexes(machine).locking_environment()
    assert read_indexes(machine).uv_environment()["UV_DEFAULT_INDEX"] == "file:///srv/simple"


def test_the_settings_of_uv_pip_win_over_uv_s_own(machine: dict[str, str], home: Path) -> None:
    text = f'index-url = "{OTHER}"\nno-index = true\n[pip]\nindex-url = "{MIRROR}"\n'
    write(home / ".config/uv/uv.toml", text)

    found = read_indexes(machine)

    assert (found.default_index, found.no_index) == (MIRROR, True)


@pytest.mark.parametrize("content", [b"index-url = [", b"\xff\xfe"])
def test_a_broken_uv_file_is_named(machine: dict[str, str], home: Path, content: bytes) -> None:
    path = write(home / ".config/uv/uv.toml", "")
    path.write_bytes(content)

    with pytest.raises(HarnessError, match=f"read {path}"):
        read_indexes(machine)


def test_a_machine_with_only_a_wheel_folder_installs_from_it(
    machine: dict[str, str],
    home: Path,
    tools: Path,
    tmp_path: Path,
    make_wheel: Callable[..., Path],
) -> None:
    make_wheel(home / "wheels", "alpha", "1.5")
    machine |= {"PATH": str(tools), "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_OFFLINE": "1"}
    write(home / ".config/pip/pip.conf", f"[global]\nno-index = true\nfind-links = {home}/wheels\n")
    requirements = write(tmp_path / "requirements.txt", "alpha==1.5\n")
    indexes = read_indexes(machine)
    target = tmp_path / "target"

    run_uv(
        [
            *("pip", "sync", *indexes.uv_arguments()),
            *("--python", sys.executable, "--target", str(target), str(requirements)),
        ],
        indexes.uv_environment(),
        asked="alpha from the folder",
        todo="look at the folder",
    )

    found = subprocess.run(
        [sys.executable, "-c", "import alpha; print(alpha.__file__)"],
        env={"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()) == target / "alpha" / "__init__.py"
