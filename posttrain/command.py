"""The command line that every entry point has: ``python -m posttrain.NAME RECIPE key=value``."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from posttrain.config import explain, identity
from posttrain.config.load import load_schema
from posttrain.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posttrain.config import Loaded
    from posttrain.config.keys import Section

S = TypeVar("S", bound="Section")


def command(
    entry: str,
    about: str | None,
    schema: type[S],
    run: Callable[[Loaded[S]], None],
    argv: Sequence[str] | None,
) -> int:
    """Run the recipe that the arguments name, or explain it; returns the exit code.

    Args:
        entry: the entry point's name.
        about: what it does, for ``--help``.
        schema: what it reads.
        run: what it does with the recipe; a :class:`~posttrain.errors.StackError` is a failure,
            whose text is shown.
        argv: the arguments; None for the process's own.
    """
    parser = argparse.ArgumentParser(prog=f"posttrain.{entry}", description=about)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--explain", action="store_true", help="print each value's origin and end")
    arguments = parser.parse_args(argv)
    try:
        loaded = load_schema(schema, arguments.recipe, arguments.overrides, entry)
        if arguments.explain:
            sys.stdout.write(explain(loaded))
            return 0
        for line in identity(loaded):
            sys.stderr.write(f"posttrain: {line}\n")
        # A run that is told to end leaves by the same way as one that fails: through its clean-up.
        signal.signal(signal.SIGTERM, _leave)
        run(loaded)
    except StackError as error:
        sys.stderr.write(f"posttrain: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("posttrain: interrupted\n")
        return 128 + signal.SIGINT
    return 0


def _leave(number: int, _frame: Any) -> NoReturn:
    sys.exit(128 + number)
