from __future__ import annotations

import hashlib
import platform
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.errors import HarnessError
from exacthead.workers.index import Indexes, read_indexes
from exacthead.workers.interpreter import examine
from exacthead.workers.lock import exact, pins
from exacthead.workers.swap import swap_local_builds
from exacthead.workers.uv import run_uv

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.workers.spec import Interpreter

ROOT = Path(__file__).parents[3]
HASH = "--hash=sha256:" + "0" * 64
THIS = f"cp{sys.version_info.major}{sys.version_info.minor}"
NATIVE = f"{THIS}-{THIS}-linux_{platform.machine()}"


def pin(name: str, version: str, *askers: str) -> str:
    via = "".join(f"    #   {asker}\n" for asker in askers)
    return f"{name}=={version} \\\n    {HASH}\n    # via\n{via}"


# torch is asked for by the declaration and by engine; cublas and its loader only by torch.
LOCK = "".join(
    [
        pin("cublas", "13.1", "torch"),
        pin("engine", "1.0", "(declared)"),
        pin("loader", "1.0", "cublas"),
        pin("shared", "1.0", "torch", "engine"),
        pin("sympy", "1.14", "torch"),
        pin("torch", "2.13.0", "(declared)", "engine"),
    ]
)


@pytest.fixture(scope="module")
def this_python() -> Interpreter:
    return examine(Path(sys.executable))


def test_a_local_build_takes_the_pin_s_place_and_what_only_the_other_needed_goes(
    tmp_path: Path, make_wheel: Callable[..., Path], this_python: Interpreter
) -> None:
    wheel = make_wheel(
        tmp_path, "torch", "2.13.0+cpu", tag=NATIVE, requires=("sympy>=1.13", "shared")
    )
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()

    swapped = swap_local_builds(LOCK, "cpu", [tmp_path], this_python)

    assert pins(swapped.lock) == {
        "engine": "1.0",
        "shared": "1.0",
        "sympy": "1.14",
        "torch": "2.13.0+cpu",
    }
    assert f"torch==2.13.0+cpu \\\n    --hash=sha256:{digest}\n" in swapped.lock
    assert swapped.sources == (f"torch 2.13.0+cpu from find-links sha256:{digest}",)
    assert swapped.notes == ()


def test_what_another_distribution_asks_for_stays(
    tmp_path: Path, make_wheel: Callable[..., Path], this_python: Interpreter
) -> None:
    make_wheel(tmp_path, "torch", "2.13.0+cpu")

    swapped = swap_local_builds(LOCK, "cpu", [tmp_path], this_python)

    # sympy is torch's alone, shared is engine's too.
    assert set(pins(swapped.lock)) == {"engine", "shared", "torch"}


def test_a_pin_that_says_nothing_of_who_asks_for_it_stays(
    tmp_path: Path, make_wheel: Callable[..., Path], this_python: Interpreter
) -> None:
    make_wheel(tmp_path, "torch", "2.13.0+cpu")
    lock = f"{LOCK}unknown==1.0 \\\n    {HASH}\n"

    assert "unknown" in pins(swap_local_builds(lock, "cpu", [tmp_path], this_python).lock)


@pytest.mark.parametrize(
    ("version", "tag"),
    [
        ("2.13.0", "py3-none-any"),
        ("2.13.1+cpu", "py3-none-any"),
        ("2.13.0+cu130", "py3-none-any"),
        ("2.13.0+cpu.cxx11", "py3-none-any"),
        ("2.13.0+cpu", "cp310-cp310-linux_x86_64"),
        ("2.13.0+cpu", f"{THIS}-{THIS}t-linux_x86_64"),
        ("2.13.0+cpu", f"{THIS}-{THIS}-win_amd64"),
    ],
)
def test_another_version_build_or_platform_changes_nothing(
    tmp_path: Path,
    make_wheel: Callable[..., Path],
    this_python: Interpreter,
    version: str,
    tag: str,
) -> None:
    make_wheel(tmp_path, "torch", version, tag=tag)

    swapped = swap_local_builds(LOCK, "cpu", [tmp_path], this_python)

    assert pins(swapped.lock) == pins(LOCK)
    assert swapped.sources == ()


@pytest.mark.parametrize(
    ("need", "why"),
    [
        ("mpmath", "it needs mpmath, which the lock does not have"),
        ("sympy>=2", "it needs sympy>=2, the lock has 1.14"),
    ],
)
def test_a_build_whose_needs_the_lock_does_not_meet_is_left_alone_and_noted(
    tmp_path: Path,
    make_wheel: Callable[..., Path],
    this_python: Interpreter,
    need: str,
    why: str,
) -> None:
    make_wheel(tmp_path, "torch", "2.13.0+cpu", requires=(need,))

    swapped = swap_local_builds(LOCK, "cpu", [tmp_path], this_python)

    assert pins(swapped.lock) == pins(LOCK)
    assert swapped.sources == ()
    assert swapped.notes == (f"torch 2.13.0+cpu from find-links is not used: {why}",)


def test_needs_of_other_platforms_of_extras_and_excluded_ones_do_not_count(
    tmp_path: Path, make_wheel: Callable[..., Path], this_python: Interpreter
) -> None:
    requires = (
        "winlib; sys_platform == 'win32'",
        "old; python_version < '3'",
        "optree; extra == 'optree'",
        "triton",
    )
    make_wheel(tmp_path, "torch", "2.13.0+cpu", requires=requires)

    swapped = swap_local_builds(LOCK, "cpu", [tmp_path], this_python, excludes=["Triton"])

    assert len(swapped.sources) == 1


def test_the_best_fitting_wheel_is_taken_and_of_equal_ones_the_first_folder_s(
    tmp_path: Path, make_wheel: Callable[..., Path], this_python: Interpreter
) -> None:
    make_wheel(tmp_path / "a", "torch", "2.13.0+cpu", requires=("shared",))
    native = make_wheel(tmp_path / "b", "torch", "2.13.0+cpu", tag=NATIVE, requires=("sympy",))
    make_wheel(tmp_path / "c", "torch", "2.13.0+cpu", tag=NATIVE)
    folders = [tmp_path / name for name in "abc"]

    (source,) = swap_local_builds(LOCK, "cpu", folders, this_python).sources

    assert source.endswith(hashlib.sha256(native.read_bytes()).hexdigest())


def test_a_wheel_that_cannot_be_read_is_an_error_that_names_it(
    tmp_path: Path, this_python: Interpreter
) -> None:
    (tmp_path / "torch-2.13.0+cpu-py3-none-any.whl").write_bytes(b"half a download")

    with pytest.raises(HarnessError, match=r"metadata of torch-2\.13\.0\+cpu-py3-none-any\.whl"):
        swap_local_builds(LOCK, "cpu", [tmp_path], this_python)


def test_a_wheel_of_another_name_inside_is_an_error(
    tmp_path: Path, make_wheel: Callable[..., Path], this_python: Interpreter
) -> None:
    make_wheel(tmp_path, "evil", "2.13.0+cpu").rename(
        tmp_path / "torch-2.13.0+cpu-py3-none-any.whl"
    )

    with pytest.raises(HarnessError, match="the name 'evil'"):
        swap_local_builds(LOCK, "cpu", [tmp_path], this_python)


@given(text=st.binary(max_size=40))
def test_a_swapped_file_s_content_is_in_the_result(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        wheel = Path(name) / "torch-2.13.0+cpu-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(
                "torch-2.13.0+cpu.dist-info/METADATA",
                "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n",
            )
            archive.writestr("torch/data", text)
        swapped = swap_local_builds(LOCK, "cpu", [Path(name)], examine(Path(sys.executable)))
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()

    assert digest in swapped.lock
    assert digest in swapped.sources[0]


def test_with_the_cpu_build_the_policy_worker_goes_without_cuda(
    tmp_path: Path, make_wheel: Callable[..., Path], this_python: Interpreter
) -> None:
    lock = (ROOT / "ci" / "locks" / "policy-cpu.txt").read_text("utf-8")
    # What the CPU build of torch 2.13.0 asks for.
    requires = (
        "filelock",
        "typing-extensions>=4.10.0",
        "sympy>=1.13.3",
        "networkx>=2.5.1",
        "jinja2",
        "fsspec>=0.8.5",
        "setuptools; python_version >= '3.12'",
    )
    make_wheel(tmp_path, "torch", "2.13.0+cpu", tag=NATIVE, requires=requires)

    swapped = swap_local_builds(lock, "cpu", [tmp_path], this_python, excludes=["triton"])

    gone = pins(lock).keys() - pins(swapped.lock).keys()
    assert swapped.notes == ()
    assert "nvidia-cublas" in gone
    assert all(name.startswith(("nvidia-", "cuda-")) for name in gone)
    assert not [name for name in pins(swapped.lock) if name.startswith(("nvidia-", "cuda-"))]


@pytest.fixture
def indexes(tmp_path: Path, tools: Path) -> Indexes:
    (tmp_path / "wheels").mkdir()
    return read_indexes(
        {
            "PATH": str(tools),
            "HOME": str(tmp_path),
            "UV_CACHE_DIR": str(tmp_path / "cache"),
            "UV_OFFLINE": "1",
            "UV_NO_INDEX": "1",
            "UV_FIND_LINKS": str(tmp_path / "wheels"),
        }
    )


def installed(indexes: Indexes, lock: str, folder: Path) -> list[str]:
    """What uv installs from a lock, as names of dist-info folders."""
    requirements = folder / "requirements.txt"
    requirements.write_text(lock, "utf-8")
    target = folder / "target"
    arguments = ["--require-hashes", "--python", sys.executable, "--target", str(target)]
    run_uv(
        ["pip", "sync", *indexes.uv_arguments(), *arguments, str(requirements)],
        indexes.uv_environment(),
        asked="an installation",
        todo="look at it",
    )
    return sorted(path.name for path in target.glob("*.dist-info"))


def hashed(*wheels: Path) -> str:
    return "".join(
        f"{wheel.name.split('-')[0]}=={wheel.name.split('-')[1]} \\\n"
        f"    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
        for wheel in wheels
    )


def test_uv_installs_the_swapped_build(
    tmp_path: Path, make_wheel: Callable[..., Path], this_python: Interpreter, indexes: Indexes
) -> None:
    plain = make_wheel(tmp_path / "wheels", "torch", "2.13.0")
    make_wheel(tmp_path / "wheels", "torch", "2.13.0+cpu")
    swapped = swap_local_builds(hashed(plain), "cpu", indexes.folders(), this_python)

    assert installed(indexes, exact(swapped.lock), tmp_path) == ["torch-2.13.0+cpu.dist-info"]


def test_uv_installs_the_plain_pin_also_where_a_local_build_is_offered(
    tmp_path: Path, make_wheel: Callable[..., Path], indexes: Indexes
) -> None:
    plain = make_wheel(tmp_path / "wheels", "torch", "2.13.0")
    make_wheel(tmp_path / "wheels", "torch", "2.13.0+cpu")

    # With == uv takes the local build and then fails on its hash; hence exact().
    with pytest.raises(HarnessError, match=r"(?i)hash"):
        installed(indexes, hashed(plain), tmp_path)
    assert installed(indexes, exact(hashed(plain)), tmp_path) == ["torch-2.13.0.dist-info"]


def test_a_wheel_other_than_the_lock_s_is_refused(
    tmp_path: Path, make_wheel: Callable[..., Path], indexes: Indexes
) -> None:
    lock = exact(hashed(make_wheel(tmp_path / "first", "torch", "2.13.0")))
    make_wheel(tmp_path / "wheels", "torch", "2.13.0", requires=("changed",))

    with pytest.raises(HarnessError, match=r"(?i)hash"):
        installed(indexes, lock, tmp_path)
