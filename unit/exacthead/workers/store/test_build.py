"""Building: nothing leaks in, what the spec names gets in, and failures are told in plain words."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.environ import clean_environment
from exacthead.errors import HarnessError
from exacthead.workers.command import Commands
from exacthead.workers.local import LocalPackage

if TYPE_CHECKING:
    from conftest import Yard

MINOR = f"python{sys.version_info.major}.{sys.version_info.minor}"
# Fails where a foreign module can be imported at all.
GUARD = """
import importlib.util
for name in ("user_site", "python_path", "transformers_fake"):
    if importlib.util.find_spec(name) is not None:
        raise RuntimeError(f"{name} has leaked in")
import os
LEAKED = sorted(n for n in os.environ if n.startswith(("PIP_", "PYTHONPATH", "PYTHONUSERBASE")))
if LEAKED:
    raise RuntimeError(f"{LEAKED} have leaked in")
"""


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, str]:
    """An environment that offers foreign modules in every way that people have met."""
    places = {
        "user_site": tmp_path / "home" / ".local" / "lib" / MINOR / "site-packages",
        "transformers_fake": tmp_path / "base" / "lib" / MINOR / "site-packages",
        "python_path": tmp_path / "path",
    }
    for name, place in places.items():
        place.mkdir(parents=True)
        (place / f"{name}.py").write_text("")
    return {
        "HOME": str(tmp_path / "home"),
        "PYTHONUSERBASE": str(tmp_path / "base"),
        "PYTHONPATH": str(tmp_path / "path"),
        "PYTHONSTARTUP": str(tmp_path / "nowhere.py"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_TARGET": str(tmp_path / "target"),
        "PIP_USER": "1",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "UV_INDEX_URL": "http://127.0.0.1:9/simple",
        "UV_PROJECT_ENVIRONMENT": str(tmp_path / "elsewhere"),
        "UV_TARGET": str(tmp_path / "target"),
        "VIRTUAL_ENV": str(tmp_path / "virtual"),
    }


def test_the_hostile_environment_is_hostile(hostile: dict[str, str]) -> None:
    # The harness runs its own tests with PYTHONNOUSERSITE, which would tame it.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for name in ("python_path", "transformers_fake"):
        command = [str(Path(sys.executable).resolve()), "-c", f"import {name}"]
        subprocess.run(command, env={**plain, **hostile}, check=True, timeout=60)


def test_user_site_pythonpath_and_pip_variables_do_not_leak_in(
    yard: Yard, hostile: dict[str, str], tmp_path: Path
) -> None:
    lock = yard.wheel("alpha", {"alpha.py": GUARD})
    built = yard.ensure(yard.spec(lock=lock), yard.store(**hostile))
    assert not (tmp_path / "target").exists()
    assert not (tmp_path / "elsewhere").exists()
    # And neither into a process that is started with the clean part of that environment.
    subprocess.run(
        [built.python, "-c", "import alpha"],
        env=clean_environment({**os.environ, **hostile}),
        check=True,
        timeout=60,
    )


def test_the_specs_own_variables_reach_the_probes(yard: Yard) -> None:
    lock = yard.wheel("alpha", {"alpha.py": "import os\nassert os.environ['FLAG'] == 'on'\n"})
    yard.ensure(yard.spec(lock=lock, environment=(("FLAG", "on"),)))
    with pytest.raises(HarnessError, match="AssertionError"):
        yard.ensure(yard.spec(lock=lock, environment=(("FLAG", "off"),)))


def test_everything_is_byte_compiled_even_where_the_caller_forbids_it(yard: Yard) -> None:
    files = {"alpha.py": "", "alpha_parts/__init__.py": "", "alpha_parts/old.py": "print 'two'\n"}
    lock = yard.wheel("alpha", files)
    store = yard.store(PYTHONDONTWRITEBYTECODE="1")
    built = yard.ensure(yard.spec(lock=lock), store)
    site = built.root / "lib" / MINOR / "site-packages"
    compiled = {path.name.split(".")[0] for path in site.rglob("alpha*/**/__pycache__/*.pyc")}
    assert compiled == {"__init__"}
    assert [path.name.split(".")[0] for path in (site / "__pycache__").glob("alpha.*")] == ["alpha"]
    # A file that is not for this Python stops nothing and is named in the log.
    assert "old.py" in store.layout.log(built.key).read_text()


PATCH = """--- a/alpha.py
+++ b/alpha.py
@@ -1 +1 @@
-NAME = 'alpha'
+NAME = 'patched'
"""


def test_a_patch_is_applied_here_and_nowhere_else(yard: Yard, tmp_path: Path) -> None:
    # The store lies in a repository, as it does in real life.
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
    patch = tmp_path / "name.patch"
    patch.write_text(PATCH)
    store = yard.store()
    plain = yard.ensure(yard.spec(), store)
    digest = hashlib.sha256(PATCH.encode()).hexdigest()
    patched = yard.ensure(yard.spec(patches=(digest,)), store, patches=(patch,))
    texts = [
        (built.root / "lib" / MINOR / "site-packages" / "alpha.py").read_text()
        for built in (plain, patched)
    ]
    assert texts == ["NAME = 'alpha'\n", "NAME = 'patched'\n"]
    assert patched.notes == ()
    assert store.verify(plain.key) == []
    assert store.verify(patched.key) == []


def test_a_patch_that_does_not_apply_is_a_failed_build(yard: Yard, tmp_path: Path) -> None:
    patch = tmp_path / "name.patch"
    patch.write_text(PATCH.replace("alpha'", "omega'"))
    spec = yard.spec(patches=(hashlib.sha256(patch.read_bytes()).hexdigest(),))
    with pytest.raises(HarnessError, match="patch does not apply"):
        yard.ensure(spec, patches=(patch,))


def test_another_patch_than_the_spec_names_is_refused(yard: Yard, tmp_path: Path) -> None:
    patch = tmp_path / "name.patch"
    patch.write_text(PATCH)
    with pytest.raises(HarnessError, match="none"):
        yard.ensure(yard.spec(patches=("0" * 64,)))
    with pytest.raises(HarnessError, match=r"0{64}"):
        yard.ensure(yard.spec(patches=("0" * 64,)), patches=(patch,))


BACKEND = """
import base64, hashlib, zipfile
from pathlib import Path

def build_wheel(folder, config_settings=None, metadata_directory=None):
    metadata = "Metadata-Version: 2.1\\nName: local-one\\nVersion: 1.0\\n"
    files = {"local_one.py": Path("local_one.py").read_text(),
             "local_one-1.0.dist-info/METADATA": metadata,
             "local_one-1.0.dist-info/WHEEL":
                 "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
    files["local_one-1.0.dist-info/RECORD"] = "".join(f"{name},,\\n" for name in files)
    with zipfile.ZipFile(Path(folder) / "local_one-1.0-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return "local_one-1.0-py3-none-any.whl"
"""


@pytest.fixture
def local_one(tmp_path: Path) -> Path:
    """A folder with a package of one module and its own build backend."""
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "local-one"\nversion = "1.0"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (folder / "backend.py").write_text(BACKEND)
    (folder / "local_one.py").write_text("VALUE = 0\n")
    return folder


def test_a_local_package_is_installed_as_it_is_now(yard: Yard, local_one: Path) -> None:
    store = yard.store()
    for text in ("VALUE = 1\n", "VALUE = 2\n"):
        (local_one / "local_one.py").write_text(text)
        packages = (("local-one", LocalPackage(local_one).digest()),)
        spec = yard.spec(local_packages=packages, probes=("alpha", "local_one"))
        built = yard.ensure(spec, store, local_packages={"local-one": LocalPackage(local_one)})
        site = built.root / "lib" / MINOR / "site-packages"
        assert (site / "local_one.py").read_text() == text


def test_a_local_package_that_was_edited_after_its_plan_is_refused(
    yard: Yard, local_one: Path
) -> None:
    store = yard.store()
    spec = yard.spec(local_packages=(("local-one", LocalPackage(local_one).digest()),))
    (local_one / "local_one.py").write_text("VALUE = 9\n")

    with pytest.raises(HarnessError, match="changed after the plan was made"):
        yard.ensure(spec, store, local_packages={"local-one": LocalPackage(local_one)})

    assert store.list() == []


def test_what_is_not_in_a_local_package_s_digest_is_not_built_into_it(
    yard: Yard, local_one: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside.py").write_text("VALUE = 3\n")
    (local_one / "local_one.py").unlink()
    (local_one / "local_one.py").symlink_to(tmp_path / "outside.py")
    (local_one / "build").mkdir()
    (local_one / "backend.py").write_text(BACKEND.replace('Path("local', 'Path("build/local'))
    (local_one / "build" / "local_one.py").write_text("VALUE = 4\n")
    spec = yard.spec(local_packages=(("local-one", LocalPackage(local_one).digest()),))

    with pytest.raises(HarnessError, match="No such file"):
        yard.ensure(spec, local_packages={"local-one": LocalPackage(local_one)})


def test_a_local_package_without_its_folder_is_refused(yard: Yard) -> None:
    spec = yard.spec(local_packages=(("local-one", "0" * 64),))
    with pytest.raises(HarnessError, match="local-one"):
        yard.ensure(spec)


def test_an_empty_lock_makes_an_empty_worker(yard: Yard) -> None:
    yard.wheels.mkdir()
    built = yard.ensure(yard.spec(lock="", probes=("json",)))
    assert sorted((built.root / "lib" / MINOR / "site-packages").glob("*.dist-info")) == []


def test_a_disk_that_fills_up_in_a_command_is_named_as_such(yard: Yard) -> None:
    code = "with open('/dev/full', 'w') as file:\n    file.write('x')\n"
    store = yard.store()
    with pytest.raises(HarnessError, match=r"the disk is full: \d+ MB are free"):
        yard.ensure(yard.spec(lock=yard.wheel("alpha", {"alpha.py": code})), store)
    assert store.list() == []


def commands(tmp_path: Path) -> Commands:
    return Commands("tiny", tmp_path / "log", os.open(tmp_path, os.O_RDONLY), float("inf"))


def test_a_disk_that_fills_up_in_the_harness_is_named_as_such(tmp_path: Path) -> None:
    with (
        pytest.raises(HarnessError, match="the disk is full"),
        commands(tmp_path).stage("manifest"),
        Path("/dev/full").open("w", encoding="utf-8") as file,
    ):
        file.write("x")


def test_the_log_holds_no_credentials(tmp_path: Path) -> None:
    quiet = commands(tmp_path)
    quiet.attempt(["true", "--index", "https://name:secret@127.0.0.1/simple"], os.environ)
    log = (tmp_path / "log").read_text()
    assert "secret" not in log
    assert "https://***@127.0.0.1/simple" in log


def test_progress_is_told_every_stage_in_order(yard: Yard) -> None:
    told: list[str] = []
    yard.ensure(yard.spec(), progress=told.append)
    assert told == ["venv", "sync", "compile", "probes", "manifest", "publish"]
