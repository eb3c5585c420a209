"""Where a Debian is made from when nobody said: the archive that this machine itself is from."""

from __future__ import annotations

import os
import shutil
import subprocess
from urllib.parse import urlsplit

from exacthead.environ import clean_environment
from exacthead.errors import HarnessError

_ANSWER_S = 60


# Names a mirror on a machine that is no Debian, and has the last word on one that is.
VARIABLE = "EXACTHEAD_DEBIAN_MIRROR"


def own_mirror() -> str:
    """The mirror that ``EXACTHEAD_DEBIAN_MIRROR`` names, else the first of apt's own sources.

    Of these, it is one of Debian's main archive: all such mirrors have paths that end in
    ``/debian``; security and foreign archives do not.

    Raises:
        HarnessError: there is no apt, or it has no such source.
    """
    asked = "a mirror of Debian from this machine's apt sources"
    todo = f"name it: {VARIABLE}, or `mirror` of the base in ci/harness.toml"
    if named := os.environ.get(VARIABLE):
        return named.rstrip("/")
    program = shutil.which("apt-get")
    if program is None:
        raise HarnessError(asked, "no apt-get on PATH", todo)
    try:
        done = subprocess.run(
            [program, "indextargets", "--format", "$(REPO_URI)"],
            env=clean_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_ANSWER_S,
        )
    except subprocess.TimeoutExpired as error:
        raise HarnessError(asked, f"apt-get gave no answer in {_ANSWER_S} s", todo) from error
    if done.returncode != 0:
        raise HarnessError(asked, f"apt-get: {done.stderr.strip()[-300:]}", todo)
    sources = list(dict.fromkeys(line.strip().rstrip("/") for line in done.stdout.splitlines()))
    found = [each for each in sources if urlsplit(each).path.endswith("/debian")]
    if not found:
        raise HarnessError(asked, f"sources: {', '.join(sources) or 'none'}", todo)
    return found[0]
