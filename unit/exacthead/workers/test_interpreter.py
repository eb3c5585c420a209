from __future__ import annotations

import json
import platform
import sys
import sysconfig
from pathlib import Path

import pytest

from exacthead.errors import HarnessError
from exacthead.workers.interpreter import NotAnInterpreterError, examine, find

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def stand_in(path: Path, version: str, **other: str) -> Path:
    """A program that answers as the interpreter ``version`` would."""
    minor = "".join(version.split(".")[:2])
    answer = {
        "implementation": "cpython",
        "version": version,
        "abi": f"cpython-{minor}-x86_64-linux-gnu",
        "platform": "linux-x86_64",
        "base": str(path),
    }
    return script(path, f"echo '{json.dumps(answer | other)}'")


@pytest.fixture
def machine(tmp_path: Path, tools: Path) -> dict[str, str]:
    """A machine with uv and no Python at all, out of reach of any network."""
    return {
        "PATH": str(tools),
        "HOME": str(tmp_path / "home"),
        "UV_CACHE_DIR": str(tmp_path / "uv-cache"),
        "UV_PYTHON_INSTALL_DIR": str(tmp_path / "uv-pythons"),
        "UV_OFFLINE": "1",
    }


def pyenv(machine: dict[str, str], version: str) -> Path:
    return Path(machine["HOME"]) / ".pyenv" / "versions" / version / "bin" / "python3.13"


def search(
    machine: dict[str, str],
    floor: str | None = None,
    *,
    allowed: bool = False,
    folders: tuple[str, ...] = (),
) -> tuple[Path, tuple[str, ...]]:
    found, notes = find(
        "3.13", floor, below_floor_allowed=allowed, environ=machine, system_folders=folders
    )
    return found.path, notes


def test_a_real_interpreter_is_described_by_what_it_says_of_itself() -> None:
    found = examine(Path(sys.executable))

    assert found.version == platform.python_version()
    assert found.implementation == "cpython"
    assert found.abi == sysconfig.get_config_var("SOABI")
    assert found.platform == sysconfig.get_platform()
    assert found.path == Path(sys._base_executable).resolve()


def test_the_python_of_a_virtual_environment_stands_for_the_one_below(
    machine: dict[str, str], tmp_path: Path
) -> None:
    link = tmp_path / "venv" / "bin" / f"python{MINOR}"
    link.parent.mkdir(parents=True)
    link.symlink_to(sys.executable)
    machine["PATH"] += f":{link.parent}"

    found, notes = find(MINOR, None, below_floor_allowed=False, environ=machine, system_folders=())

    assert found.path == Path(sys._base_executable).resolve()
    assert notes == ()


def test_the_highest_patch_release_wins_wherever_it_lies(
    machine: dict[str, str], tmp_path: Path
) -> None:
    stand_in(pyenv(machine, "3.13.2"), "3.13.2")
    best = stand_in(tmp_path / "opt" / "a" / "bin" / "python3.13", "3.13.10")
    stand_in(tmp_path / "opt" / "b" / "bin" / "python3.13", "3.13.9")

    found, _ = search(machine, folders=(str(tmp_path / "opt" / "*" / "bin"),))

    assert found == best


def test_pyenv_versions_are_found_without_being_on_path(machine: dict[str, str]) -> None:
    wanted = stand_in(pyenv(machine, "3.13.0"), "3.13.0")

    assert search(machine) == (wanted, ())


def test_a_pyenv_shim_that_fails_hides_nothing(machine: dict[str, str]) -> None:
    wanted = stand_in(pyenv(machine, "3.13.0"), "3.13.0")
    shims = Path(machine["HOME"]) / ".pyenv" / "shims"
    script(shims / "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    machine["PATH"] = f"{shims}:{machine['PATH']}"

    assert search(machine) == (wanted, ())


def test_pyenv_is_found_by_its_shims_where_home_is_another(
    machine: dict[str, str], tmp_path: Path
) -> None:
    wanted = stand_in(pyenv(machine, "3.13.0"), "3.13.0")
    shims = Path(machine["HOME"]) / ".pyenv" / "shims"
    ran = tmp_path / "ran"
    script(shims / "python3.13", f"touch {ran}; exit 127")
    machine["PATH"] = f"{shims}:{machine['PATH']}"
    machine["HOME"] = str(tmp_path / "private")

    assert search(machine) == (wanted, ())
    assert not ran.exists()


def test_an_interpreter_on_path_that_does_not_run_is_named_with_its_reason(
    machine: dict[str, str], tmp_path: Path
) -> None:
    broken = script(tmp_path / "bin" / "python3.13", "echo 'no libpython' >&2; exit 127")
    machine["PATH"] += f":{broken.parent}"

    with pytest.raises(HarnessError, match=r"refused .*python3.13: exit code 127 no libpython"):
        search(machine)


def test_a_file_name_is_not_believed(machine: dict[str, str], tmp_path: Path) -> None:
    liar = stand_in(tmp_path / "bin" / "python3.13", "3.12.9")
    machine["PATH"] += f":{liar.parent}"

    with pytest.raises(HarnessError, match=r"an interpreter for Python 3\.13"):
        search(machine)


@pytest.mark.parametrize(
    "other", [{"implementation": "pypy"}, {"abi": "cpython-313t-x86_64-linux-gnu"}]
)
def test_only_plain_cpython_will_do(machine: dict[str, str], other: dict[str, str]) -> None:
    stand_in(pyenv(machine, "3.13.5"), "3.13.5", **other)

    with pytest.raises(HarnessError, match="not plain CPython"):
        search(machine)


def test_a_development_build_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAnInterpreterError, match="not the answer of a released Python"):
        examine(stand_in(tmp_path / "python3.13", "3.13.0+"))


def test_one_at_the_floor_needs_no_note(machine: dict[str, str]) -> None:
    stand_in(pyenv(machine, "3.13.0"), "3.13.0")
    wanted = stand_in(pyenv(machine, "3.13.14"), "3.13.14")

    assert search(machine, "3.13.14", allowed=True) == (wanted, ())


def test_below_the_floor_is_used_only_if_allowed_and_noted(machine: dict[str, str]) -> None:
    older = stand_in(pyenv(machine, "3.13.0"), "3.13.0")

    found, notes = search(machine, "3.13.14", allowed=True)

    assert found == older
    assert notes == ("runs on 3.13.0, below its patch floor 3.13.14",)


def test_below_the_floor_is_refused_otherwise_and_the_error_says_how_to_go_on(
    machine: dict[str, str],
) -> None:
    older = stand_in(pyenv(machine, "3.13.0"), "3.13.0")

    with pytest.raises(HarnessError) as caught:
        search(machine, "3.13.14")

    assert "Python 3.13 (at least 3.13.14)" in caught.value.asked
    assert f"3.13.0 at {older}, below the floor" in caught.value.found
    assert "below_patch_floor = true" in caught.value.todo


def test_the_error_names_every_place_the_download_and_the_debian_package(
    machine: dict[str, str],
) -> None:
    with pytest.raises(HarnessError) as caught:
        search(machine, folders=("/nowhere/*/bin",))

    for place in ("uv python list", ".pyenv", "python3.13 on PATH", "/nowhere/*/bin"):
        assert f"{place}" in caught.value.found
    assert "uv python install" in caught.value.found
    assert "apt-get install python3.13" in caught.value.todo


def test_without_any_other_uv_is_asked_to_download_one(
    machine: dict[str, str], tmp_path: Path, tools: Path
) -> None:
    # A uv that can reach its downloads, which the real one cannot here.
    brought = tmp_path / "brought" / "bin" / "python3.13"
    ready = stand_in(tmp_path / "ready", "3.13.20", base=str(brought))
    (tools / "uv").unlink()
    script(
        tools / "uv",
        f"""case "$1 $2" in
        'python list') echo '[]' ;;
        'python install') test "$3" = '>=3.13.14,<3.14' || exit 2
            /bin/mkdir -p '{brought.parent}' && /bin/cp '{ready}' '{brought}' ;;
        'python find') echo '{brought}' ;;
        esac""",
    )
    stand_in(pyenv(machine, "3.13.0"), "3.13.0")

    assert search(machine, "3.13.14") == (brought, ())
