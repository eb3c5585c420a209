"""`python -m exacthead COMMAND`: what the nox sessions call."""

import sys

from exacthead.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
