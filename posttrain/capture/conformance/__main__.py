"""``python -m posttrain.capture.conformance module:factory``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from posttrain.capture.conformance.failure import Failed
from posttrain.capture.conformance.subject import Subject
from posttrain.capture.conformance.suite import CHECKS, run

USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    """Run the checks and print a line for each.

    Returns:
        0 when all passed, 1 when one did not, 2 when the factory cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog="python -m posttrain.capture.conformance",
        description="Put a staging sink and source through everything that capture relies on.",
    )
    parser.add_argument(
        "factory", help="module:callable that takes a place and returns (sink, source)"
    )
    parser.add_argument("--place", help="folder that the factory is given; a new one otherwise")
    parser.add_argument(
        "--check",
        action="append",
        default=[],
        choices=list(CHECKS),
        metavar="NAME",
        help="only this one, may be given more than once: %(choices)s",
    )
    asked = parser.parse_args(arguments)
    if asked.place is not None:
        Path(asked.place).mkdir(parents=True, exist_ok=True)
    with nullcontext(asked.place) if asked.place else tempfile.TemporaryDirectory() as place:
        return _run(Subject(asked.factory, place), asked.check)


def _run(subject: Subject, names: list[str]) -> int:
    try:
        # Kept for the whole run: what is shared may live as long as the first clients.
        with subject.clients():
            outcomes = []
            for outcome in run(subject, names):
                outcomes.append(outcome)
                _say(f"{'passed' if outcome.passed else 'FAILED'}  {outcome.name}")
                if not outcome.passed:
                    _say(f"        {outcome.problem}")
    except Failed as failure:
        sys.stderr.write(f"{failure}\n")
        return USAGE
    failed = sum(not outcome.passed for outcome in outcomes)
    _say(f"{len(outcomes) - failed} of {len(outcomes)} checks passed")
    return 1 if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
