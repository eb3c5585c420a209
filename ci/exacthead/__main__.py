"""`python -m exacthead COMMAND`: what the nox sessions call."""

import signal
import sys


def _begin() -> int:
    # Importing takes a second on a slow machine, in which Ctrl-C is no crash either: the system's
    # own end, without a word, until there is somebody who can say what was interrupted.
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not ignored:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from exacthead.cli import main

    if not ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(_begin())
