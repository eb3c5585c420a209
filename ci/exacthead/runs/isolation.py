"""What an item sees of the world: environment, folders and ports of its own, set on purpose."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.environ import clean_environment
from exacthead.errors import HarnessError
from exacthead.runs.process import TOKEN_VARIABLE
from exacthead.runs.stacks import STACKS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.runs.folder import ItemFolder
    from exacthead.runs.ports import Ports

PORTS_VARIABLE = "EXACTHEAD_PORTS"
FOLDER_VARIABLE = "EXACTHEAD_ITEM_FOLDER"
ARTIFACTS_VARIABLE = "EXACTHEAD_ARTIFACTS"

# A unix socket's path holds 107 bytes, and Ray's are 66 longer than its temporary folder.
_LONGEST_PRIVATE = 40

# What an item may not set: it would no longer be the harness that isolates it.
_RESERVED = frozenset(
    {
        *(TOKEN_VARIABLE, STACKS_VARIABLE, PORTS_VARIABLE, FOLDER_VARIABLE, ARTIFACTS_VARIABLE),
        *("HOME", "TMPDIR", "PYTHONPATH"),
    }
)

# Processes of an item share few cores: spinning or many threads cost more than they bring.
_THREADS = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

_FIXED = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    # The log is complete at any moment, and a segmentation fault says where.
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    # Nothing is fetched and nothing is told to anyone in the middle of a test.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

# Variable and folder below the item's private folder.
_FOLDERS = {
    "HOME": "home",
    "TMPDIR": "tmp",
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
    "XDG_RUNTIME_DIR": "runtime",
    "HF_HOME": "cache/huggingface",
    "TORCH_HOME": "cache/torch",
    "TORCHINDUCTOR_CACHE_DIR": "cache/inductor",
    "TRITON_CACHE_DIR": "cache/triton",
    "CUDA_CACHE_PATH": "cache/cuda",
    "VLLM_CACHE_ROOT": "cache/vllm",
    "VLLM_CONFIG_ROOT": "config/vllm",
    "FLASHINFER_WORKSPACE_BASE": "cache/flashinfer",
    "MPLCONFIGDIR": "config/matplotlib",
    "HYPOTHESIS_STORAGE_DIRECTORY": "cache/hypothesis",
    # Ray appends "ray/session_<time>_<pid>/sockets/..." to it.
    "RAY_TMPDIR": "",
}
_STACKS = "stacks"


@dataclass(frozen=True)
class Place:
    """What one item has to itself.

    ``private`` holds its temporary files and caches, ``folder`` its results; ``ports`` is its range
    and ``token`` marks its processes.
    """

    private: Path
    folder: ItemFolder
    ports: Ports
    token: str


def private_folder() -> Path:
    """Make an item's private folder, with a path short enough for unix sockets below it.

    Raises:
        HarnessError: when no temporary folder with a short path can be written to.
    """
    tried = []
    for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):  # noqa: S108 - asked in this order, made by mkdtemp
        if len(parent.encode()) + len("/eh-12345678") > _LONGEST_PRIVATE:
            tried.append(f"{parent} (too long)")
            continue
        try:
            return Path(tempfile.mkdtemp(prefix="eh-", dir=parent))
        except OSError as error:
            tried.append(f"{parent} ({error.strerror})")
    raise HarnessError(
        f"a temporary folder whose path has at most {_LONGEST_PRIVATE - 12} characters",
        ", ".join(tried),
        "point TMPDIR at a folder with a short path that can be written to",
    )


def isolated_environment(
    *,
    inherited: Mapping[str, str],
    additions: Mapping[str, str],
    pythonpath: tuple[Path, ...],
    private: Path,
    make: bool = True,
) -> dict[str, str]:
    """The environment of a process that must not see the user's: fixed settings, own folders.

    Args:
        inherited: the harness's own environment; only what ``clean_environment`` keeps is used.
        additions: what the job declares; it goes over the defaults here.
        pythonpath: first-party folders, absolute; an inherited PYTHONPATH never counts.
        private: where folders for temporary files and caches are made.
        make: whether they are made here; elsewhere somebody else makes :func:`own_folders`.

    Raises:
        HarnessError: when ``additions`` sets what isolates the item, or a path is relative.
    """
    reserved = sorted(_RESERVED & additions.keys())
    if reserved:
        raise HarnessError(
            "an item's declared environment",
            f"it sets {', '.join(reserved)}, which isolates the item",
            "remove it from harness.toml; docs/runs.md lists what every item gets",
        )
    relative = [str(path) for path in pythonpath if not path.is_absolute()]
    if relative:
        raise HarnessError(
            "an item's first-party folders",
            f"relative: {', '.join(relative)}",
            "make them absolute",
        )
    folders = {name: str(private / below) for name, below in _FOLDERS.items()}
    for path in own_folders(private) if make else ():
        Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
    return {
        **clean_environment(inherited),
        **_THREADS,
        **_FIXED,
        **folders,
        **additions,
        "PYTHONPATH": os.pathsep.join(str(path) for path in pythonpath),
    }


def own_folders(private: Path) -> tuple[str, ...]:
    """The folders that an item's variables name."""
    return tuple(str(private / below) for below in (*_FOLDERS.values(), _STACKS))


def item_environment(
    *,
    inherited: Mapping[str, str],
    additions: Mapping[str, str],
    pythonpath: tuple[Path, ...],
    place: Place,
    make: bool = True,
) -> dict[str, str]:
    """The whole environment of an item's first process: isolated, with its own ports and token.

    Args:
        inherited: the harness's own environment.
        additions: what the job declares.
        pythonpath: first-party folders, absolute.
        place: where it lives; folders are made there.
        make: as for :func:`isolated_environment`.

    Raises:
        HarnessError: as :func:`isolated_environment`.
    """
    isolated = isolated_environment(
        inherited=inherited,
        additions=additions,
        pythonpath=pythonpath,
        private=place.private,
        make=make,
    )
    return {
        **isolated,
        TOKEN_VARIABLE: place.token,
        PORTS_VARIABLE: str(place.ports),
        FOLDER_VARIABLE: str(place.folder.path),
        ARTIFACTS_VARIABLE: str(place.folder.artifacts),
        STACKS_VARIABLE: str(place.private / _STACKS),
    }
