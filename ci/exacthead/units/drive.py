"""The program of a shard's item: ``python -I drive.py ORDER.json FOLDER``.

``ORDER.json`` is the order (order.py), ``FOLDER`` the item's folder; streams go to
``FOLDER/artifacts/tests``. Exit codes: 0 everything that was planned ran and nothing is wrong; 1
something is wrong, or was not run; 2 the order cannot be read or the folder not be written to; 4
told to stop by a signal; 5 the order plans nothing.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path

_REFUSED = 2


def main() -> int:
    """Run the order; returns the exit code."""
    from exacthead.errors import HarnessError
    from exacthead.units.driver import Driver
    from exacthead.units.order import read_order

    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a test said may hold what no encoding has; a line of progress never ends a shard.
        sys.stdout.reconfigure(errors="backslashreplace")
    order, folder = Path(sys.argv[1]), Path(sys.argv[2])
    try:
        driver = Driver(read_order(order), folder.absolute(), os.environ, _say)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, driver.stop)
        return driver.run()
    except (HarnessError, OSError) as error:
        _say(str(error))
        return _REFUSED


def _say(line: str) -> None:
    """One line for whoever follows the item's log."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    sys.exit(main())
