"""The commands about workers, images, locks and declarations, and their options."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from exacthead.options.shared import Add


def add_upkeep(add: Add) -> None:
    """Add them."""
    _workers(add("workers", _upkeep, "Build workers, or look at them."))
    _images(add("images", _image_command, "Build the head's images, or look at images."))

    lock = add("lock", _upkeep, "Write the lock of each worker and flavour.")
    lock.add_argument("names", nargs="*", help="workers, or `harness`; default: all")
    lock.add_argument("--check", action="store_true", help="only say which are stale")
    lock.add_argument("--upgrade", action="store_true", help="forget the present pins")

    init = add("init", _init, "Write what a repository needs to be tested: ci/harness.toml.")
    init.add_argument("--provided", metavar="PYTHON", help="of an environment that is there")
    init.set_defaults(begin=Path)  # there is nothing to load yet

    lint = add("lint", _upkeep, "Formatting, rules, types, shell scripts, locks.")
    lint.add_argument("--fix", action="store_true", help="mend what is safe to mend")


def _upkeep() -> ModuleType:
    from exacthead import upkeep

    return upkeep


def _image_command() -> ModuleType:
    from exacthead.images import command

    return command


def _init() -> ModuleType:
    from exacthead.init import command

    return command


def _gigabytes(text: str) -> float:
    value = float(text)
    # A slip such as -1 would remove everything.
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text} is no amount to keep; give GB from 0 on")
    return value


def _workers(workers: argparse.ArgumentParser) -> None:
    workers.add_argument("names", nargs="*", help="workers of harness.toml; default: all")
    workers.add_argument("--flavour", choices=("cpu", "cuda"), default="cpu")
    what = workers.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="the workers in the store")
    what.add_argument("--explain", action="store_true", help="why two workers' keys differ")
    what.add_argument("--verify", action="store_true", help="hash every file of the named ones")
    what.add_argument("--repair", action="store_true", help="verify, and rebuild the damaged ones")
    what.add_argument(
        "--gc", metavar="GB", type=_gigabytes, help="keep so much; least recently used ones go"
    )


def _images(images: argparse.ArgumentParser) -> None:
    images.add_argument(
        "names", nargs="*", help="images of harness.toml; default: all of a flavour"
    )
    images.add_argument("--flavour", choices=("cpu", "cuda"), default="cpu")
    images.add_argument("--base-image", metavar="NAME", default="", help="on another base")
    images.add_argument("--dirty", action="store_true", help="of a dirty checkout, as no head")
    images.add_argument("--rebuild", action="store_true", help="whatever is in a cache")
    does = images.add_mutually_exclusive_group()
    does.add_argument("--list", action="store_true", help="the images of ours in the engine")
    does.add_argument(
        "--plan", action="store_true", help="what would be built, as JSON; builds none"
    )
    does.add_argument("--explain", action="store_true", help="how workers in images differ")
    does.add_argument("--verify", metavar="REF", help="whether an image is the head's")
    does.add_argument("--export", metavar="FILE", help="the named image as an OCI archive")
    does.add_argument("--import", metavar="FILE", dest="import_", help="an archive into the engine")
    does.add_argument("--push", metavar="REPOSITORY", help="the named image, to a registry")
    does.add_argument("--pull", metavar="REF", help="repository@sha256:... from a registry")
    does.add_argument(
        "--save-cache", metavar="FOLDER", help="the environments, for another machine"
    )
    does.add_argument("--load-cache", metavar="FOLDER", help="environments of another machine")
    does.add_argument("--gc", metavar="GB", type=float, help="images and layers of no late run go")
    does.add_argument("--reap", action="store_true", help="containers of ended harnesses go")
