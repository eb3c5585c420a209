"""From a bare Python to the harness environment: noxw, the fetched uv, many builders at once."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead import bootstrap

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
# A uv that makes an "environment" whose python says what nox was asked, and notes each call.
FAKE_UV = """#!/bin/sh
echo "$*" >>"{log}"
case $1 in
    --version) echo "uv {version} (test)" ;;
    venv)
        for last; do :; done
        mkdir -p "$last/bin" "$last/lib/python3.13/site-packages/nox"
        printf '#!/bin/sh\\necho "nox got: $*"\\necho "PATH $PATH"\\n' >"$last/bin/python"
        chmod 755 "$last/bin/python"
        {extra}
        ;;
esac
"""


@pytest.fixture
def fake_uv(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a uv into a folder of its own and returns the folder."""

    def make(version: str = "99.0.0", extra: str = ":", folder: str = "fake") -> Path:
        place = tmp_path / folder
        place.mkdir()
        uv = place / "uv"
        log = tmp_path / "uv.log"
        uv.write_text(FAKE_UV.format(log=log, version=version, extra=extra), encoding="utf-8")
        uv.chmod(0o755)
        return place

    return make


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """noxw, the harness's package and its locks, elsewhere."""
    root = tmp_path / "checkout with a space"
    shutil.copytree(
        ROOT / "ci" / "exacthead",
        root / "ci" / "exacthead",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shutil.copy(ROOT / "noxw", root / "noxw")
    (root / "ci" / "locks").mkdir()
    (root / "ci" / "locks" / "harness.txt").write_text("nox==1\n", encoding="utf-8")
    return root


def bin_folder(tmp_path: Path, *programs: str) -> Path:
    """A PATH with these programs alone; ``python3`` is the interpreter of this test."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for name in programs:
        target = sys.executable if name == "python3" else shutil.which(name)
        assert target, f"these tests need {name}"
        (folder / name).symlink_to(target)
    return folder


def noxw(
    root: Path, path: str, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(root / "noxw"), *arguments],
        env={"PATH": path, "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def wait_for(path: Path, words: str) -> None:
    """Wait until a file has these words."""
    deadline = time.monotonic() + 60
    while not (path.exists() and words in path.read_text(encoding="utf-8")):
        assert time.monotonic() < deadline, f"no {words!r} in {path}"
        time.sleep(0.02)


def pin(root: Path, digest: str) -> None:
    (root / "ci/locks/uv.txt").write_text(f"uv==99.1.0 \\\n    --hash=sha256:{digest}\n", "utf-8")


@pytest.fixture
def uv_wheel(tmp_path: Path, fake_uv: Callable[..., Path]) -> Path:
    """A wheel folder with a uv for this machine."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    path = folder / f"uv-99.1.0-py3-none-manylinux2014_{platform.machine()}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(fake_uv("99.1.0", folder="packed") / "uv", "uv-99.1.0.data/scripts/uv")
    return path


def test_bootstrap_needs_nothing_but_the_standard_library() -> None:
    source = f"import sys; sys.path.insert(0, {str(ROOT / 'ci')!r}); import exacthead.bootstrap"

    subprocess.run([sys.executable, "-I", "-S", "-c", source], check=True, timeout=60)


def test_noxw_runs_nox_in_the_environment_and_hands_on_its_arguments(
    checkout: Path, tmp_path: Path, fake_uv: Callable[..., Path]
) -> None:
    path = f"{fake_uv()}:{bin_folder(tmp_path, 'python3', 'mkdir', 'chmod')}"

    done = noxw(checkout, path, "-s", "unit", "--", "--suite", "a b")

    assert done.returncode == 0, done.stderr
    nox, env_path = done.stdout.splitlines()
    assert nox == (f"nox got: -I -m nox --noxfile {checkout}/noxfile.py -s unit -- --suite a b")
    assert env_path == f"PATH {path}"

    again = noxw(checkout, path)
    assert "building" not in again.stderr


def test_a_version_manager_s_shim_is_passed_once_and_its_path_is_kept(
    checkout: Path, fake_uv: Callable[..., Path], tmp_path: Path
) -> None:
    shims, log = tmp_path / "shims", tmp_path / "shim.log"
    shims.mkdir()
    shim = shims / "python3"
    shim.write_text(
        f'#!/bin/sh\necho passed >>"{log}"\nPATH="{fake_uv()}:$PATH" exec "{sys.executable}" "$@"\n'
    )
    shim.chmod(0o755)

    done = noxw(checkout, f"{shims}:/usr/bin:/bin", "-l")

    assert "nox got: -I -m nox" in done.stdout, done.stderr
    assert f"PATH {tmp_path / 'fake'}:{shims}" in done.stdout
    assert log.read_text() == "passed\n"


def test_noxw_without_any_python_says_what_to_install(checkout: Path) -> None:
    done = noxw(checkout, "/nonexistent")

    assert done.returncode == 2
    assert "to do: apt-get install python3" in done.stderr


def test_noxw_passes_over_a_python_that_is_too_old(
    checkout: Path, tmp_path: Path, fake_uv: Callable[..., Path]
) -> None:
    folder = bin_folder(tmp_path, "mkdir", "chmod")
    (folder / "python3").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (folder / "python3").chmod(0o755)
    (folder / "python3.12").symlink_to(sys.executable)

    done = noxw(checkout, f"{fake_uv()}:{folder}", "-l")

    assert done.returncode == 0, done.stderr
    assert "nox got:" in done.stdout


@pytest.mark.parametrize("on_path", ["none", "old", "broken"])
def test_the_pinned_uv_is_fetched_where_path_has_no_good_one(
    checkout: Path,
    tmp_path: Path,
    fake_uv: Callable[..., Path],
    uv_wheel: Path,
    on_path: str,
) -> None:
    pin(checkout, hashlib.sha256(uv_wheel.read_bytes()).hexdigest())
    path = str(bin_folder(tmp_path, "python3", "mkdir", "chmod"))
    if on_path != "none":
        folder = fake_uv("0.1.0", folder="old")
        if on_path == "broken":
            (folder / "uv").write_bytes(b"\x00 not a program")
        path = f"{folder}:{path}"

    done = noxw(checkout, path, "-l", PIP_FIND_LINKS=str(uv_wheel.parent), PIP_NO_INDEX="1")

    assert done.returncode == 0, done.stderr
    assert "fetching 99.1.0" in done.stderr
    fetched = checkout / ".cache/uv/99.1.0"
    assert os.access(fetched / "uv", os.X_OK)
    # The sessions find the same uv, first of all.
    assert done.stdout.splitlines()[-1] == f"PATH {fetched}:{path}"


def test_a_wheel_with_another_digest_is_refused_and_not_kept(
    checkout: Path, tmp_path: Path, uv_wheel: Path
) -> None:
    pin(checkout, "0" * 64)
    path = str(bin_folder(tmp_path, "python3"))

    done = noxw(checkout, path, "-l", PIP_FIND_LINKS=str(uv_wheel.parent), PIP_NO_INDEX="1")

    assert done.returncode == 2
    assert "pinned digests" in done.stderr
    assert not list((checkout / ".cache").rglob("uv"))


def test_a_build_that_fails_leaves_nothing_that_looks_ready(
    checkout: Path, tmp_path: Path, fake_uv: Callable[..., Path]
) -> None:
    path = f"{fake_uv(extra='exit 7')}:{bin_folder(tmp_path, 'python3', 'mkdir', 'chmod')}"

    for _ in range(2):
        done = noxw(checkout, path)
        assert done.returncode == 2
        assert "left with exit code 7" in done.stderr


def test_a_lock_that_is_gone_is_named(checkout: Path, tmp_path: Path) -> None:
    (checkout / "ci/locks/harness.txt").unlink()

    done = noxw(checkout, str(bin_folder(tmp_path, "python3")))

    assert done.returncode == 2
    assert "harness.txt" in done.stderr


def test_a_cache_that_cannot_be_written_to_is_named(
    checkout: Path, tmp_path: Path, fake_uv: Callable[..., Path]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    path = f"{fake_uv()}:{bin_folder(tmp_path, 'python3')}"

    done = noxw(checkout, path, EXACTHEAD_CACHE=str(tmp_path / "file"))

    assert done.returncode == 2
    assert "EXACTHEAD_CACHE" in done.stderr


def test_many_at_once_build_one_environment(
    checkout: Path, tmp_path: Path, fake_uv: Callable[..., Path]
) -> None:
    folder = bin_folder(tmp_path, "python3", "mkdir", "chmod", "sleep")
    path = f"{fake_uv(extra='sleep 1')}:{folder}"
    command = ["/bin/sh", str(checkout / "noxw")]
    started = [
        subprocess.Popen(command, env={"PATH": path}, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]

    for process in started:
        printed, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert "nox got:" in printed
    calls = (tmp_path / "uv.log").read_text(encoding="utf-8").splitlines()
    assert len([call for call in calls if call.startswith("venv")]) == 1


def test_a_killed_builder_is_waited_for_by_its_orphan_and_its_rest_is_built_anew(
    checkout: Path, tmp_path: Path, fake_uv: Callable[..., Path]
) -> None:
    folder = bin_folder(tmp_path, "python3", "mkdir", "chmod", "sleep", "touch")
    go, late, said = tmp_path / "go", tmp_path / "late", tmp_path / "said"
    orphan = fake_uv(extra=f"while [ ! -e '{go}' ]; do sleep 0.05; done; touch '{late}'")
    path = f"{orphan}:{folder}"
    with subprocess.Popen(["/bin/sh", str(checkout / "noxw")], env={"PATH": path}) as builder:
        log = tmp_path / "uv.log"
        wait_for(log, "venv")
        builder.send_signal(signal.SIGKILL)

    with (
        said.open("wb") as words,
        subprocess.Popen(
            ["/bin/sh", str(checkout / "noxw")], env={"PATH": path}, stderr=words
        ) as waiter,
    ):
        wait_for(said, f"waiting for process {builder.pid}")
        assert not late.exists()
        go.touch()

    assert waiter.returncode == 0, said.read_text(encoding="utf-8")
    # The orphan had written its last when the next builder began.
    calls = [line.split()[0] for line in log.read_text(encoding="utf-8").splitlines()]
    assert calls.count("venv") == 2
    assert late.exists()


@pytest.mark.parametrize("damage", ["package", "python", "record"])
def test_an_environment_that_was_damaged_is_built_anew(
    checkout: Path, tmp_path: Path, fake_uv: Callable[..., Path], damage: str
) -> None:
    path = f"{fake_uv()}:{bin_folder(tmp_path, 'python3', 'mkdir', 'chmod')}"
    assert noxw(checkout, path).returncode == 0
    home = checkout / ".cache/harness"
    (record,) = home.glob("*.json")
    environment = home / record.stem
    if damage == "package":
        shutil.rmtree(environment / "lib/python3.13/site-packages/nox")
    elif damage == "python":
        (environment / "bin/python").unlink()
    else:
        record.write_text(record.read_text(encoding="utf-8")[:-1], encoding="utf-8")

    done = noxw(checkout, path)

    assert done.returncode == 0
    assert "building" in done.stderr
    assert json.loads(record.read_text(encoding="utf-8")) == ["nox"]


def test_another_lock_is_another_environment(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, fake_uv: Callable[..., Path]
) -> None:
    monkeypatch.setenv("PATH", f"{fake_uv()}:{os.environ['PATH']}")
    first = bootstrap.harness_python(checkout)
    (checkout / "ci/locks/harness.txt").write_text("nox==2\n", encoding="utf-8")

    assert bootstrap.harness_python(checkout) != first


def test_nothing_of_the_caller_s_python_settings_reaches_the_harness(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("PYTHONHOME", "/elsewhere")

    changes = bootstrap.harness_environment(ROOT)

    assert changes["PYTHONPATH"] == str(ROOT / "ci")
    assert changes["PYTHONHOME"] is None
    assert changes["PYTHONNOUSERSITE"] == "1"


OLD = """
import sys
sys.modules["tomllib"] = None  # it came with Python 3.11, as did the least that the harness needs
sys.version_info = (3, 10, 13, "final", 0)
sys.path[:0] = [PATH]
"""


def old_python(program: str) -> subprocess.CompletedProcess[str]:
    """A program in this Python, made to look like an older one."""
    return subprocess.run(
        [sys.executable, "-c", OLD.replace("PATH", repr(str(ROOT / "ci"))) + program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_nox_on_an_old_python_is_told_to_use_noxw() -> None:
    done = old_python(
        "from pathlib import Path\n"
        "from exacthead import bootstrap\n"
        "from exacthead.errors import HarnessError\n"
        "try:\n"
        "    bootstrap.harness_python(Path())\n"
        "except HarnessError as error:\n"
        "    print(error)\n"
    )

    assert done.stdout.startswith("a nox that runs on Python 3.11 or newer\n"), done.stderr
    assert "call ./noxw" in done.stdout


def test_the_noxfile_can_be_read_by_an_old_python() -> None:
    stub = (
        "import types\n"
        "nox = sys.modules['nox'] = types.ModuleType('nox')\n"
        "nox.session, nox.options = (lambda function: function), types.SimpleNamespace()\n"
        "import runpy\n"
    )
    done = old_python(f"{stub}print(sorted(runpy.run_path({str(ROOT / 'noxfile.py')!r})))\n")

    assert "'unit'" in done.stdout, done.stderr
