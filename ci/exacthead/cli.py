"""`python -m exacthead COMMAND`: arguments in, exit code out; each command is one function."""

from __future__ import annotations

import argparse
import io
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.options.runs import add_runs
from exacthead.options.services import add_services
from exacthead.options.upkeep import add_upkeep
from exacthead.stop import end_with_parent, stoppable
from exacthead.terminal import Terminal, may_be_lost
from exacthead.trust import check_trust

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

# Exit codes for what a person must mend before anything can run, and for an interruption.
REFUSED = 2
INTERRUPTED = 130
_WIDTH = 120


def main(argv: Sequence[str]) -> int:
    """Run one command.

    Returns:
        0 green, 1 red, 2 refused before anything ran, 130 interrupted.
    """
    arguments = parse(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a test said may hold what this terminal's encoding has not; that ends no run.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Paths and metric names are shown as they are: no markup, no emoji, no colouring of numbers.
    width = None if sys.stdout.isatty() else _WIDTH
    console = Terminal(width=width, markup=False, highlight=False, emoji=False)
    try:
        with stoppable():
            end_with_parent()
            if arguments.command != "trust":  # which tells it where that code is not yet there
                check_trust(Path.cwd())
            run = getattr(arguments.module(), arguments.command)
            code: int = run(arguments.begin(Path.cwd()), arguments, console)
    except HarnessError as error:
        return _end(str(error), REFUSED)
    except KeyboardInterrupt:
        return _end("interrupted; nothing half-built is left", INTERRUPTED)
    return code


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of one command; ends the process where they are none."""
    return _parser().parse_args(argv)


def _end(words: str, code: int) -> int:
    with may_be_lost():
        sys.stdout.flush()
    with suppress(OSError):  # nobody reads it; the exit code says it too
        sys.stderr.write(f"exacthead: {words}\n")
        sys.stderr.flush()
    return code


class _Parser(argparse.ArgumentParser):
    """Says how an option gets a value that looks like an option itself."""

    def error(self, message: str) -> NoReturn:
        if message == "argument --pytest: expected one argument":
            message += "; one that begins with a dash needs a `=`: --pytest=--lf"
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="exacthead", description=__doc__, allow_abbrev=False)
    subparsers = parser.add_subparsers(dest="command", required=True)

    def command(name: str, module: Callable[[], ModuleType], words: str) -> argparse.ArgumentParser:
        added = subparsers.add_parser(name, help=words, description=words, allow_abbrev=False)
        added.set_defaults(module=module, begin=load)
        return added

    add_runs(command)
    add_upkeep(command)
    add_services(command)
    return parser
