"""Resolve a model's name and revision to the one folder that every process loads.

A revision is a statement about content. A local folder is pinned by the digest of its files
(`sha256:` and 64 hexadecimal digits), a Hugging Face repository by a full commit (40 hexadecimal
digits). The revision's form decides which of the two is meant; nothing is guessed, and nothing is
downloaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

from posttrain.errors import ModelError

LOCAL_REVISION = re.compile(r"sha256:[0-9a-f]{64}")
COMMIT = re.compile(r"[0-9a-f]{40}")
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
SHA256_HEX_DIGITS = 64


def resolve_model(ref: str, revision: str, hub_cache: Path | None = None) -> Path:
    """Return the absolute path of the folder that holds exactly the asked revision.

    Args:
        ref: path of a local folder, or a Hugging Face repository id (`organisation/name`).
        revision: `sha256:` digest of a local folder, or a repository's full commit.
        hub_cache: the hub cache to look in; by default what `HF_HUB_CACHE` or `HF_HOME` name.

    Raises:
        ModelError: the revision is short or symbolic, the model is missing or incomplete, or its
            content is not what the revision says.
    """
    if LOCAL_REVISION.fullmatch(revision):
        return _resolve_folder(Path(ref), revision)
    if COMMIT.fullmatch(revision):
        return _resolve_snapshot(ref, revision, hub_cache or default_hub_cache())
    raise ModelError(
        asked=f"model {ref!r} at revision {revision!r}",
        found="a revision that does not pin content: branches, tags and short hashes can move",
        todo=_how_to_pin(ref),
    )


def content_revision(folder: Path) -> str:
    """Return `sha256:` and the digest of names and bytes of all files in `folder`.

    Names are relative, with `/`. Entries whose name starts with a dot, and `__pycache__`, do not
    count: no loader reads them. Permissions and times do not count either.

    Raises:
        ModelError: there is no such folder, or it holds no file, or a link to a folder.
    """
    if not folder.is_dir():
        raise ModelError(
            asked=f"the content of model folder {folder}",
            found="a file" if folder.exists() else "no such folder",
            todo="correct the path in the recipe",
        )
    digest = hashlib.sha256()
    files = _files(folder)
    if not files:
        raise ModelError(
            asked=f"the content of model folder {folder}",
            found="an empty folder",
            todo="correct the path in the recipe, or make the model again",
        )
    for path in files:
        name = path.relative_to(folder).as_posix()
        digest.update(f"{name}\0{_file_digest(path, 'sha256')}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def default_hub_cache() -> Path:
    """Return the hub cache that Hugging Face's own libraries would use."""
    if cache := os.environ.get("HF_HUB_CACHE"):
        return Path(cache).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    base = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    return base / "huggingface" / "hub"


def _is_folder(ref: str) -> bool:
    return bool(ref) and Path(ref).is_dir()  # an empty path would be the current folder


def _how_to_pin(ref: str) -> str:
    if _is_folder(ref):
        return f"pin the folder by its content: revision {content_revision(Path(ref))}"
    return (
        "give the repository's full commit (40 hexadecimal digits), or for a local folder"
        " 'sha256:' and the digest of its content"
    )


def _resolve_folder(folder: Path, revision: str) -> Path:
    found = content_revision(folder)
    if found != revision:
        raise ModelError(
            asked=f"model folder {folder} at revision {revision}",
            found=f"revision {found}",
            todo="restore the folder's content, or pin the found revision in the recipe",
        )
    _check_complete(folder, f"model folder {folder}")
    return folder.resolve()


def _resolve_snapshot(ref: str, commit: str, cache: Path) -> Path:
    asked = f"model {ref!r} at commit {commit}"
    if _is_folder(ref):
        raise ModelError(
            asked=asked,
            found="a local folder, which no commit pins",
            todo=_how_to_pin(ref),
        )
    if not HUB_ID.fullmatch(ref) or ".." in ref or "--" in ref:
        raise ModelError(
            asked=asked,
            found="neither a folder nor a repository id of the form organisation/name",
            todo="correct the model's name in the recipe",
        )
    # Only snapshots/<commit> counts: refs/main and the like say where a name points today.
    snapshot = cache / f"models--{ref.replace('/', '--')}" / "snapshots" / commit
    if not snapshot.is_dir():
        raise ModelError(
            asked=asked,
            found=f"no folder {snapshot}; {_known_commits(snapshot.parent)}",
            todo=f"fetch it first: hf download {ref} --revision {commit}",
        )
    for path in _files(snapshot):
        _check_blob(path, asked, ref, commit)
    _check_complete(snapshot, asked)
    return snapshot.absolute()


def _known_commits(snapshots: Path) -> str:
    known = sorted(entry.name for entry in snapshots.iterdir()) if snapshots.is_dir() else []
    return f"snapshots there: {', '.join(known)}" if known else "no snapshot of this model there"


def _files(folder: Path) -> list[Path]:
    """Return the files below `folder` that count, sorted by relative name."""
    files = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _ignored(name)]
        for name in folders:
            if (Path(parent) / name).is_symlink():
                raise ModelError(
                    asked=f"the content of model folder {folder}",
                    found=f"{Path(parent) / name}, a link to a folder",
                    todo="replace the link by the files themselves",
                )
        files += [Path(parent) / name for name in names if not _ignored(name)]
    return sorted(files, key=lambda path: path.relative_to(folder).as_posix())


def _ignored(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"


def _file_digest(path: Path, algorithm: str, prefix: bytes = b"") -> str:
    try:
        with path.open("rb") as file:
            digest = hashlib.new(algorithm, prefix, usedforsecurity=False)
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise ModelError(
            asked=f"the content of model file {path}",
            found=str(error),
            todo="fetch or make the model again",
        ) from error
    return digest.hexdigest()


def _check_blob(path: Path, asked: str, ref: str, commit: str) -> None:
    """Compare a snapshot's file with its blob's name, which is the hub's digest of the content.

    Large files are named by their SHA-256, others by Git's object id. A file that is not a link
    (a file system without links) carries no such name.
    """
    if not path.is_symlink():
        return
    name = path.readlink().name
    if len(name) == SHA256_HEX_DIGITS:
        found = _file_digest(path, "sha256")
    else:
        size = path.stat().st_size if path.exists() else 0
        found = _file_digest(path, "sha1", f"blob {size}\0".encode())
    if found != name:
        raise ModelError(
            asked=f"{asked}: file {path.name} with digest {name}",
            found=f"digest {found}: the hub cache is damaged",
            todo=f"delete {path.resolve()} and fetch again: hf download {ref} --revision {commit}",
        )


def _check_complete(folder: Path, asked: str) -> None:
    """Refuse a folder without configuration, tokenizer or weights, such as a half download."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        weights = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    else:
        weights = {"model.safetensors"}
    needed = ["config.json", "tokenizer.json", *sorted(weights)]
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise ModelError(
            asked=asked,
            found=f"no {', '.join(missing)} in {folder}",
            todo="fetch or make the whole model",
        )
