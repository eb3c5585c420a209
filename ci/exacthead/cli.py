"""`python -m exacthead COMMAND`: arguments in, exit code out; each command is one function."""

from __future__ import annotations

import argparse
import io
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.stop import end_with_parent, stoppable
from exacthead.terminal import Terminal, may_be_lost

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
    arguments = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a test said may hold what this terminal's encoding has not; that ends no run.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Paths and metric names are shown as they are: no markup, no emoji, no colouring of numbers.
    width = None if sys.stdout.isatty() else _WIDTH
    console = Terminal(width=width, markup=False, highlight=False, emoji=False)
    try:
        with stoppable():
            end_with_parent()
            run = getattr(arguments.module(), arguments.command)
            code: int = run(load(Path.cwd()), arguments, console)
    except HarnessError as error:
        return _end(str(error), REFUSED)
    except KeyboardInterrupt:
        return _end("interrupted; nothing half-built is left", INTERRUPTED)
    return code


# Each command imports what it needs: a job need not wait for what measures suites.
def _jobs() -> ModuleType:
    from exacthead import commands

    return commands


def _suites() -> ModuleType:
    from exacthead import suite_commands

    return suite_commands


def _upkeep() -> ModuleType:
    from exacthead import upkeep

    return upkeep


def _images() -> ModuleType:
    from exacthead.images import command

    return command


def _dashboard() -> ModuleType:
    from exacthead.report.dashboard import command

    return command


def _end(words: str, code: int) -> int:
    with may_be_lost():
        sys.stdout.flush()
    with suppress(OSError):  # nobody reads it; the exit code says it too
        sys.stderr.write(f"exacthead: {words}\n")
        sys.stderr.flush()
    return code


def _gigabytes(text: str) -> float:
    value = float(text)
    # A slip such as -1 would remove everything.
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text} is no amount to keep; give GB from 0 on")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of runs; give 1 or more")
    return value


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
        added.set_defaults(module=module)
        return added

    job = command("functional", _jobs, "Run the legs of a functional job.")
    job.add_argument("job")
    job.add_argument("--leg", action="append", default=[], help="only this leg; may be repeated")
    _in_images(_placed(_told(job)))

    unit = command("unit", _suites, "Run unit suites, each in its own worker.")
    unit.add_argument("--suite", action="append", default=[], help="only this one; may be repeated")
    unit.add_argument("--shard", metavar="K/N", help="only part K of N of each suite")
    unit.add_argument("--shards", metavar="N", type=int, help="all N parts of each suite, in turn")
    unit.add_argument("-j", "--processes", metavar="N", type=int, help="pytest processes at once")
    unit.add_argument("--retries", metavar="N", type=int, default=0, help="at most 2, fresh each")
    unit.add_argument("--strict", action="store_true", help="what is skipped is red")
    unit.add_argument(
        "--pytest", metavar="ARGS", action="append", default=[], help="for pytest: --pytest=--lf"
    )
    unit.add_argument("--no-cov", dest="coverage", action="store_false", help="measure nothing")
    unit.add_argument(
        "--changed-since", metavar="REV", default="", help="only what changes since can reach"
    )
    unit.add_argument("--base", metavar="REV", default="", help="compare faults with its results")
    unit.add_argument("--gate", action="store_true", help="lines changed since --base must run")
    _in_images(_placed(_told(unit)))

    impact = command("impact", _suites, "Run unit suites and map tests to what they run.")
    impact.add_argument("--suite", action="append", default=[], help="only this; may be repeated")
    _placed(impact)
    impact.set_defaults(where="here", image="", reuse="", dirty=False, base_image="")

    record = command("record", _suites, "Take the times of a run into the durations.")
    record.add_argument("run_folder", metavar="RUN")
    record.add_argument("--whole", action="store_true", help="forget tests that are gone")

    again = command("reproduce", _jobs, "Run one item of an earlier run again.")
    again.add_argument("item", metavar="RUN/ITEM", help="a run folder and an item's id")
    again.add_argument(
        "--until-fail", metavar="N", type=int, default=1, help="repeat up to N times"
    )
    again.add_argument("--bisect-order", metavar="TEST", help="which earlier tests make it fail")

    _add_dashboard(command("dashboard", _dashboard, "Write all runs as static pages."))

    workers = command("workers", _upkeep, "Build workers, or look at them.")
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

    _add_images(command("images", _images, "Build the head's images, or look at images."))

    lock = command("lock", _upkeep, "Write the lock of each worker and flavour.")
    lock.add_argument("names", nargs="*", help="workers, or `harness`; default: all")
    lock.add_argument("--check", action="store_true", help="only say which are stale")
    lock.add_argument("--upgrade", action="store_true", help="forget the present pins")

    lint = command("lint", _upkeep, "Formatting, rules, types, shell scripts, locks.")
    lint.add_argument("--fix", action="store_true", help="mend what is safe to mend")
    return parser


def _add_images(images: argparse.ArgumentParser) -> None:
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


def _add_dashboard(pages: argparse.ArgumentParser) -> None:
    pages.add_argument("--out", metavar="FOLDER", default="", help="default: runs/dashboard")
    pages.add_argument(
        "--last", metavar="N", type=_count, default=200, help="the newest N runs; default: 200"
    )
    pages.add_argument(
        "--runs-address", metavar="URL", help="of the runs, relative to FOLDER; '' for no links"
    )
    pages.add_argument("--rebuild", action="store_true", help="the history too, from the runs")


def _address(text: str) -> str:
    from exacthead.report.notify import check_address  # only those who ask for it need it

    try:
        return check_address(text) if text else ""  # as of a variable that is not set
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _told(added: argparse.ArgumentParser) -> argparse.ArgumentParser:
    added.add_argument(
        "--notify", metavar="URL", type=_address, default="", help="post the verdict there"
    )
    return added


def _placed(added: argparse.ArgumentParser) -> argparse.ArgumentParser:
    added.add_argument("--flavour", choices=("cpu", "cuda"), default="cpu")
    added.add_argument("--runner", help="a runner of harness.toml; default: this machine")
    return added


def _in_images(added: argparse.ArgumentParser) -> None:
    added.add_argument(
        "--in", dest="where", choices=("here", "image"), default="here", help="where it runs"
    )
    added.add_argument(
        "--image", metavar="REF", default="", help="in this one, if it is the head's"
    )
    added.add_argument(
        "--reuse", metavar="COMMIT", default="", help="the other commit that --image is of"
    )
    added.add_argument(
        "--dirty", action="store_true", help="an image of a dirty checkout, which is no head"
    )
    added.add_argument("--base-image", metavar="NAME", default="", help="on another base")
