"""Options that several commands have: which machine, which images, who is told."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import ModuleType

# Adds a command: its name, what imports the module with the function of that name, its help. Each
# command imports what it needs: a job need not wait for what measures suites.
Add = Callable[[str, Callable[[], ModuleType], str], argparse.ArgumentParser]


def add_machine(parser: argparse.ArgumentParser) -> None:
    """On what kind of machine."""
    parser.add_argument("--flavour", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--runner", help="a runner of harness.toml; default: this machine")


def add_place(parser: argparse.ArgumentParser) -> None:
    """The same, and in an image or not."""
    add_machine(parser)
    parser.add_argument(
        "--in", dest="where", choices=("here", "image"), default="here", help="where it runs"
    )
    parser.add_argument(
        "--image", metavar="REF", default="", help="in this one, if it is the head's"
    )
    parser.add_argument(
        "--reuse", metavar="COMMIT", default="", help="the other commit that --image is of"
    )
    parser.add_argument(
        "--dirty", action="store_true", help="an image of a dirty checkout, which is no head"
    )
    parser.add_argument("--base-image", metavar="NAME", default="", help="on another base")


def add_notify(parser: argparse.ArgumentParser) -> None:
    """Who is told of a whole run's verdict."""
    parser.add_argument(
        "--notify", metavar="URL", type=_address, default="", help="post the verdict there"
    )


def _address(text: str) -> str:
    from exacthead.report.notify import check_address  # only those who ask for it need it

    try:
        return check_address(text) if text else ""  # as of a variable that is not set
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
